// Codecs and parameters when they are chosen: dictionaries from files, windows, other names.
#include "control/codec_settings.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/fd.h"
#include "tests/support/pages.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/control/real_host.h"

namespace uzram::control {
namespace {

class Files : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  static std::string refusal(const std::string& path) {
    const auto read = read_dictionary(path);
    if (read) return "";
    EXPECT_EQ(read.error().status, Status::invalid_argument) << path;
    return read.error().message;
  }
  static Status set_params(test::RealHost& host, const std::string& value) {
    const auto done = write_attribute(host, "algorithm_params", value);
    return done ? Status::ok : done.error().status;
  }

  test::TempDir dir_;
};

TEST_F(Files, ADictionaryIsReadToItsLastByte) {
  std::string content(kDictionaryBytesMax, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + i / 256);
  for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, kDictionaryBytesMax}) {
    const auto read = read_dictionary(write("dict", content.substr(0, size)));
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ((*read)->size(), size);
    EXPECT_EQ(std::memcmp((*read)->data(), content.data(), size), 0);
  }
  std::filesystem::create_symlink(path("dict"), path("link"));
  EXPECT_TRUE(read_dictionary(path("link")));
}

TEST_F(Files, SizesThatNoDictionaryHas) {
  EXPECT_EQ(refusal(write("empty", "")), "is empty");
  EXPECT_EQ(refusal(write("large", std::string(kDictionaryBytesMax + 1, 'x'))),
            "larger than 1048576 bytes");
  // Far larger than memory should ever be taken for.
  std::filesystem::resize_file(write("vast", "x"), std::uint64_t{1} << 40);
  EXPECT_EQ(refusal(path("vast")), "larger than 1048576 bytes");
}

// None of them is waited for, and no endless one is read.
TEST_F(Files, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(refusal(path("fifo")), "not a regular file");
  EXPECT_EQ(refusal(dir_.path()), "not a regular file");
  EXPECT_EQ(refusal("/dev/zero"), "not a regular file");
  const base::Fd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  EXPECT_NE(refusal(path("socket")), "");
}

TEST_F(Files, WhatCannotBeReadIsToldWhy) {
  EXPECT_EQ(refusal(path("none")), "No such file or directory");
  std::filesystem::create_symlink(path("loop"), path("loop"));
  EXPECT_EQ(refusal(path("loop")), "Too many levels of symbolic links");
  EXPECT_EQ(refusal(write("file", "x") + "/below"), "Not a directory");
  EXPECT_EQ(refusal(""), "No such file or directory");
}

TEST_F(Files, TheAttributeNamesThePath) {
  test::RealHost host;
  const auto done = write_attribute(host, "algorithm_params", "level=1 dict=" + write("e", ""));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "algorithm_params 'dict=" + path("e") + "': is empty");
  EXPECT_EQ(host.options().params.level, std::nullopt);
}

TEST_F(Files, ADictionaryOfTheAttributeServesTheDevice) {
  std::mt19937_64 random(3);
  test::Page page;
  for (std::byte& byte : page) byte = static_cast<std::byte>(random());
  write("dict", std::string(reinterpret_cast<const char*>(page.data()), page.size()));
  test::RealHost host;
  ASSERT_EQ(set_params(host, "dict=" + path("dict")), Status::ok);
  // What was read stays, whatever becomes of the file.
  ASSERT_TRUE(std::filesystem::remove(path("dict")));
  ASSERT_TRUE(write_attribute(host, "disksize", "1M"));
  page[7] ^= std::byte{1};
  ASSERT_EQ(host.device()->write(0, page), Status::ok);
  EXPECT_LT(host.device()->stats().compr_data_size, 200U);
  test::Page now;
  ASSERT_EQ(host.device()->read(0, now), Status::ok);
  EXPECT_EQ(now, page);
}

TEST_F(Files, ParametersThatAreNotGivenAreGone) {
  write("dict", "content");
  test::RealHost host;
  ASSERT_TRUE(write_attribute(host, "recomp_algorithm", "algo=zstd priority=2"));
  ASSERT_EQ(set_params(host, "priority=2 level=9 dict=" + path("dict")), Status::ok);
  EXPECT_EQ(host.options().params.dictionary, nullptr);
  const auto zstd = [&host] { return host.options().recompress_codecs[1]->params; };
  ASSERT_NE(zstd().dictionary, nullptr);
  EXPECT_EQ(zstd().dictionary->size(), 7U);
  ASSERT_EQ(set_params(host, "algo=zstd level=3"), Status::ok);
  EXPECT_EQ(zstd().dictionary, nullptr);
  EXPECT_EQ(zstd().level, 3);
}

TEST_F(Files, ACodecWithoutDictionariesRefusesOne) {
  write("dict", "content");
  test::RealHost host;
  ASSERT_EQ(set_params(host, "dict=" + path("dict")), Status::ok);
  const auto refused = write_attribute(host, "comp_algorithm", "deflate");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("priority=0"), std::string::npos);
  EXPECT_EQ(host.options().codec, "lz4");
  ASSERT_EQ(set_params(host, "priority=0"), Status::ok);
  ASSERT_TRUE(write_attribute(host, "comp_algorithm", "deflate"));
  EXPECT_EQ(set_params(host, "dict=" + path("dict")), Status::not_supported);
  // Begins as what zstd's trainer makes.
  write("damaged", std::string("\x37\xa4\x30\xec", 4) + std::string(60, 'x'));
  ASSERT_TRUE(write_attribute(host, "comp_algorithm", "zstd"));
  EXPECT_EQ(set_params(host, "dict=" + path("damaged")), Status::invalid_argument);
}

TEST(WindowBits, AreThoseOfDeflate) {
  test::RealHost host;
  ASSERT_TRUE(write_attribute(host, "comp_algorithm", "deflate"));
  const auto set = [&host](const std::string& bits) {
    return write_attribute(host, "algorithm_params", "deflate.winbits=" + bits).has_value();
  };
  for (const int bits : {8, 15, -8, -15}) {
    EXPECT_TRUE(set(std::to_string(bits))) << bits;
    EXPECT_EQ(host.options().params.window_bits, bits);
  }
  for (const int bits : {7, 16, 0, -7, -16}) EXPECT_FALSE(set(std::to_string(bits))) << bits;
  EXPECT_EQ(host.options().params.window_bits, -15);
  ASSERT_TRUE(write_attribute(host, "algorithm_params", "level=1"));
  EXPECT_EQ(host.options().params.window_bits, std::nullopt);
  ASSERT_TRUE(write_attribute(host, "comp_algorithm", "zstd"));
  EXPECT_FALSE(set("15"));
}

TEST(CheckCodec, GivesTheCodecsOwnName) {
  EXPECT_EQ(check_codec({"zstd", {.level = 7}}).value().params.level, 7);
  EXPECT_NE(check_codec({"842", {}}).error().message.find("zstd"), std::string::npos);
  const auto lzo = check_codec({"lzo-rle", {}});
  if (!lzo) GTEST_SKIP() << "this build has no lzo";
  EXPECT_EQ(lzo->name, "lzo");
}

}  // namespace
}  // namespace uzram::control
