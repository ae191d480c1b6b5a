#include "cli/attachments.h"

#include <unistd.h>

#include "attach/loop/loop.h"
#include "attach/nbd/address.h"
#include "attach/nbd/listener.h"
#include "attach/nbd/server.h"

namespace uzram::cli {
namespace {

bool is_auto(const AttachmentSpec& spec) {
  return spec.argument.empty() || spec.argument == "auto";
}

Result<std::unique_ptr<attach::Attachment>> start_nbd(const AttachmentHome& home,
                                                      const AttachmentSpec& spec) {
  const std::string address = is_auto(spec) ? "unix:" + home.files.nbd_socket : spec.argument;
  auto parsed = attach::parse_nbd_address(address);
  if (!parsed) return tl::unexpected(parsed.error());
  attach::NbdOptions options;
  options.address = std::move(*parsed);
  options.export_name = home.name;
  options.description = "uzram device " + home.name;
  options.block_bytes = home.block_size;
  return attach::start_nbd(home.device, options);
}

// Without root there is no loop device to be had, but fusermount3 may still mount the file.
Result<std::unique_ptr<attach::Attachment>> start_loop(const AttachmentHome& home) {
  attach::LoopOptions options;
  options.mount_dir = home.files.loop_dir;
  options.block_size = home.block_size;
  options.file_only = ::geteuid() != 0;
  return attach::start_loop(home.device, options);
}

// A listener takes a stale socket's place, refuses to take a live one's, and leaves none behind:
// listening for a moment is all that it takes.
void remove_stale_socket(const std::string& address) {
  const auto parsed = attach::parse_nbd_address(address);
  if (!parsed || ::access(parsed->path.c_str(), F_OK) != 0) return;
  static_cast<void>(attach::nbd::Listener::open(*parsed));
}

}  // namespace

AttachmentSpec split_attachment(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

Result<AttachmentSpec> check_attachment(const AttachmentSpec& spec) {
  if (spec.kind == "loop") {
    if (spec.argument.empty()) return spec;
    return fail(Status::invalid_argument, "loop '" + spec.argument + "': takes no argument");
  }
  if (spec.kind != "nbd") {
    return fail(Status::invalid_argument,
                "attachment '" + spec.kind + "': unknown kind, known are: nbd loop");
  }
  if (is_auto(spec)) return AttachmentSpec{spec.kind, "auto"};
  const auto address = attach::parse_nbd_address(spec.argument);
  if (!address) return tl::unexpected(address.error());
  return AttachmentSpec{spec.kind, attach::to_string(*address)};
}

Result<std::unique_ptr<attach::Attachment>> start_attachment(const AttachmentHome& home,
                                                             const AttachmentSpec& spec) {
  return spec.kind == "nbd" ? start_nbd(home, spec) : start_loop(home);
}

bool can_have_loop_device() {
  return ::geteuid() == 0 && ::access("/dev/loop-control", R_OK | W_OK) == 0 &&
         ::access("/dev/fuse", R_OK | W_OK) == 0;
}

Result<void> clean_up_attachments(const control::DeviceFiles& files,
                                  const Result<control::DeviceRecord>& record) {
  remove_stale_socket("unix:" + files.nbd_socket);
  if (record) {
    for (const control::AttachmentRecord& attachment : record->attachments) {
      if (attachment.argument.starts_with("unix:")) remove_stale_socket(attachment.argument);
    }
  }
  return attach::clean_up_loop(files.loop_dir);
}

}  // namespace uzram::cli
