#include "cli/attachments.h"

#include <gtest/gtest.h>

namespace uzram::cli {
namespace {

TEST(SplitAttachment, TakesTheFirstColon) {
  const auto split = [](std::string_view text) {
    const AttachmentSpec spec = split_attachment(text);
    return spec.kind + "|" + spec.argument;
  };
  EXPECT_EQ(split("nbd"), "nbd|");
  EXPECT_EQ(split("nbd:"), "nbd|");
  EXPECT_EQ(split("nbd:unix:/a:b"), "nbd|unix:/a:b");
  EXPECT_EQ(split(""), "|");
  EXPECT_EQ(split(":x"), "|x");
}

TEST(CheckAttachment, KnowsKindsAndTheirArguments) {
  EXPECT_EQ(check_attachment({"nbd", ""})->argument, "auto");
  EXPECT_EQ(check_attachment({"nbd", "auto"})->argument, "auto");
  EXPECT_EQ(check_attachment({"nbd", "unix:/tmp/x"})->argument, "unix:/tmp/x");
  EXPECT_EQ(check_attachment({"nbd", "tcp:127.0.0.1:0"})->argument, "tcp:127.0.0.1:0");
  EXPECT_TRUE(check_attachment({"loop", ""}).has_value());
  // The process of a device works elsewhere.
  EXPECT_TRUE(check_attachment({"nbd", "unix:x"})->argument.starts_with("unix:/"));
  for (const AttachmentSpec& spec :
       std::initializer_list<AttachmentSpec>{{"", ""},
                                             {"ublk", ""},
                                             {"NBD", ""},
                                             {"loop", "x"},
                                             {"nbd", "x"},
                                             {"nbd", "unix:"},
                                             {"nbd", "tcp:h"},
                                             {"nbd", "unix:/" + std::string(200, 'x')}}) {
    const auto checked = check_attachment(spec);
    ASSERT_FALSE(checked.has_value()) << spec.kind << ":" << spec.argument;
    EXPECT_EQ(checked.error().status, Status::invalid_argument);
  }
}

// A checked argument is checked again where it arrives.
TEST(CheckAttachment, TakesWhatItGave) {
  for (const char* argument : {"auto", "unix:/tmp/x:y", "tcp:[::1]:10809", "tcp:localhost:0"}) {
    const auto once = check_attachment({"nbd", argument});
    ASSERT_TRUE(once.has_value()) << argument;
    EXPECT_EQ(check_attachment(*once)->argument, once->argument);
  }
}

}  // namespace
}  // namespace uzram::cli
