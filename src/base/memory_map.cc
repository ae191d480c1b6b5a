#include "base/memory_map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24  // Linux 5.18
#endif

namespace uzram::base {

Result<MemoryMap> MemoryMap::reserve(std::uint64_t length) {
  // Parts of 4096 bytes are given back on their own: with larger pages their neighbours would go.
  if (::sysconf(_SC_PAGESIZE) != 4096) {
    return fail(Status::not_supported, "memory: the system's pages are not of 4096 bytes");
  }
  // Room to align, given back below.
  const std::uint64_t padded = length + kHugePageBytes;
  void* at = ::mmap(nullptr, padded, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return fail(Status::no_memory, "address space of " + std::to_string(length) +
                                       " bytes: refused by the system (see ulimit -v and "
                                       "vm.overcommit_memory)");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const std::uint64_t head = (kHugePageBytes - address % kHugePageBytes) % kHugePageBytes;
  auto* data = static_cast<std::byte*>(at) + head;
  if (head > 0) ::munmap(at, head);
  length = (length + 4095) & ~std::uint64_t{4095};
  if (padded - head > length) ::munmap(data + length, padded - head - length);

  MemoryMap map;
  map.data_ = data;
  map.length_ = length;
  ::madvise(data, length, MADV_NOHUGEPAGE);
  ::madvise(data, length, MADV_DONTDUMP);
  return map;
}

MemoryMap::MemoryMap(MemoryMap&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), length_(std::exchange(other.length_, 0)) {}

MemoryMap& MemoryMap::operator=(MemoryMap&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(length_, other.length_);
  return *this;
}

MemoryMap::~MemoryMap() {
  if (data_ != nullptr) ::munmap(data_, length_);
}

bool MemoryMap::advise_huge(std::uint64_t offset, std::uint64_t length, bool huge) const noexcept {
  return ::madvise(data_ + offset, length, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
}

bool MemoryMap::populate(std::uint64_t offset, std::uint64_t length) const noexcept {
  while (::madvise(data_ + offset, length, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    // A kernel before 5.14 doesn't know the call: touching does the same.
    return errno == EINVAL;
  }
  return true;
}

bool MemoryMap::release(std::uint64_t offset, std::uint64_t length) const noexcept {
  if (length == 0) return true;
  return ::madvise(data_ + offset, length, MADV_DONTNEED) == 0 ||
         ::madvise(data_ + offset, length, MADV_DONTNEED_LOCKED) == 0;
}

std::uint64_t MemoryMap::resident(std::uint64_t offset, std::uint64_t length) const noexcept {
  std::array<unsigned char, 4096> present;
  const std::uint64_t step = present.size() * 4096;
  std::uint64_t bytes = 0;
  for (std::uint64_t done = 0; done < length; done += step) {
    const std::uint64_t part = length - done < step ? length - done : step;
    if (::mincore(data_ + offset + done, part, present.data()) != 0) return bytes;
    for (std::uint64_t i = 0; i < (part + 4095) / 4096; ++i) {
      bytes += (present[i] & 1U) * std::uint64_t{4096};
    }
  }
  return bytes;
}

std::uint64_t physical_memory() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool huge_pages_enabled() noexcept {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  return !line.empty() && line.find("[never]") == std::string::npos;
}

}  // namespace uzram::base
