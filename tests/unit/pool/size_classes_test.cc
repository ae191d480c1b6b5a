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
    const std::uint32_t bitmap = size.count > 64 ? size.bitmap_words() * 8 : 0;
    EXPECT_EQ(size.stride % 8, 0U);
    EXPECT_LE(size.stride * size.count + bitmap, kSpanBytes) << cls;
    EXPECT_GE(size.stride * size.count + bitmap + size.count * 8, kSpanBytes) << cls;
  }
  EXPECT_EQ(size_class(kRawClass).stride, kPageBytes);
}

}  // namespace
}  // namespace uzram::pool
