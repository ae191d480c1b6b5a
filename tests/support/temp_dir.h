// A directory for one test.
//
// What: made under the system's place for temporary files, removed with all that is in it.
// Units: none. Ownership: owns the directory. Threading: one thread. Errors: aborts the test.
#ifndef UZRAM_TESTS_SUPPORT_TEMP_DIR_H_
#define UZRAM_TESTS_SUPPORT_TEMP_DIR_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace uzram::test {

class TempDir {
 public:
  TempDir() {
    path_ = (std::filesystem::temp_directory_path() / "uzram-test-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << path_;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_SUPPORT_TEMP_DIR_H_
