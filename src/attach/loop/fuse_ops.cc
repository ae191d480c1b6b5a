#include "attach/loop/fuse_ops.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "attach/loop/loop.h"
#include "attach/loop/turn.h"

namespace uzram::attach {
namespace {

constexpr unsigned kTransferBytesMax = 1U << 20;
// The loop driver keeps up to 128 requests in flight, each at most two of ours.
constexpr unsigned kBackgroundMax = 256;
// Names and attributes never change. That the kernel may rely on it is also how a loop device can
// still be told to be ours when nobody answers for its file any more.
constexpr double kValidSeconds = 1e8;

ExportedDisk& disk_of(fuse_req_t req) {
  return *static_cast<ExportedDisk*>(fuse_req_userdata(req));
}

bool fill_attributes(const ExportedDisk& disk, fuse_ino_t inode, struct stat* out) {
  *out = {};
  out->st_ino = inode;
  out->st_uid = getuid();
  out->st_gid = getgid();
  if (inode == FUSE_ROOT_ID) {
    out->st_mode = S_IFDIR | 0700;
    out->st_nlink = 2;
    return true;
  }
  if (inode != kDiskInode) return false;
  out->st_mode = S_IFREG | (disk.read_only ? 0400 : 0600);
  out->st_nlink = 1;
  out->st_size = static_cast<off_t>(disk.device.size_bytes());
  out->st_blksize = kPageBytes;
  // As if nothing were a hole: programs take few blocks for permission to skip what they don't
  // read, and a number that is kept for so long can't be right. Who wants holes seeks them.
  out->st_blocks = (out->st_size + 511) / 512;
  return true;
}

// A buffer of the thread's own, grown to the largest request seen; the kernel bounds those.
std::byte* thread_buffer(std::size_t bytes) {
  struct Buffer {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;
  };
  thread_local Buffer buffer;
  if (buffer.bytes < bytes) {
    const std::size_t wanted = std::max<std::size_t>(bytes, kTransferBytesMax);
    buffer.data.reset(new (std::nothrow) std::byte[wanted]);
    buffer.bytes = buffer.data ? wanted : 0;
  }
  return buffer.data.get();
}

void init(void*, fuse_conn_info* conn) {
  conn->max_write = std::min(conn->max_write, kTransferBytesMax);
  conn->max_background = kBackgroundMax;
  conn->congestion_threshold = kBackgroundMax * 3 / 4;
  // Splicing costs more than it saves (1 MiB reads take twice as long), and a truncating open must
  // come as a set-attribute, which is refused before the kernel believes in the new size.
  conn->want &= ~static_cast<unsigned>(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                                       FUSE_CAP_SPLICE_MOVE | FUSE_CAP_ATOMIC_O_TRUNC);
}

void lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  fuse_entry_param entry{};
  if (parent != FUSE_ROOT_ID || std::strcmp(name, kLoopFileName) != 0) {
    fuse_reply_err(req, ENOENT);
    return;
  }
  fill_attributes(disk_of(req), kDiskInode, &entry.attr);
  entry.ino = kDiskInode;
  entry.attr_timeout = kValidSeconds;
  entry.entry_timeout = kValidSeconds;
  fuse_reply_entry(req, &entry);
}

void getattr(fuse_req_t req, fuse_ino_t inode, fuse_file_info*) {
  struct stat attributes;
  if (!fill_attributes(disk_of(req), inode, &attributes)) {
    fuse_reply_err(req, ENOENT);
  } else {
    fuse_reply_attr(req, &attributes, kValidSeconds);
  }
}

// Times may be set, to no effect; the rest is what it is.
void setattr(fuse_req_t req, fuse_ino_t inode, struct stat* wanted, int what, fuse_file_info*) {
  struct stat attributes;
  if (!fill_attributes(disk_of(req), inode, &attributes)) {
    fuse_reply_err(req, ENOENT);
  } else if ((what & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0 ||
             ((what & FUSE_SET_ATTR_SIZE) != 0 && wanted->st_size != attributes.st_size)) {
    fuse_reply_err(req, EPERM);
  } else {
    fuse_reply_attr(req, &attributes, kValidSeconds);
  }
}

void readdir(fuse_req_t req, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info*) {
  struct Name {
    const char* text;
    fuse_ino_t inode;
  };
  static constexpr std::array kNames = {Name{".", FUSE_ROOT_ID}, Name{"..", FUSE_ROOT_ID},
                                        Name{kLoopFileName, kDiskInode}};
  if (inode != FUSE_ROOT_ID) {
    fuse_reply_err(req, ENOTDIR);
    return;
  }
  std::array<char, 256> out;
  const std::size_t room = std::min(size, out.size());
  std::size_t used = 0;
  for (off_t i = std::max<off_t>(offset, 0); i < static_cast<off_t>(kNames.size()); ++i) {
    const Name& name = kNames[static_cast<std::size_t>(i)];
    struct stat attributes;
    fill_attributes(disk_of(req), name.inode, &attributes);
    const std::size_t bytes =
        fuse_add_direntry(req, out.data() + used, room - used, name.text, &attributes, i + 1);
    if (bytes > room - used) break;
    used += bytes;
  }
  fuse_reply_buf(req, out.data(), used);
}

void statfs(fuse_req_t req, fuse_ino_t) {
  struct statvfs out {};
  out.f_bsize = kPageBytes;  // the loop device's discard granularity
  out.f_frsize = kPageBytes;
  out.f_blocks = disk_of(req).device.size_bytes() / kPageBytes;
  out.f_files = 1;
  out.f_namemax = 255;
  fuse_reply_statfs(req, &out);
}

void open(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  ExportedDisk& disk = disk_of(req);
  if (inode != kDiskInode) {
    fuse_reply_err(req, inode == FUSE_ROOT_ID ? EISDIR : ENOENT);
    return;
  }
  if ((info->flags & O_ACCMODE) != O_RDONLY && disk.read_only) {
    fuse_reply_err(req, EROFS);
    return;
  }
  if ((info->flags & O_TRUNC) != 0) {
    fuse_reply_err(req, EPERM);
    return;
  }
  // In the protocol's own form: libfuse learned to ask for parallel writes only in 3.15.
  fuse_open_out out{};
  out.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES | FOPEN_NOFLUSH;
  if (!disk.opened()) {
    fuse_reply_err(req, EBUSY);
    return;
  }
  if (fuse_reply_buf(req, reinterpret_cast<const char*>(&out), sizeof out) != 0) {
    disk.closed();  // the opener was interrupted, no release will come
  }
}

void release(fuse_req_t req, fuse_ino_t, fuse_file_info*) {
  disk_of(req).closed();
  fuse_reply_err(req, 0);
}

void read(fuse_req_t req, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info*) {
  const Device& device = disk_of(req).device;
  const std::uint64_t at = static_cast<std::uint64_t>(offset);
  const std::uint64_t end = device.size_bytes();
  if (offset < 0 || at >= end) {
    fuse_reply_buf(req, nullptr, 0);
    return;
  }
  const std::size_t length = std::min<std::uint64_t>(size, end - at);
  std::byte* data = thread_buffer(length);
  if (data == nullptr) {
    fuse_reply_err(req, ENOMEM);
    return;
  }
  Turn::current().serve(req, {.op = Op::read, .offset = at, .length = length, .data = data});
}

void write(fuse_req_t req, fuse_ino_t, const char* data, std::size_t size, off_t offset,
           fuse_file_info*) {
  const Device& device = disk_of(req).device;
  const std::uint64_t at = static_cast<std::uint64_t>(offset);
  const std::uint64_t end = device.size_bytes();
  if (offset < 0 || at >= end) {
    fuse_reply_err(req, ENOSPC);  // as a block device answers past its end
    return;
  }
  const std::size_t length = std::min<std::uint64_t>(size, end - at);
  // A write's data are only read.
  std::byte* from = reinterpret_cast<std::byte*>(const_cast<char*>(data));
  Turn::current().serve(req, {.op = Op::write, .offset = at, .length = length, .data = from});
}

void fsync(fuse_req_t req, fuse_ino_t, int, fuse_file_info*) {
  Turn::current().serve(req, {.op = Op::flush});
}

void fallocate(fuse_req_t req, fuse_ino_t, int mode, off_t offset, off_t length, fuse_file_info*) {
  const Device& device = disk_of(req).device;
  if (offset < 0 || length <= 0) {
    fuse_reply_err(req, EINVAL);
    return;
  }
  const std::uint64_t end = device.size_bytes();
  const std::uint64_t at = std::min<std::uint64_t>(static_cast<std::uint64_t>(offset), end);
  const std::uint64_t bytes = std::min<std::uint64_t>(static_cast<std::uint64_t>(length), end - at);
  // No request changes the size, so what lies past the end is "kept" by leaving it alone.
  switch (mode & ~FALLOC_FL_KEEP_SIZE) {
    case FALLOC_FL_PUNCH_HOLE:
      Turn::current().serve(req, {.op = Op::discard, .offset = at, .length = bytes});
      return;
    case FALLOC_FL_ZERO_RANGE:
      Turn::current().serve(
          req, {.op = Op::write_zeroes, .flags = kNoHole, .offset = at, .length = bytes});
      return;
    default:
      fuse_reply_err(req, EOPNOTSUPP);
  }
}

// Holes are extents that hold nothing. Where the search takes too long, the rest counts as data,
// which is always a right answer.
void lseek(fuse_req_t req, fuse_ino_t, off_t offset, int whence, fuse_file_info*) {
  constexpr int kStepsMax = 256;
  const Device& device = disk_of(req).device;
  const std::uint64_t size = device.size_bytes();
  std::uint64_t at = static_cast<std::uint64_t>(offset);
  if (offset < 0 || at >= size || (whence != SEEK_DATA && whence != SEEK_HOLE)) {
    fuse_reply_err(req, offset >= 0 && at >= size ? ENXIO : EINVAL);
    return;
  }
  const bool want_hole = whence == SEEK_HOLE;
  for (int step = 0; step < kStepsMax && at < size; ++step) {
    std::array<Extent, 64> extents;
    const std::size_t count = device.extents(at, size - at, extents);
    if (count == 0) break;
    for (const Extent& extent : std::span(extents).first(count)) {
      if ((extent.hole && extent.zero) == want_hole) {
        fuse_reply_lseek(req, static_cast<off_t>(at));
        return;
      }
      at += extent.length;
    }
  }
  if (at >= size && !want_hole) {
    fuse_reply_err(req, ENXIO);
  } else {
    fuse_reply_lseek(req, static_cast<off_t>(want_hole ? size : at));
  }
}

}  // namespace

bool ExportedDisk::opened() {
  const base::MutexLock lock(mutex_);
  if (held_) return false;
  ++opens_;
  return true;
}

bool ExportedDisk::hold(unsigned limit) {
  const base::MutexLock lock(mutex_);
  if (opens_ > limit) return false;
  held_ = true;
  return true;
}

void ExportedDisk::release() noexcept {
  const base::MutexLock lock(mutex_);
  held_ = false;
}

void ExportedDisk::closed() {
  const base::MutexLock lock(mutex_);
  --opens_;
  fewer_.notify_all();
}

void ExportedDisk::all_closed() {
  const base::MutexLock lock(mutex_);
  opens_ = 0;
  fewer_.notify_all();
}

unsigned ExportedDisk::opens() const {
  const base::MutexLock lock(mutex_);
  return opens_;
}

bool ExportedDisk::wait_for_opens(unsigned limit, std::chrono::steady_clock::time_point deadline) {
  const base::MutexLock lock(mutex_);
  while (opens_ > limit) {
    if (!fewer_.wait_until(mutex_, deadline)) return opens_ <= limit;
  }
  return true;
}

const fuse_lowlevel_ops& disk_operations() {
  static const fuse_lowlevel_ops kOperations = [] {
    fuse_lowlevel_ops ops{};
    ops.init = init;
    ops.lookup = lookup;
    ops.getattr = getattr;
    ops.setattr = setattr;
    ops.readdir = readdir;
    ops.statfs = statfs;
    ops.open = open;
    ops.release = release;
    ops.read = read;
    ops.write = write;
    ops.fsync = fsync;
    ops.fallocate = fallocate;
    ops.lseek = lseek;
    return ops;
  }();
  return kOperations;
}

}  // namespace uzram::attach
