// Blocks for the tests of backing stores.
//
// What: aligned room for blocks, each filled by a seed and its own number, and one Io at a time.
// Units: backing::kBlockBytes. Ownership: owns its bytes. Threading: one thread. Errors: none.
#ifndef UZRAM_TESTS_UNIT_BACKING_BLOCKS_H_
#define UZRAM_TESTS_UNIT_BACKING_BLOCKS_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "backing/store.h"

namespace uzram::test {

class Blocks {
 public:
  explicit Blocks(std::size_t count)
      : count_(count),
        bytes_(static_cast<std::byte*>(
            std::aligned_alloc(backing::kBlockBytes, count * backing::kBlockBytes))) {
    if (bytes_ == nullptr) throw std::bad_alloc();
    std::memset(bytes_.get(), 0, count * backing::kBlockBytes);
  }

  std::span<std::byte> all() const { return {bytes_.get(), count_ * backing::kBlockBytes}; }
  std::span<std::byte> block(std::size_t index) const {
    return all().subspan(index * backing::kBlockBytes, backing::kBlockBytes);
  }
  // Every 8 bytes tell the seed, the block and their place in it.
  void fill(std::uint64_t seed) const {
    for (std::size_t at = 0; at < all().size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t word = (seed << 32U) + at;
      std::memcpy(&all()[at], &word, sizeof word);
    }
  }
  bool operator==(const Blocks& other) const {
    return count_ == other.count_ &&
           std::memcmp(bytes_.get(), other.bytes_.get(), all().size()) == 0;
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::size_t count_;
  std::unique_ptr<std::byte, Free> bytes_;
};

inline Status run_one(backing::Store& store, backing::Io::Kind kind, std::uint64_t block,
                      std::span<std::byte> data) {
  backing::Io io{kind, block * backing::kBlockBytes, data, Status::would_block};
  store.run({&io, 1}, 1);
  return io.status;
}

inline Status write(backing::Store& store, std::uint64_t block, const Blocks& blocks) {
  return run_one(store, backing::Io::Kind::write, block, blocks.all());
}

inline Status read(backing::Store& store, std::uint64_t block, const Blocks& blocks) {
  return run_one(store, backing::Io::Kind::read, block, blocks.all());
}

}  // namespace uzram::test

#endif  // UZRAM_TESTS_UNIT_BACKING_BLOCKS_H_
