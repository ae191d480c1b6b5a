#include "attach/nbd/address.h"

#include <sys/un.h>

#include <filesystem>
#include <system_error>

#include "base/units.h"

namespace uzram::attach {
namespace {

// The path and its terminating NUL.
constexpr std::size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t kHostBytesMax = 253;  // RFC 1035, in presentation form

tl::unexpected<Error> refuse(std::string_view text, std::string_view rule) {
  return fail(Status::invalid_argument,
              "NBD address '" + std::string(text) + "': " + std::string(rule));
}

Result<NbdAddress> parse_unix(std::string_view text, std::string_view path) {
  if (path.empty()) return refuse(text, "the path is empty");
  if (path.find('\0') != std::string_view::npos) return refuse(text, "the path holds a NUL");
  std::error_code error;
  const auto absolute = std::filesystem::absolute(std::filesystem::path(path), error);
  if (error) return refuse(text, "the working directory is unknown: " + error.message());
  NbdAddress address;
  address.path = absolute.string();
  if (address.path.size() > kPathBytesMax) {
    return refuse(text, "the path of a socket has at most " + std::to_string(kPathBytesMax) +
                            " bytes, '" + address.path + "' has " +
                            std::to_string(address.path.size()));
  }
  if (address.path.back() == '/') return refuse(text, "the path names a directory");
  return address;
}

Result<NbdAddress> parse_tcp(std::string_view text, std::string_view rest) {
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos) return refuse(text, "tcp takes HOST:PORT");
  std::string_view host = rest.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) return refuse(text, "the host is empty");
  if (host.size() > kHostBytesMax) {
    return refuse(text, "a host has at most " + std::to_string(kHostBytesMax) + " bytes");
  }
  if (!bracketed && host.find(':') != std::string_view::npos) {
    return refuse(text, "an IPv6 address stands in brackets");
  }
  if (host.find_first_of(std::string_view("[]/?#@% \0", 9)) != std::string_view::npos) {
    return refuse(text, "not a host name or an address");
  }
  const auto port = base::parse_count(rest.substr(colon + 1), UINT16_MAX);
  if (!port) return refuse(text, "a port is a number from 0 to 65535");
  NbdAddress address;
  address.kind = NbdAddress::Kind::tcp;
  address.host = host;
  address.port = static_cast<std::uint16_t>(*port);
  return address;
}

// RFC 3986: everything but the unreserved characters is escaped. `keep` stays too.
std::string escape(std::string_view text, std::string_view keep) {
  constexpr std::string_view kUnreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (kUnreserved.find(c) != std::string_view::npos || keep.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
  return out;
}

std::string host_and_port(const NbdAddress& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return (brackets ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace

Result<NbdAddress> parse_nbd_address(std::string_view text) {
  constexpr std::string_view kUnix = "unix:", kTcp = "tcp:";
  if (text.substr(0, kUnix.size()) == kUnix) return parse_unix(text, text.substr(kUnix.size()));
  if (text.substr(0, kTcp.size()) == kTcp) return parse_tcp(text, text.substr(kTcp.size()));
  return refuse(text, "not unix:PATH or tcp:HOST:PORT");
}

std::string to_string(const NbdAddress& address) {
  return address.kind == NbdAddress::Kind::tcp ? "tcp:" + host_and_port(address)
                                               : "unix:" + address.path;
}

std::string nbd_uri(const NbdAddress& address, std::string_view export_name) {
  const std::string name = escape(export_name, "");
  if (address.kind == NbdAddress::Kind::tcp) return "nbd://" + host_and_port(address) + "/" + name;
  return "nbd+unix:///" + name + "?socket=" + escape(address.path, "/");
}

}  // namespace uzram::attach
