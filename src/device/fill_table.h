// The 8-byte patterns of same-filled pages whose pattern does not fit into a slot.
//
// What: an array of words in the image, each owned by one slot. Units: an index counts words.
// Ownership: a word belongs to the slot that took it, until it gives it back.
// Threading: any; one mutex, which only pages of an odd 8-byte pattern meet. `get` needs the slot's
// lock. Errors: `take` answers nothing when all words are in use (there is one for each page up to
// 2^33).
#ifndef UZRAM_DEVICE_FILL_TABLE_H_
#define UZRAM_DEVICE_FILL_TABLE_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "device/image.h"

namespace uzram::device {

class FillTable {
 public:
  explicit FillTable(const Image& image)
      : image_(image), words_(image.at<std::uint64_t>(image.layout().fills_offset)) {}

  std::optional<std::uint64_t> take(std::uint64_t pattern) noexcept;
  void give(std::uint64_t index) noexcept;
  // Gives the memory back while no word is in use.
  void trim() noexcept;
  std::uint64_t get(std::uint64_t index) const noexcept { return words_[index]; }
  void reset() noexcept;
  std::uint64_t resident_bytes() const noexcept;
  std::uint64_t used() const noexcept {
    const base::MutexLock lock(mutex_);
    return used_;
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  void drop_all() noexcept UZRAM_REQUIRES(mutex_);

  const Image& image_;
  std::uint64_t* const words_;
  mutable base::Mutex mutex_;
  std::uint64_t end_ UZRAM_GUARDED_BY(mutex_) = 0;  // words ever taken
  std::uint64_t used_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::uint64_t free_ UZRAM_GUARDED_BY(mutex_) = kNone;  // list through the free words
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_FILL_TABLE_H_
