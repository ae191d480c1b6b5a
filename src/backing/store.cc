#include "backing/store.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "backing/file_store.h"
#include "backing/nbd_store.h"
#include "backing/scheme.h"
#include "uzram/backing.h"

namespace uzram::backing {

Status check_io(const Io& io, std::uint64_t block_count) noexcept {
  const std::uint64_t length = io.data.size();
  const auto address = reinterpret_cast<std::uintptr_t>(io.data.data());
  if (length == 0 || (io.offset | length | address) % kBlockBytes != 0) {
    return Status::invalid_argument;
  }
  const std::uint64_t first = io.offset / kBlockBytes;
  if (first >= block_count || length / kBlockBytes > block_count - first) {
    return Status::out_of_range;
  }
  return Status::ok;
}

ByteRange clip_discard(std::uint64_t first_block, std::uint64_t count,
                       std::uint64_t block_count) noexcept {
  if (first_block >= block_count) return {};
  const std::uint64_t clipped = std::min(count, block_count - first_block);
  return {first_block * kBlockBytes, clipped * kBlockBytes};
}

Result<std::unique_ptr<Store>> open_store(const std::string& where) {
  if (where.empty()) return fail(Status::invalid_argument, "backing store: the path is empty");
  if (where.find('\0') != std::string::npos) {
    return fail(Status::invalid_argument, "backing store: the path holds a NUL");
  }
  const std::string_view scheme = scheme_of(where);
  if (scheme.empty()) return open_file_store(where);
  if (scheme == "nbd" || scheme == "nbd+unix") return open_nbd_store(where);
  return fail(
      Status::invalid_argument,
      where + ": " +
          (scheme.starts_with("nbds") ? "TLS is not supported, only nbd:// and nbd+unix://"
                                      : "of URIs only nbd:// and nbd+unix:// are supported; "
                                        "a path may begin with ./"));
}

}  // namespace uzram::backing

namespace uzram {

Result<std::shared_ptr<backing::Store>> open_backing_store(const std::string& where) {
  auto store = backing::open_store(where);
  if (!store) return tl::unexpected(store.error());
  return std::shared_ptr<backing::Store>(std::move(*store));
}

}  // namespace uzram
