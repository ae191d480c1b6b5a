#include "backing/file_store.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/fd.h"

namespace uzram::backing {
namespace {

class FileStore final : public Store {
 public:
  FileStore(std::string path, base::Fd file, std::uint64_t block_count, bool is_device, bool direct,
            RingSet::Create create_ring)
      : path_(std::move(path)),
        file_(std::move(file)),
        block_count_(block_count),
        is_device_(is_device),
        direct_(direct),
        rings_(create_ring) {}

  const std::string& where() const noexcept override { return path_; }
  std::uint64_t block_count() const noexcept override { return block_count_; }
  void run(std::span<Io> batch, unsigned in_flight_max) noexcept override;
  bool discard(std::uint64_t first_block, std::uint64_t count) noexcept override;
  void shut_down() noexcept override { shut_down_ = true; }

 private:
  Status transfer(const Io& io) const noexcept;
  void run_in_ring(std::span<Io> batch, unsigned in_flight) noexcept;
  void drop_cache(std::span<Io> batch) const noexcept;

  const std::string path_;
  const base::Fd file_;  // holds the lock
  const std::uint64_t block_count_;
  const bool is_device_;
  const bool direct_;
  std::atomic<bool> shut_down_{false};
  RingSet rings_;
};

void FileStore::run(std::span<Io> batch, unsigned in_flight_max) noexcept {
  const std::size_t pending = check_batch(batch, block_count_);
  const auto in_flight = static_cast<unsigned>(
      std::min<std::size_t>(pending, std::clamp(in_flight_max, 1U, kInFlightMax)));
  if (in_flight > 1 && !shut_down_) run_in_ring(batch, in_flight);
  for (Io& io : batch) {
    if (io.status == kPending) io.status = transfer(io);
  }
  if (!direct_) drop_cache(batch);
}

void FileStore::run_in_ring(std::span<Io> batch, unsigned in_flight) noexcept {
  std::unique_ptr<Ring> ring = rings_.take(in_flight);
  if (ring != nullptr && ring->run(file_.get(), batch, in_flight)) {
    rings_.give_back(std::move(ring));
  }
}

Status FileStore::transfer(const Io& io) const noexcept {
  std::size_t done = 0;
  while (done < io.data.size()) {
    if (shut_down_) return Status::io_error;
    std::byte* const at = io.data.data() + done;
    const std::size_t length = std::min(io.data.size() - done, kTransferBytesMax);
    const auto offset = static_cast<off_t>(io.offset + done);
    const ssize_t moved = io.kind == Io::Kind::read ? ::pread(file_.get(), at, length, offset)
                                                    : ::pwrite(file_.get(), at, length, offset);
    if (moved == 0) return Status::io_error;  // somebody made the file shorter
    if (moved > 0) {
      done += static_cast<std::size_t>(moved);
    } else if (errno != EINTR && errno != EAGAIN) {
      return status_of_transfer(errno);
    }
  }
  return Status::ok;
}

// Without O_DIRECT, what was moved is in memory twice, and write-back would free nothing. Only
// clean pages can be dropped, so writes are waited for; that also shows their errors in time. All
// are started before the first is waited for.
void FileStore::drop_cache(std::span<Io> batch) const noexcept {
  const auto sync = [this](const Io& io, unsigned flags) {
    return ::sync_file_range(file_.get(), static_cast<off_t>(io.offset),
                             static_cast<off_t>(io.data.size()), flags);
  };
  const auto written = [](const Io& io) {
    return io.kind == Io::Kind::write && io.status == Status::ok;
  };
  for (const Io& io : batch) {
    if (written(io)) (void)sync(io, SYNC_FILE_RANGE_WRITE);
  }
  for (Io& io : batch) {
    if (written(io) && sync(io, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                    SYNC_FILE_RANGE_WAIT_AFTER) != 0) {
      io.status = status_of_transfer(errno);
    }
    if (io.status == Status::ok) {
      (void)::posix_fadvise(file_.get(), static_cast<off_t>(io.offset),
                            static_cast<off_t>(io.data.size()), POSIX_FADV_DONTNEED);
    }
  }
}

bool FileStore::discard(std::uint64_t first_block, std::uint64_t count) noexcept {
  const ByteRange range = clip_discard(first_block, count, block_count_);
  if (range.length == 0 || shut_down_) return true;
  if (is_device_) {
    std::array<std::uint64_t, 2> bytes{range.offset, range.length};
    (void)::ioctl(file_.get(), BLKDISCARD, bytes.data());
    return true;
  }
  while (::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(range.offset), static_cast<off_t>(range.length)) != 0 &&
         errno == EINTR) {
  }
  return true;
}

std::string_view kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
      return "a character device";
    default:
      return "of an unknown kind";
  }
}

