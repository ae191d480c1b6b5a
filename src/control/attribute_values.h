// How the values of attributes are read and written, where one is more than a counter.
//
// What: the functions that the table's rows name. Each checks the value first, then whether it is
//   the time for it, as the kernel's driver does.
// Units: as the rows say. Ownership: none. Threading: as Host. Errors: as attributes.h.
#ifndef UZRAM_CONTROL_ATTRIBUTE_VALUES_H_
#define UZRAM_CONTROL_ATTRIBUTE_VALUES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "control/attributes.h"

namespace uzram::control {

std::string read_disksize(const View& view);
std::string read_initstate(const View& view);
std::string read_comp_algorithm(const View& view);
std::string read_mm_stat(const View& view);
std::string read_io_stat(const View& view);
std::string read_debug_stat(const View& view);

Result<void> write_disksize(Host& host, std::string_view value);
Result<void> write_resize(Host& host, std::string_view value);
Result<void> write_reset(Host& host, std::string_view value);
Result<void> write_comp_algorithm(Host& host, std::string_view value);
Result<void> write_algorithm_params(Host& host, std::string_view value);
Result<void> write_mem_limit(Host& host, std::string_view value);
Result<void> write_mem_used_max(Host& host, std::string_view value);
Result<void> write_compact(Host& host, std::string_view value);

// Refuses a ram device, which has no codec.
Result<void> check_compresses(const DeviceOptions& options);
// The codecs of this build, `selected` in brackets.
std::string codec_list(std::string_view selected);
// The columns of a stat attribute.
std::string join(std::initializer_list<std::uint64_t> columns);

// attribute_passes.cc
std::string read_recomp_algorithm(const View& view);
Result<void> write_recomp_algorithm(Host& host, std::string_view value);
Result<void> write_recompress(Host& host, std::string_view value);
Result<void> write_idle(Host& host, std::string_view value);
// idle, huge or huge_idle.
Result<PageClass> parse_page_class(std::string_view text);
// What a pass came to. Where the device has nothing to run it with, the kernel answers EINVAL.
Result<void> pass_result(const Result<std::uint64_t>& pages);

// attribute_write_back.cc
std::string read_backing_dev(const View& view);
std::string read_bd_stat(const View& view);
std::string read_writeback_limit(const View& view);
std::string read_writeback_limit_enable(const View& view);
std::string read_writeback_batch_size(const View& view);
std::string read_compressed_writeback(const View& view);
Result<void> write_backing_dev(Host& host, std::string_view value);
Result<void> write_writeback(Host& host, std::string_view value);
Result<void> write_writeback_limit(Host& host, std::string_view value);
Result<void> write_writeback_limit_enable(Host& host, std::string_view value);
Result<void> write_writeback_batch_size(Host& host, std::string_view value);
Result<void> write_compressed_writeback(Host& host, std::string_view value);

// block_state.cc
Part read_block_state(const Device& device, std::uint64_t from);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_ATTRIBUTE_VALUES_H_
