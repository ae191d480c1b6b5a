#include "pool/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace uzram::pool {
namespace {

class PoolTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kRegions = 40;

  void make(std::uint64_t limit) {
    const std::uint64_t headers = kRegionBytes;
    image_ =
        base::MemoryMap::reserve(2 * kRegionBytes + std::uint64_t{kRegions} * kRegionBytes).value();
    pool_ = Pool::create(image_, {2 * kRegionBytes, kRegions, headers}, limit).value();
  }

  std::uint64_t objects() {
    pool_->flush(cache_);
    std::uint64_t count = 0;
    EXPECT_TRUE(pool_->check(count));
    return count;
  }

  base::MemoryMap image_;
  std::unique_ptr<Pool> pool_;
  Cache cache_;
};

TEST_F(PoolTest, ObjectsOfAllClassesAreDisjointAndKeepTheirBytes) {
  make(0);
  std::mt19937 random(7);
  struct Object {
    ObjectRef ref;
    std::uint32_t bytes;
    std::byte mark;
  };
  std::vector<Object> live;
  for (int i = 0; i < 20000; ++i) {
    if (!live.empty() && random() % 3 == 0) {
      std::swap(live[random() % live.size()], live.back());
      const Object object = live.back();
      live.pop_back();
      const std::byte* at = pool_->packed_payload(object.ref);
      ASSERT_EQ(at[0], object.mark);
      ASSERT_EQ(at[object.bytes - 1], object.mark);
      ASSERT_EQ(pool_->packed_header(object.ref).load(), object.bytes);
      pool_->free(cache_, object.ref);
      continue;
    }
    const std::uint32_t bytes = 1 + static_cast<std::uint32_t>(random()) % kPackedBytesMax;
    const ObjectRef ref = pool_->allocate(cache_, class_of_packed(bytes));
    ASSERT_NE(ref, kNoObject);
    const auto mark = static_cast<std::byte>(i);
    std::memset(pool_->packed_payload(ref), static_cast<int>(mark), bytes);
    pool_->packed_header(ref).store(bytes);
    live.push_back({ref, bytes, mark});
  }
  EXPECT_EQ(objects(), live.size());
  for (const Object& object : live) pool_->free(cache_, object.ref);
  EXPECT_EQ(objects(), 0U);
  pool_->arena().release_spare();
  EXPECT_EQ(pool_->arena().used(), 0U);
}

TEST_F(PoolTest, TheBudgetIsNeverExceededAndAllOfItIsUsable) {
  constexpr std::uint64_t kLimit = 25 * std::uint64_t{kRegionBytes} + 3 * kSpanBytes;
  make(kLimit);
  std::vector<ObjectRef> live;
  for (;;) {
    const ObjectRef ref = pool_->allocate(cache_, kRawClass);
    ASSERT_LE(pool_->arena().used(), kLimit);
    if (ref == kNoObject) break;
    live.push_back(ref);
  }
  EXPECT_EQ(live.size(), kLimit / kPageBytes);
  EXPECT_EQ(pool_->arena().used_max(), kLimit);
  for (const ObjectRef ref : live) pool_->free(cache_, ref);
  EXPECT_EQ(objects(), 0U);
}

TEST_F(PoolTest, WithoutRoomForASpanALargerFreeObjectServes) {
  make(2 * kSpanBytes);
  const ClassIndex small = class_of_packed(100), large = class_of_packed(3000);
  const ObjectRef big = pool_->allocate(cache_, large);
  ASSERT_NE(big, kNoObject);
  std::uint64_t count = 0;
  while (pool_->allocate(cache_, small) != kNoObject) ++count;
  const std::uint64_t in_span = size_class(small).count;
  EXPECT_EQ(count, in_span + size_class(large).count - 1);
}

TEST_F(PoolTest, LoweringTheLimitKeepsObjectsAndRefusesGrowth) {
  make(0);
  std::vector<ObjectRef> live;
  for (int i = 0; i < 1000; ++i) live.push_back(pool_->allocate(cache_, kRawClass));
  pool_->arena().set_limit(kSpanBytes);
  pool_->flush(cache_);
  ObjectRef extra = kNoObject;
  while ((extra = pool_->allocate(cache_, kRawClass)) != kNoObject) live.push_back(extra);
  EXPECT_LE(live.size() * kPageBytes, pool_->arena().used());
  pool_->arena().set_limit(0);
  EXPECT_NE(pool_->allocate(cache_, kRawClass), kNoObject);
}

// Moves whatever it is told is live, and remembers where it went.
class FakeMover final : public Mover {
 public:
  explicit FakeMover(const Pool& pool) : pool_(pool) {}
  bool move(ObjectRef from, ObjectRef to, bool raw) noexcept override {
    const auto found = live.find(from);
    if (found == live.end() || !raw || held.count(from) != 0) return false;
    std::memcpy(pool_.raw_payload(to), pool_.raw_payload(from), kPageBytes);
    live.erase(found);
    live.insert(to);
    return true;
  }
  std::set<ObjectRef> live, held;

 private:
  const Pool& pool_;
};

TEST_F(PoolTest, CompactionEmptiesSparseRegionsAndStops) {
  make(0);
  FakeMover mover(*pool_);
  for (std::uint32_t i = 0; i < 30 * kRegionBytes / kPageBytes; ++i) {
    const ObjectRef ref = pool_->allocate(cache_, kRawClass);
    ASSERT_NE(ref, kNoObject);
    std::memcpy(pool_->raw_payload(ref), &ref, sizeof ref);
    mover.live.insert(ref);
  }
  std::mt19937 random(3);
  for (auto it = mover.live.begin(); it != mover.live.end();) {
    if (random() % 4 != 0) {
      pool_->free(cache_, *it);
      it = mover.live.erase(it);
    } else {
      ++it;
    }
  }
  pool_->flush(cache_);
  const std::uint64_t before = pool_->arena().used();
  const std::uint64_t live_bytes = mover.live.size() * kPageBytes;
  ASSERT_GT(before, live_bytes * 2);
  // One object can't be moved: its region stays, and is not tried over and over.
  mover.held.insert(*mover.live.begin());
  std::uint64_t moved = 0;
  int steps = 0;
  while (pool_->compact_step(mover, kRegionBytes, moved) != Step::nothing) {
    ASSERT_LT(++steps, 200);
  }
  pool_->arena().release_spare();
  EXPECT_LE(pool_->arena().used(), live_bytes + 3 * kRegionBytes);
  EXPECT_EQ(objects(), mover.live.size());
  for (const ObjectRef ref : mover.live) pool_->free(cache_, ref);
  EXPECT_EQ(objects(), 0U);
  pool_->arena().release_spare();
  EXPECT_EQ(pool_->arena().used(), 0U);
}

TEST_F(PoolTest, ResetForgetsEverything) {
  make(0);
  for (int i = 0; i < 20000; ++i)
    ASSERT_NE(pool_->allocate(cache_, class_of_packed(2000)), kNoObject);
  Pool::forget(cache_);
  pool_->reset();
  EXPECT_EQ(pool_->arena().used(), 0U);
  EXPECT_EQ(objects(), 0U);
  EXPECT_NE(pool_->allocate(cache_, class_of_packed(2000)), kNoObject);
}

}  // namespace
}  // namespace uzram::pool
