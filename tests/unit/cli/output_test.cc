#include "cli/output.h"

#include <gtest/gtest.h>

#include "cli/table.h"

namespace uzram::cli {
namespace {

TEST(ErrorLine, IsOneLineWhateverItQuotes) {
  EXPECT_EQ(error_line({Status::busy, "a: in use"}), "uzram: a: in use\n");
  EXPECT_EQ(error_line({Status::busy, "'x\ny\r\t\x7f\x1b[1m': z"}),
            "uzram: 'x\\x0ay\\x0d\\x09\\x7f\\x1b[1m': z\n");
  EXPECT_EQ(error_line({Status::busy, "'\xc3\xa4'"}), "uzram: '\xc3\xa4'\n");
}

TEST(ExitStatus, TellsWrongUsageFromFailure) {
  EXPECT_EQ(exit_status(Status::ok), 0);
  EXPECT_EQ(exit_status(Status::invalid_argument), 2);
  for (const Status status : {Status::busy, Status::not_found, Status::io_error}) {
    EXPECT_EQ(exit_status(status), 1);
  }
}

TEST(FormatTable, AlignsWithoutTrailingBlanks) {
  EXPECT_EQ(format_table({{"NAME", "X"}, {"a", "long"}, {"longer", ""}, {"b"}}),
            "NAME    X\na       long\nlonger\nb\n");
  EXPECT_EQ(format_table({}), "");
}

}  // namespace
}  // namespace uzram::cli
