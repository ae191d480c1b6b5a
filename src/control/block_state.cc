// The attribute block_state: what is known of each stored page.
#include <time.h>

#include <array>
#include <cstdio>
#include <span>

#include "control/attribute_values.h"

namespace uzram::control {
namespace {

constexpr std::size_t kPagesPerPart = 1024;  // some 40 KiB of text

// As /proc/uptime has it.
std::uint64_t seconds_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec);
}

// Ages don't count the time that the machine was suspended, and begin with the device.
std::string line_of(const PageState& state, std::uint64_t now) {
  const std::uint64_t used = now > state.age_seconds ? now - state.age_seconds : 0;
  const auto flag = [](bool set, char letter) { return set ? letter : '.'; };
  std::array<char, 96> line;
  const int length = std::snprintf(
      line.data(), line.size(), "%12llu %12llu.%06u %c%c%c%c%c%c\n",
      static_cast<unsigned long long>(state.page), static_cast<unsigned long long>(used), 0U,
      flag(state.same, 's'), flag(state.backed, 'w'), flag(state.huge, 'h'), flag(state.idle, 'i'),
      flag(state.recompressed, 'r'), flag(state.incompressible, 'n'));
  return {line.data(), static_cast<std::size_t>(length)};
}

}  // namespace

Part read_block_state(const Device& device, std::uint64_t from) {
  std::array<PageState, kPagesPerPart> states;
  const std::size_t count = device.page_states(from, states);
  const std::uint64_t now = seconds_since_boot();
  Part part;
  for (const PageState& state : std::span(states).first(count)) part.text += line_of(state, now);
  if (count == states.size()) part.next = states.back().page + 1;
  return part;
}

}  // namespace uzram::control
