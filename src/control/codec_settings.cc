#include "control/codec_settings.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/fd.h"
#include "base/io.h"
#include "control/attributes.h"

namespace uzram::control {
namespace {

tl::unexpected<Error> refuse(const std::string& why) {
  return fail(Status::invalid_argument, why);
}

tl::unexpected<Error> refuse_errno(int error) {
  return refuse(std::generic_category().message(error));
}

}  // namespace

Result<CodecChoice> check_codec(const CodecChoice& choice) {
  const codec::Codec* const codec = codec::find(choice.name);
  if (codec == nullptr) {
    return fail(Status::invalid_argument,
                "codec '" + choice.name + "': unknown, known are: " + codec_names());
  }
  const auto checked = codec::check_params(*codec, choice.params);
  if (!checked) return tl::unexpected(checked.error());
  return CodecChoice{codec->info().name, choice.params};
}

// Opening waits for nobody: a FIFO may have no writer. What is read is bounded by counting it,
// since a file can grow, or tell no size.
Result<codec::DictionaryBytes> read_dictionary(const std::string& path) {
  const base::Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!file) return refuse_errno(errno);
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return refuse_errno(errno);
  if (!S_ISREG(found.st_mode)) return refuse("not a regular file");
  std::vector<std::byte> bytes(kDictionaryBytesMax + 1);
  const auto size = base::read_all(file.get(), bytes);
  if (!size) return refuse_errno(size.error());
  if (*size == 0) return refuse("is empty");
  if (*size > kDictionaryBytesMax) {
    return refuse("larger than " + std::to_string(kDictionaryBytesMax) + " bytes");
  }
  return std::make_shared<const std::vector<std::byte>>(
      bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(*size));
}

}  // namespace uzram::control
