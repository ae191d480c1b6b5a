// Writes the manual pages; run when uzram is built.
//
//   uzram_manual COMMAND_PAGE ATTRIBUTES_PAGE
#include "cli/manual.h"

#include <fstream>

#include "cli/output.h"

namespace uzram::cli {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '\n':
        out += ' ';
        break;
      default:
        out += c;
    }
  }
  return out;
}

namespace {

int write_page(const char* path, const std::string& text) {
  std::ofstream page(path);
  page << text;
  page.close();
  return page ? kExitDone : report({Status::io_error, std::string(path) + ": can't be written"});
}

}  // namespace
}  // namespace uzram::cli

int main(int argc, char** argv) {
  using namespace uzram::cli;
  if (argc != 3) return kExitUsage;
  const int written = write_page(argv[1], command_page());
  return written == kExitDone ? write_page(argv[2], attributes_page()) : written;
}
