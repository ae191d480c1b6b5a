// Results for programs and for people.
//
// What: runs as a JSON array, and as a table whose rows can be printed while later ones still run.
// Units: as the names of the fields say; latencies in microseconds, CPU in percent of one core.
// Ownership: values. Threading: pure. Errors: none.
#ifndef UZRAM_BENCH_REPORT_H_
#define UZRAM_BENCH_REPORT_H_

#include <span>
#include <string>

#include "bench/run.h"

namespace uzram::bench {

// The whole file, newline included.
std::string json_of(std::span<const RunResult> runs);

// Lines that end with a newline. The header names the options that all rows share.
std::string table_header(const Options& options);
std::string table_row(const RunResult& run);

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_REPORT_H_
