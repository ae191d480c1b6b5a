#include "pool/pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/mutex.h"

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

TEST_F(PoolTest, ASmallSpanIsPaidForAsItFills) {
  make(0);
  constexpr std::uint64_t kPages = kChunkBytes / kPageBytes;
  std::vector<ObjectRef> live;
  for (std::uint64_t i = 1; i <= kSpanBytes / kPageBytes; ++i) {
    live.push_back(pool_->allocate(cache_, kRawClass));
    pool_->flush(cache_);
    // A magazine takes up to eight more than it was asked for.
    ASSERT_GE(pool_->arena().used(), (i + kPages - 1) / kPages * kChunkBytes);
    ASSERT_LE(pool_->arena().used(), (i + kPages + 6) / kPages * kChunkBytes);
  }
  EXPECT_EQ(pool_->arena().used(), kSpanBytes);
  for (const ObjectRef ref : live) pool_->free(cache_, ref);
  EXPECT_EQ(objects(), 0U);
  EXPECT_EQ(pool_->arena().used(), 0U);
}

TEST_F(PoolTest, ALimitBelowASpanIsUsableToItsLastChunk) {
  make(3 * kChunkBytes);
  std::uint64_t count = 0;
  while (pool_->allocate(cache_, kRawClass) != kNoObject) ++count;
  EXPECT_EQ(count, 3 * kChunkBytes / kPageBytes);
  EXPECT_EQ(objects(), count);
  pool_->arena().set_limit(4 * kChunkBytes);
  while (pool_->allocate(cache_, kRawClass) != kNoObject) ++count;
  EXPECT_EQ(count, 4 * kChunkBytes / kPageBytes);
}

TEST_F(PoolTest, WithoutRoomForASpanALargerFreeObjectServes) {
  make(2 * kSpanBytes);
  const ClassIndex small = class_of_packed(100), large = class_of_packed(3000);
  const ObjectRef big = pool_->allocate(cache_, large);
  ASSERT_NE(big, kNoObject);
  const std::uint64_t larger = pool_->arena().used() / size_class(large).stride;
  std::uint64_t got_larger = 1;
  for (;;) {
    const ObjectRef ref = pool_->allocate(cache_, small);
    if (ref == kNoObject) break;
    if (pool_->class_of(ref) == large) ++got_larger;
  }
  EXPECT_EQ(got_larger, larger);
  EXPECT_EQ(pool_->arena().used(), 2 * kSpanBytes);
  EXPECT_LT(pool_->slack(), kChunkBytes);
}

