#include "attach/nbd/address.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace uzram::attach {
namespace {

TEST(NbdAddress, ParsesBothKinds) {
  const auto path = parse_nbd_address("unix:/run/uzram/a.nbd");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->kind, NbdAddress::Kind::unix_socket);
  EXPECT_EQ(path->path, "/run/uzram/a.nbd");
  const auto name = parse_nbd_address("tcp:localhost:10809");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->kind, NbdAddress::Kind::tcp);
  EXPECT_EQ(name->host, "localhost");
  EXPECT_EQ(name->port, 10809);
  const auto six = parse_nbd_address("tcp:[::1]:0");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 0);
  for (const char* text : {"unix:/run/uzram/a.nbd", "tcp:localhost:10809", "tcp:[::1]:0"}) {
    EXPECT_EQ(to_string(*parse_nbd_address(text)), text);
  }
}

TEST(NbdAddress, MakesARelativePathAbsolute) {
  const auto address = parse_nbd_address("unix:some.sock");
  if (!address) GTEST_SKIP() << "the working directory's path is too long for a socket";
  EXPECT_EQ(address->path, (std::filesystem::current_path() / "some.sock").string());
}

TEST(NbdAddress, RefusesWithValueAndRule) {
  const std::string longest = "unix:/" + std::string(106, 'a');
  EXPECT_TRUE(parse_nbd_address(longest));
  const struct {
    std::string text, rule;
  } cases[] = {{"", "unix:PATH or tcp:HOST:PORT"},
               {"/run/a", "unix:PATH or tcp:HOST:PORT"},
               {"vsock:1:2", "unix:PATH or tcp:HOST:PORT"},
               {"unix:", "empty"},
               {"unix:/run/a/", "directory"},
               {longest + "a", "at most 107 bytes"},
               {std::string("unix:/a\0b", 9), "NUL"},
               {"tcp:", "HOST:PORT"},
               {"tcp:localhost", "HOST:PORT"},
               {"tcp::10809", "host is empty"},
               {"tcp:[]:10809", "host is empty"},
               {"tcp:localhost:", "0 to 65535"},
               {"tcp:localhost:65536", "0 to 65535"},
               {"tcp:localhost:-1", "0 to 65535"},
               {"tcp:localhost:0x10", "0 to 65535"},
               {"tcp:localhost:nbd", "0 to 65535"},
               {"tcp:::1:10809", "brackets"},
               {"tcp:a/b:1", "not a host"},
               {"tcp:" + std::string(254, 'h') + ":1", "253"}};
  for (const auto& [text, rule] : cases) {
    const auto address = parse_nbd_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().status, Status::invalid_argument);
    EXPECT_NE(address.error().message.find("'" + text + "'"), std::string::npos);
    EXPECT_NE(address.error().message.find(rule), std::string::npos) << address.error().message;
    EXPECT_EQ(address.error().message.find('\n'), std::string::npos);
  }
}

TEST(NbdAddress, UriIsEscaped) {
  EXPECT_EQ(nbd_uri(*parse_nbd_address("unix:/run/a b?c&d.sock"), "my disk/1"),
            "nbd+unix:///my%20disk%2F1?socket=/run/a%20b%3Fc%26d.sock");
  EXPECT_EQ(nbd_uri(*parse_nbd_address("tcp:[::1]:10809"), "a"), "nbd://[::1]:10809/a");
  EXPECT_EQ(nbd_uri(*parse_nbd_address("tcp:localhost:1"), ""), "nbd://localhost:1/");
}

}  // namespace
}  // namespace uzram::attach
