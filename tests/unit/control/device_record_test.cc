#include "control/device_record.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace uzram::control {
namespace {

const DeviceRecord kRecord = {
    "a",     4711, "zram", "lz4",
    1 << 30, 512,  true,   {{"nbd", "nbd://h:1/a", "tcp:h:1"}, {"loop", "/dev/loop7", ""}},
    "/cold", 4096};

TEST(DeviceRecord, IsReadBackAsWritten) {
  const test::TempDir temp;
  const std::string path = temp.path() + "/a.json";
  ASSERT_TRUE(write_record(path, kRecord).has_value());
  EXPECT_EQ(read_record(path).value(), kRecord);
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(::access((path + ".tmp").c_str(), F_OK), -1);
}

TEST(DeviceRecord, ListsWhatScriptsRelyOn) {
  const auto json = to_json(kRecord);
  for (const char* name : {"name", "pid", "type", "algo", "size", "attachments", "backing"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json["attachments"][1]["kind"], "loop");
  EXPECT_EQ(json["attachments"][1]["where"], "/dev/loop7");
}

TEST(DeviceRecord, AFileThatIsNoneIsAnError) {
  const test::TempDir temp;
  const std::string path = temp.path() + "/a.json";
  EXPECT_EQ(read_record(path).error().status, Status::not_found);
  for (const char* text :
       {"", "{", "[]", "7", "{}", R"({"name":7})", "\xff",
        R"({"name":"a","pid":"x","type":"","algo":"","size":1,"block_size":1,)"
        R"("read_only":false,"backing":"","backing_size":0,"attachments":[]})"}) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_EQ(read_record(path).error().status, Status::io_error) << text;
  }
  std::ofstream(path, std::ios::trunc) << std::string(1 << 20, '[');
  EXPECT_FALSE(read_record(path).has_value());
}

TEST(DeviceRecord, AnOldRecordSurvivesAFailedWrite) {
  const test::TempDir temp;
  const std::string path = temp.path() + "/a.json";
  ASSERT_TRUE(write_record(path, kRecord).has_value());
  ASSERT_EQ(::mkdir((path + ".tmp").c_str(), 0700), 0);
  DeviceRecord changed = kRecord;
  changed.pid = 1;
  EXPECT_FALSE(write_record(path, changed).has_value());
  EXPECT_EQ(read_record(path).value(), kRecord);
}

TEST(DeviceRecord, BytesThatAreNotUtf8DoNotBreakTheLine) {
  DeviceRecord record = kRecord;
  record.attachments[0].where = "nbd+unix:///?socket=/tmp/\xff\n";
  const std::string line = dump_line(to_json(record));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(line));
}

}  // namespace
}  // namespace uzram::control