// Nothing is opened that would be refused: opening alone may rewind a tape or wake a reader.
Result<bool> is_block_device(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return fail_errno(errno, path);
  if (S_ISREG(found.st_mode)) return false;
  if (S_ISBLK(found.st_mode)) return true;
  return fail(Status::invalid_argument,
              path + ": " + std::string(kind_of(found.st_mode)) + ", not a file or block device");
}

// The exclusive claim of a block device comes with its opening, that of a file by a lock; both end
// with the descriptor.
Result<base::Fd> open_locked(const std::string& path, bool is_device, bool direct) {
  // O_NONBLOCK: the path may have become a FIFO since it was looked at.
  const int flags = O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (is_device ? O_EXCL : 0) |
                    (direct ? O_DIRECT : 0);
  base::Fd file(::open(path.c_str(), flags));
  if (!file && errno == EINVAL && direct) return open_locked(path, is_device, false);
  if (!file) {
    if (errno == EBUSY) {
      return fail(Status::busy, path + ": in use, or mounted");
    }
    return fail_errno(errno, path);
  }
  struct stat opened {};
  if (::fstat(file.get(), &opened) != 0) return fail_errno(errno, path);
  if (!(is_device ? S_ISBLK(opened.st_mode) : S_ISREG(opened.st_mode))) {
    return fail(Status::invalid_argument, path + ": became something else while it was opened");
  }
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (!is_device && ::fcntl(file.get(), F_OFD_SETLK, &whole) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return fail(Status::busy, path + ": in use by another backing store");
    }
    return fail_errno(errno, path + ": lock");
  }
  // io_uring would answer EAGAIN where it should wait.
  const int status_flags = ::fcntl(file.get(), F_GETFL);
  if (status_flags < 0 || ::fcntl(file.get(), F_SETFL, status_flags & ~O_NONBLOCK) != 0) {
    return fail_errno(errno, path);
  }
  return file;
}

Result<std::uint64_t> size_bytes_of(const std::string& path, const base::Fd& file, bool is_device) {
  std::uint64_t size = 0;
  if (!is_device) {
    struct stat found {};
    if (::fstat(file.get(), &found) != 0) return fail_errno(errno, path);
    return static_cast<std::uint64_t>(found.st_size);
  }
  int read_only = 0;
  if (::ioctl(file.get(), BLKROGET, &read_only) != 0 ||
      ::ioctl(file.get(), BLKGETSIZE64, &size) != 0) {
    return fail_errno(errno, path);
  }
  if (read_only != 0) return fail(Status::read_only, path + ": a read-only device");
  return size;
}

// Reads the first block, past the page cache where that can be. False where it must go through it:
// not every file system that lets a file be opened with O_DIRECT can do it in our blocks.
Result<bool> try_direct(const std::string& path, const base::Fd& file) {
  alignas(kBlockBytes) std::array<std::byte, kBlockBytes> block;
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (::pread(file.get(), block.data(), block.size(), 0) >= 0) return (flags & O_DIRECT) != 0;
  if (errno != EINVAL || (flags & O_DIRECT) == 0) return fail_errno(errno, path + ": first block");
  if (::fcntl(file.get(), F_SETFL, flags & ~O_DIRECT) != 0) return fail_errno(errno, path);
  return try_direct(path, file);
}

}  // namespace

Result<std::unique_ptr<Store>> open_file_store(const std::string& path,
                                               const FileSystemCalls& calls) {
  const Result<bool> is_device = is_block_device(path);
  if (!is_device) return tl::unexpected<Error>(is_device.error());
  Result<base::Fd> file = open_locked(path, *is_device, calls.direct);
  if (!file) return tl::unexpected<Error>(file.error());
  const Result<std::uint64_t> size_bytes = size_bytes_of(path, *file, *is_device);
  if (!size_bytes) return tl::unexpected<Error>(size_bytes.error());
  if (*size_bytes < kBlockBytes) {
    return fail(Status::invalid_argument, path + ": " + std::to_string(*size_bytes) +
                                              " bytes, less than one block of " +
                                              std::to_string(kBlockBytes));
  }
  const Result<bool> direct = try_direct(path, *file);
  if (!direct) return tl::unexpected<Error>(direct.error());
  return std::make_unique<FileStore>(path, std::move(*file), *size_bytes / kBlockBytes, *is_device,
                                     *direct, calls.create_ring);
}

}  // namespace uzram::backing
