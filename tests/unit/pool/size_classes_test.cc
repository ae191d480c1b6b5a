#include "pool/size_classes.h"

#include <gtest/gtest.h>

namespace uzram::pool {
namespace {

TEST(SizeClasses, EveryPayloadFitsItsClassAndNoSmallerOne) {
  for (std::uint32_t bytes = 1; bytes <= kPackedBytesMax; ++bytes) {
    const ClassIndex cls = class_of_packed(bytes);
    ASSERT_NE(cls, kRawClass);
    ASSERT_GE(size_class(cls).stride, bytes + kHeaderBytes) << bytes;
    if (cls > 1) {
      ASSERT_LT(size_class(cls - 1U).stride, bytes + kHeaderBytes) << bytes;
    }
  }
}

TEST(SizeClasses, ObjectsAndBitmapFillTheSpanWithoutOverlap) {
  for (std::uint32_t cls = 0; cls < kClassCount; ++cls) {
    const SizeClass& size = size_class(cls);
    EXPECT_EQ(size.first, size.count > 64 ? size.bitmap_words() * 8 : 0) << cls;
    EXPECT_EQ(size.stride % 8, 0U);
    const std::uint32_t end = size.first + size.stride * size.count;
    EXPECT_LE(end, kSpanBytes) << cls;
    // Neither one more object would go in, nor larger ones.
    EXPECT_GT(end + size.stride + 8, kSpanBytes) << cls;
    EXPECT_GT(end + size.count * 8, kSpanBytes) << cls;
  }
  EXPECT_EQ(size_class(kRawClass).stride, kPageBytes);
}

// What the bitmap of a new span needs must be in what a new small span pays for.
TEST(SizeClasses, TheFirstObjectIsWithinTheFirstChunk) {
  for (std::uint32_t cls = 0; cls < kClassCount; ++cls) {
    EXPECT_LE(size_class(cls).first + size_class(cls).stride, kChunkBytes) << cls;
  }
}

}  // namespace
}  // namespace uzram::pool
