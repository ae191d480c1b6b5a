// The manual pages, made from what the program itself knows.
//
// What: uzram(1) from the command line's own options and help texts, uzram-attributes(7) from the
//   attribute table, as man(7) has it. Units: none. Ownership: values. Threading: pure.
// Errors: none.
#ifndef UZRAM_CLI_MANUAL_H_
#define UZRAM_CLI_MANUAL_H_

#include <string>
#include <string_view>

namespace uzram::cli {

std::string command_page();
std::string attributes_page();

// Plain text as man shows it again: lines are joined, nothing in it is taken for a request.
std::string escaped(std::string_view text);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_MANUAL_H_
