// The attachments that this build has, by the names that people type.
//
// What: checks, starts and cleans up attachments by kind ("nbd", "loop") and argument.
// Units: bytes. Ownership: the caller owns what is started, and the device behind it.
// Threading: as attach/attachment.h.
// Errors: invalid_argument for an unknown kind or a bad argument; else as the attachment says.
#ifndef UZRAM_CLI_ATTACHMENTS_H_
#define UZRAM_CLI_ATTACHMENTS_H_

#include <memory>
#include <string>
#include <string_view>

#include "attach/attachment.h"
#include "control/device_record.h"
#include "control/runtime_dir.h"
#include "uzram/device.h"

namespace uzram::cli {

// An attachment as asked for. Arguments: nbd takes "auto" (also when empty), unix:PATH or
// tcp:HOST:PORT; loop takes none.
struct AttachmentSpec {
  std::string kind;
  std::string argument;
};

// "KIND" or "KIND:ARG".
AttachmentSpec split_attachment(std::string_view text);
// The spec as it will be started: checked, a relative path made absolute.
Result<AttachmentSpec> check_attachment(const AttachmentSpec& spec);

// What an attachment needs to know of its device.
struct AttachmentHome {
  Device& device;
  std::string name;
  control::DeviceFiles files;
  unsigned block_size = 0;
};

Result<std::unique_ptr<attach::Attachment>> start_attachment(const AttachmentHome& home,
                                                             const AttachmentSpec& spec);

// Whether this kernel and user can have /dev/loopN on a FUSE file.
bool can_have_loop_device();

// Removes what the attachments of a dead device have left; `record` is the device's last, where
// there is one. What is another's by now is left alone. Nothing to do is success.
Result<void> clean_up_attachments(const control::DeviceFiles& files,
                                  const Result<control::DeviceRecord>& record);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_ATTACHMENTS_H_
