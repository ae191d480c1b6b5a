// What libfuse has to say.
//
// What: libfuse writes its errors to standard error; its last line is kept instead, for ours.
// Units: none. Ownership: a line for each thread. Threading: any. Errors: none.
#ifndef UZRAM_BASE_FUSE_MESSAGE_H_
#define UZRAM_BASE_FUSE_MESSAGE_H_

#include <fuse_log.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace uzram::base {

inline thread_local std::array<char, 256> last_fuse_message{};

// From here on; what this thread was told before is forgotten.
inline void keep_fuse_messages() {
  fuse_set_log_func([](fuse_log_level, const char* format, va_list arguments) {
    std::vsnprintf(last_fuse_message.data(), last_fuse_message.size(), format, arguments);
  });
  last_fuse_message[0] = 0;
}

// The last one of this thread, on one line.
inline std::string fuse_message() {
  std::string text = last_fuse_message.data();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.empty() ? "refused" : text;
}

}  // namespace uzram::base

#endif  // UZRAM_BASE_FUSE_MESSAGE_H_
