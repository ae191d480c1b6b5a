// Counters of a device.
//
// What: a sample of every counter, taken while the device runs: each value is right for some moment
//   of the call, values are not of one moment. With the device at rest they add up exactly.
// Units: bytes unless the name says pages or a count. The first are the columns of the kernel's
//   mm_stat, io_stat and bd_stat (Documentation/admin-guide/blockdev/zram.rst).
// Ownership, threading: a value. Errors: none.
#ifndef UZRAM_STATS_H_
#define UZRAM_STATS_H_

#include <cstdint>

namespace uzram {

struct Stats {
  // mm_stat
  std::uint64_t orig_data_size = 0;    // stored pages x 4096, same-filled ones too
  std::uint64_t compr_data_size = 0;   // packed bytes of all stored pages; raw pages count 4096
  std::uint64_t mem_used_total = 0;    // memory that the pool holds from the system
  std::uint64_t mem_limit = 0;         // 0: none
  std::uint64_t mem_used_max = 0;      // peak of mem_used_total since start or its own reset
  std::uint64_t same_pages = 0;        // live same-filled pages
  std::uint64_t pages_compacted = 0;   // objects moved by compaction since start
  std::uint64_t huge_pages = 0;        // live pages kept raw
  std::uint64_t huge_pages_since = 0;  // pages ever kept raw
  // io_stat
  std::uint64_t failed_reads = 0;
  std::uint64_t failed_writes = 0;
  std::uint64_t invalid_io = 0;   // requests refused for their range or kind
  std::uint64_t notify_free = 0;  // stored pages freed by discard
  // bd_stat, in blocks of 4 KiB
  std::uint64_t bd_count = 0;   // blocks of the backing store in use
  std::uint64_t bd_reads = 0;   // read from it
  std::uint64_t bd_writes = 0;  // written to it
  // Traffic: requests that succeeded, and their bytes.
  std::uint64_t reads = 0, read_bytes = 0;
  std::uint64_t writes = 0, write_bytes = 0;
  std::uint64_t discards = 0, discard_bytes = 0;  // discard and write_zeroes
  std::uint64_t flushes = 0;
  // Memory beside the pool: slot tables, object headers of raw pages, fill words; resident bytes.
  std::uint64_t metadata_bytes = 0;
  // Part of mem_used_total that the system was asked to back with huge pages.
  std::uint64_t huge_page_bytes = 0;
};

}  // namespace uzram

#endif  // UZRAM_STATS_H_
