// Big-endian numbers and strings, as the protocol sends them.
//
// What: load_be/store_be for fixed places, Writer to build a message, Reader to take one apart.
// Units: bytes. Ownership: a Reader borrows. Threading: values. Errors: a Reader that runs short
//   answers nullopt and stays where it was; it never reads outside its bytes.
#ifndef UZRAM_ATTACH_NBD_WIRE_H_
#define UZRAM_ATTACH_NBD_WIRE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace uzram::attach::nbd {

template <std::unsigned_integral T>
T load_be(const std::byte* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(from[i]);
  }
  return static_cast<T>(value);
}

template <std::unsigned_integral T>
void store_be(std::byte* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<std::byte>(std::uint64_t{value} >> (8 * (sizeof(T) - 1 - i)));
  }
}

class Writer {
 public:
  template <std::unsigned_integral T>
  Writer& number(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    store_be(bytes_.data() + bytes_.size() - sizeof(T), value);
    return *this;
  }
  Writer& text(std::string_view value) {
    return bytes(std::as_bytes(std::span(value.data(), value.size())));
  }
  // The length in 32 bits, then the text.
  Writer& sized_text(std::string_view value) {
    return number(static_cast<std::uint32_t>(value.size())).text(value);
  }
  Writer& bytes(std::span<const std::byte> value) {
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    return *this;
  }
  std::span<const std::byte> view() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  std::optional<T> number() {
    if (rest_.size() < sizeof(T)) return std::nullopt;
    const T value = load_be<T>(rest_.data());
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  std::optional<std::string_view> text(std::size_t length) {
    if (rest_.size() < length) return std::nullopt;
    const std::string_view value(reinterpret_cast<const char*>(rest_.data()), length);
    rest_ = rest_.subspan(length);
    return value;
  }
  std::optional<std::string_view> sized_text() {
    const Reader before = *this;
    const auto length = number<std::uint32_t>();
    const auto value = length ? text(*length) : std::nullopt;
    if (!value) *this = before;
    return value;
  }
  std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_WIRE_H_
