#include "control/device_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "base/fd.h"
#include "base/io.h"

namespace uzram::control {
namespace {

// Far above any record: a few attachments, each with a path.
constexpr std::size_t kRecordBytesMax = 64 << 10;

Result<void> write_file(const std::string& path, std::string_view text) {
  const base::Fd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return fail_errno(errno, path);
  if (const int error = base::write_all(file.get(), text); error != 0) {
    return fail_errno(error, path);
  }
  return {};
}

Result<std::string> read_file(const std::string& path) {
  const base::Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return fail_errno(errno, path);
  std::string text(kRecordBytesMax, '\0');
  const auto size = base::read_all(file.get(), std::as_writable_bytes(std::span(text)));
  if (!size) return fail_errno(size.error(), path);
  text.resize(*size);
  return text;
}

}  // namespace

std::string_view state_of(const DeviceRecord& record) noexcept {
  return record.size_bytes == 0 ? "new" : "running";
}

nlohmann::json to_json(const DeviceRecord& record) {
  nlohmann::json attachments = nlohmann::json::array();
  for (const AttachmentRecord& attachment : record.attachments) {
    attachments.push_back({{"kind", attachment.kind},
                           {"where", attachment.where},
                           {"argument", attachment.argument}});
  }
  return {{"name", record.name},
          {"pid", record.pid},
          {"type", record.type},
          {"algo", record.algo},
          {"size", record.size_bytes},
          {"block_size", record.block_size_bytes},
          {"read_only", record.read_only},
          {"backing", record.backing},
          {"backing_size", record.backing_size_bytes},
          {"attachments", std::move(attachments)}};
}

Result<DeviceRecord> record_of_json(const nlohmann::json& json) {
  try {
    DeviceRecord record;
    json.at("name").get_to(record.name);
    json.at("pid").get_to(record.pid);
    json.at("type").get_to(record.type);
    json.at("algo").get_to(record.algo);
    json.at("size").get_to(record.size_bytes);
    json.at("block_size").get_to(record.block_size_bytes);
    json.at("read_only").get_to(record.read_only);
    json.at("backing").get_to(record.backing);
    json.at("backing_size").get_to(record.backing_size_bytes);
    for (const nlohmann::json& attachment : json.at("attachments")) {
      record.attachments.push_back({attachment.at("kind").get<std::string>(),
                                    attachment.at("where").get<std::string>(),
                                    attachment.at("argument").get<std::string>()});
    }
    return record;
  } catch (const nlohmann::json::exception& error) {
    return fail(Status::io_error, std::string("not the record of a device: ") + error.what());
  }
}

Result<void> write_record(const std::string& path, const DeviceRecord& record) {
  const std::string draft = path + ".tmp";
  if (auto written = write_file(draft, dump_line(to_json(record)) + "\n"); !written) {
    ::unlink(draft.c_str());
    return written;
  }
  if (::rename(draft.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(draft.c_str());
    return fail_errno(error, path);
  }
  return {};
}

Result<DeviceRecord> read_record(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return tl::unexpected(text.error());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_discarded()) return fail(Status::io_error, path + ": not JSON");
  return record_of_json(json);
}

std::string dump_line(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace uzram::control