TEST_F(PoolTest, ASpanThatCantGrowDoesNotHideFreeObjectsOfAnother) {
  make(0);
  constexpr std::size_t kInSpan = kSpanBytes / kPageBytes;
  std::vector<ObjectRef> live;
  for (std::size_t i = 0; i < kInSpan + 8; ++i) {
    live.push_back(pool_->allocate(cache_, kRawClass));
  }
  pool_->flush(cache_);
  pool_->arena().set_limit(pool_->arena().used());
  // The first span becomes the emptier one, though all of it is paid for.
  for (std::size_t i = 4; i < kInSpan; ++i) pool_->free(cache_, live[i]);
  pool_->flush(cache_);
  for (std::size_t i = 4; i < kInSpan; ++i) {
    ASSERT_NE(pool_->allocate(cache_, kRawClass), kNoObject) << i;
  }
  EXPECT_EQ(pool_->allocate(cache_, kRawClass), kNoObject);
  EXPECT_EQ(objects(), live.size());
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
    const base::MutexLock lock(mutex_);
    const auto found = live.find(from);
    if (found == live.end() || held.count(from) != 0) return false;
    EXPECT_EQ(raw, pool_.class_of(from) == kRawClass);
    EXPECT_EQ(pool_.class_of(to), pool_.class_of(from));
    if (raw) {
      std::memcpy(pool_.raw_payload(to), pool_.raw_payload(from), kPageBytes);
    } else {
      std::memcpy(pool_.packed_payload(to), pool_.packed_payload(from),
                  size_class(pool_.class_of(from)).stride - kHeaderBytes);
    }
    live.erase(found);
    EXPECT_TRUE(live.insert(to).second);
    return true;
  }
  std::set<ObjectRef> live, held;

 private:
  const Pool& pool_;
  base::Mutex mutex_;
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
  while (pool_->compact_step(mover, kRegionBytes, false, moved) != Step::nothing) {
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

// One object more than whole spans in every class, beyond the first regions, which are small.
TEST_F(PoolTest, AtRestEachClassCostsWhatItHolds) {
  make(0);
  FakeMover mover(*pool_);
  while (pool_->arena().used() < 20 * kRegionBytes) {
    mover.live.insert(pool_->allocate(cache_, kRawClass));
  }
  for (std::uint32_t cls = 0; cls < kClassCount; ++cls) {
    for (std::uint32_t i = 0; i < size_class(cls).count + size_class(cls).count / 4; ++i) {
      const ObjectRef ref = pool_->allocate(cache_, static_cast<ClassIndex>(cls));
      ASSERT_NE(ref, kNoObject);
      mover.live.insert(ref);
    }
  }
  pool_->flush(cache_);
  std::uint64_t filled = 0;
  for (const ObjectRef ref : mover.live) filled += size_class(pool_->class_of(ref)).stride;
  ASSERT_GT(pool_->arena().used(), filled + kClassCount * kSpanBytes / 2);
  const std::uint64_t count = mover.live.size();

  std::uint64_t moved = 0;
  Step step = Step::emptied;
  for (int steps = 0; step != Step::nothing; ++steps) {
    ASSERT_LT(steps, 300);
    step = pool_->compact_step(mover, 0, true, moved);
  }
  pool_->arena().release_spare();
  EXPECT_LT(pool_->arena().used(), filled + kClassCount * kChunkBytes + kRegionBytes);
  EXPECT_EQ(objects(), count);
  // It has come to an end: what is dense is not moved again.
  moved = 0;
  pool_->retry_all();
  EXPECT_EQ(pool_->compact_step(mover, 0, true, moved), Step::nothing);
  EXPECT_EQ(moved, 0U);
  for (const ObjectRef ref : mover.live) pool_->free(cache_, ref);
  EXPECT_EQ(objects(), 0U);
  pool_->arena().release_spare();
  EXPECT_EQ(pool_->arena().used(), 0U);
}

TEST_F(PoolTest, TwoThreadsCompactBesideOneThatAllocates) {
  make(0);
  FakeMover mover(*pool_);
  std::mt19937 random(11);
  std::vector<ObjectRef> freed;
  while (pool_->arena().used() < 30 * kRegionBytes) {
    const auto cls = static_cast<ClassIndex>(random() % 4 == 0 ? 0 : random() % kClassCount);
    const ObjectRef ref = pool_->allocate(cache_, cls);
    ASSERT_NE(ref, kNoObject);
    if (random() % 4 == 0)
      mover.live.insert(ref);
    else
      freed.push_back(ref);
  }
  for (const ObjectRef ref : freed) pool_->free(cache_, ref);
  pool_->flush(cache_);
  const std::uint64_t count = mover.live.size();
  std::atomic<int> compacting{2};
  std::array<std::thread, 2> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      std::uint64_t moved = 0;
      for (int steps = 0; steps < 1000; ++steps) {
        if (pool_->compact_step(mover, 0, true, moved) == Step::nothing) break;
      }
      --compacting;
    });
  }
  while (compacting > 0) {
    const ObjectRef ref = pool_->allocate(cache_, static_cast<ClassIndex>(random() % kClassCount));
    if (ref != kNoObject) pool_->free(cache_, ref);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mover.live.size(), count);
  EXPECT_EQ(objects(), count);
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
