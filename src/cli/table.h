// Tables that people read.
//
// What: rows of cells, printed in columns two blanks apart, without blanks at the ends of lines.
// Units: none. Ownership: values. Threading: pure. Errors: none.
#ifndef UZRAM_CLI_TABLE_H_
#define UZRAM_CLI_TABLE_H_

#include <string>
#include <vector>

namespace uzram::cli {

using TableRow = std::vector<std::string>;

// The first row is the heading; no row has more cells than it.
std::string format_table(const std::vector<TableRow>& rows);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_TABLE_H_
