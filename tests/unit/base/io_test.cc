#include "base/io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include "base/fd.h"

namespace uzram::base {
namespace {

// More than a pipe holds, so that both sides meet short transfers.
TEST(Io, ShortTransfersGoOnToTheEnd) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  std::string sent(1 << 20, 'u');
  sent.back() = 'z';
  std::thread write([&] {
    EXPECT_EQ(write_all(writer.get(), sent), 0);
    writer.reset();
  });
  std::string got(sent.size() + 10, '\0');
  const auto size = read_all(reader.get(), std::as_writable_bytes(std::span(got)));
  write.join();
  ASSERT_TRUE(size);
  EXPECT_EQ(*size, sent.size());
  got.resize(*size);
  EXPECT_EQ(got, sent);
}

TEST(Io, ReadsNoMoreThanThereIsRoomFor) {
  const Fd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  std::array<std::byte, 8> room{};
  room.fill(std::byte{1});
  EXPECT_EQ(read_all(zeros.get(), std::span(room).first(5)).value(), 5U);
  EXPECT_EQ(room[4], std::byte{0});
  EXPECT_EQ(room[5], std::byte{1});
}

TEST(Io, TellsTheErrno) {
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(write_all(full.get(), "x"), ENOSPC);
  std::array<std::byte, 1> room{};
  const auto read = read_all(-1, room);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error(), EBADF);
}

}  // namespace
}  // namespace uzram::base
