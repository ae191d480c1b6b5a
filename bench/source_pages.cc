#include "bench/source_pages.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace uzram::bench {
namespace {

void fill_random(Random& random, std::byte* at, std::size_t length) noexcept {
  while (length > 0) {
    const std::uint64_t word = random.next();
    const std::size_t part = std::min(length, sizeof word);
    std::memcpy(at, &word, part);
    at += part;
    length -= part;
  }
}

// Reads one page; what lies past the end of the file reads zero.
Result<void> read_page(int fd, const std::string& path, std::uint64_t offset, PageOut page) {
  std::size_t done = 0;
  while (done < page.size()) {
    const ssize_t got =
        ::pread(fd, page.data() + done, page.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  std::memset(page.data() + done, 0, page.size() - done);
  return {};
}

// Pages taken evenly from the whole file, or all its pages over and over when it has fewer.
Result<void> fill_from_file(const std::string& path, std::byte* ring) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno(errno, path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return fail(Status::invalid_argument, "data file " + path + ": not a regular file");
  }
  if (info.st_size == 0) return fail(Status::invalid_argument, "data file " + path + ": empty");
  const std::uint64_t pages =
      (static_cast<std::uint64_t>(info.st_size) + kPageBytes - 1) / kPageBytes;
  for (std::uint64_t i = 0; i < SourcePages::kPages; ++i) {
    const std::uint64_t page =
        pages <= SourcePages::kPages
            ? i % pages
            : static_cast<std::uint64_t>(static_cast<double>(i) / SourcePages::kPages *
                                         static_cast<double>(pages));
    Result<void> read =
        read_page(fd.get(), path, page * kPageBytes, PageOut(ring + i * kPageBytes, kPageBytes));
    if (!read) return read;
  }
  return {};
}

}  // namespace

void make_random_page(Random& random, PageOut page) noexcept {
  fill_random(random, page.data(), page.size());
}

void make_half_page(Random& random, PageOut page) noexcept {
  // A sequence costs lz4 its literals and some eight bytes: token, lengths and offset, and what it
  // passes over before it sees the run.
  constexpr std::size_t kChunkBytes = 128;
  constexpr std::size_t kPairLiterals = 112;  // of two chunks together
  constexpr std::size_t kLiteralsMin = 38;
  constexpr std::uint32_t kChoices = kPairLiterals - 2 * kLiteralsMin + 1;
  const std::byte filler = static_cast<std::byte>(random.next());
  std::size_t literals = 0;
  for (std::size_t at = 0; at < page.size(); at += kChunkBytes) {
    const bool first_of_pair = at / kChunkBytes % 2 == 0;
    literals = first_of_pair ? kLiteralsMin + random.below(kChoices) : kPairLiterals - literals;
    fill_random(random, page.data() + at, literals);
    std::memset(page.data() + at + literals, static_cast<int>(filler), kChunkBytes - literals);
  }
}

Result<SourcePages> SourcePages::make(const Data& data, std::uint64_t seed) {
  Result<base::MemoryMap> map = base::MemoryMap::reserve(kRingBytes + kRecordMax);
  if (!map) return tl::unexpected(map.error());
  map->advise_huge(0, map->size(), true);
  Random random(seed);
  std::byte* const ring = map->data();
  if (data.kind == DataKind::file) {
    if (Result<void> filled = fill_from_file(data.path, ring); !filled) {
      return tl::unexpected(filled.error());
    }
  } else {
    for (std::uint64_t i = 0; i < kPages; ++i) {
      const PageOut page(ring + i * kPageBytes, kPageBytes);
      if (data.kind == DataKind::half) make_half_page(random, page);
      if (data.kind == DataKind::random) make_random_page(random, page);
      if (data.kind == DataKind::zero) std::memset(page.data(), 0, page.size());
    }
  }
  std::memcpy(ring + kRingBytes, ring, kRecordMax);
  SourcePages pages;
  pages.map_ = std::move(*map);
  return pages;
}

}  // namespace uzram::bench
