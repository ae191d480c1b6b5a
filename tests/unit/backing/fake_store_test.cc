#include "tests/support/fake_store.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/unit/backing/blocks.h"

namespace uzram::test {
namespace {

using backing::Io;
using backing::kBlockBytes;

TEST(FakeStore, KeepsAndForgets) {
  FakeStore store(4);
  Blocks in(4), out(4);
  in.fill(1);
  ASSERT_EQ(write(store, 0, in), Status::ok);
  ASSERT_EQ(read(store, 0, out), Status::ok);
  EXPECT_TRUE(in == out);
  store.discard(1, 2);
  EXPECT_EQ(store.block(1)[0], FakeStore::kDiscardedByte);
  EXPECT_EQ(store.block(2)[kBlockBytes - 1], FakeStore::kDiscardedByte);
  EXPECT_EQ(store.block(3)[8], in.block(3)[8]);
  ASSERT_EQ(store.discards().size(), 1U);
  store.flip_bit(3, 9);
  EXPECT_EQ(store.block(3)[1], in.block(3)[1] ^ std::byte{2});
}

TEST(FakeStore, FailsAsTold) {
  FakeStore store(4);
  const Blocks one(1);
  store.fail_nth(Io::Kind::write, 1, Status::no_space);
  EXPECT_EQ(write(store, 0, one), Status::ok);
  EXPECT_EQ(read(store, 0, one), Status::ok);
  EXPECT_EQ(write(store, 0, one), Status::no_space);
  EXPECT_EQ(write(store, 0, one), Status::ok);
  store.fail_all(Io::Kind::read, Status::io_error);
  EXPECT_EQ(read(store, 0, one), Status::io_error);
  EXPECT_EQ(write(store, 0, one), Status::ok);
  store.fail_all(Io::Kind::read, Status::ok);
  EXPECT_EQ(read(store, 0, one), Status::ok);
  EXPECT_EQ(store.count(Io::Kind::write), 4U);
  EXPECT_EQ(store.count(Io::Kind::read), 3U);
}

TEST(FakeStore, HoldsOneAndLetsOthersPass) {
  FakeStore store(8);
  const Blocks blocks(8);
  store.hold(Io::Kind::write, 0);
  std::vector<Io> batch;
  for (std::size_t i = 0; i < 8; ++i) {
    batch.push_back({Io::Kind::write, i * kBlockBytes, blocks.block(i), Status::would_block});
  }
  std::thread writer([&] { store.run(batch, 3); });
  store.wait_until_held(1);
  EXPECT_EQ(store.count(Io::Kind::write), 7U);
  EXPECT_EQ(read(store, 0, Blocks(1)), Status::ok);
  EXPECT_EQ(store.count(Io::Kind::write), 7U);
  store.release();
  writer.join();
  for (const Io& io : batch) EXPECT_EQ(io.status, Status::ok);
  EXPECT_EQ(store.in_flight_peak(), 3U);
}

TEST(FakeStore, ShutDownFailsHeldAndLaterOnes) {
  FakeStore store(4);
  const Blocks one(1);
  store.hold(Io::Kind::read);
  std::thread reader([&] { EXPECT_EQ(read(store, 0, Blocks(1)), Status::io_error); });
  store.wait_until_held(1);
  store.shut_down();
  reader.join();
  EXPECT_EQ(write(store, 0, one), Status::io_error);
  store.discard(0, 1);
  EXPECT_EQ(store.block(0)[0], std::byte{0});
  EXPECT_TRUE(store.discards().empty());
}

}  // namespace
}  // namespace uzram::test
