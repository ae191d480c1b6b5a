#include "attach/nbd/transmission.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "attach/nbd/protocol.h"
#include "attach/nbd/wire.h"

namespace uzram::attach::nbd {
namespace {

// A payload up to this length waits in the input buffer until it is whole; a longer one that didn't
// come whole is received straight into its own buffer.
constexpr std::size_t kInlinePayloadBytes = std::size_t{64} << 10;
static_assert(kRequestBytes + kInlinePayloadBytes <= Stream::kInputBytes);

// Longest answer to one BLOCK_STATUS; the client asks again for the rest of its range.
constexpr std::size_t kExtentsMax = 2048;
constexpr std::size_t kDescriptorBytes = 8;
static_assert(sizeof(std::uint32_t) + kExtentsMax * kDescriptorBytes <= kSmallReplyBytes);

std::uint16_t flags_allowed(std::uint16_t type, bool structured_replies) {
  // "Command flags": FUA is accepted with every command once it was announced.
  switch (type) {
    case kCmdWriteZeroes:
      return kCmdFlagFua | kCmdFlagNoHole | kCmdFlagFastZero;
    case kCmdRead:
      return structured_replies ? kCmdFlagFua | kCmdFlagDf : kCmdFlagFua;
    case kCmdBlockStatus:
      return kCmdFlagFua | kCmdFlagReqOne;
    default:
      return kCmdFlagFua;
  }
}

}  // namespace

std::string Transmission::run() {
  while (!over_ && serve_some()) {
  }
  // What came before the end is done, and answered to who still listens.
  for (bool heard = true; deferred_.any();) {
    deferred_.wait_for_one();
    if (heard) {
      heard = answer_deferred();
    } else {
      (void)deferred_.give_back();
    }
  }
  return why_.empty() ? stream_.why() : why_;
}

bool Transmission::serve_some() {
  batch_size_ = requests_size_ = small_used_ = 0;
  large_used_ = behind_ = false;
  changed_begin_ = kDeviceBytesMax;
  changed_end_ = 0;
  gather();
  if (deferred_.any() && !answer_deferred()) return false;
  if (batch_size_ > 0) return run_batch();
  // The input stays where it is until here.
  return over_ || stream_.receive(deferred_.any() ? deferred_.ready_fd() : -1);
}

void Transmission::gather() {
  // A command takes up to two requests.
  while (!over_ && !behind_ && batch_size_ < kBatchMax && requests_size_ + 2 <= kBatchMax &&
         stream_.pending().size() >= kRequestBytes) {
    const std::byte* at = stream_.pending().data();
    if (load_be<std::uint32_t>(at) != kRequestMagic) {
      why_ = "a request has a wrong magic";
      over_ = true;
      return;
    }
    if (!gather_one(load_command(at))) return;
  }
}

bool Transmission::gather_one(const Command& command) {
  // "NBD_CMD_DISC": no reply; what came before it is done and answered.
  if (command.type == kCmdDisc) {
    over_ = true;
    return false;
  }
  Pending& pending = batch_[batch_size_];
  pending = {};
  pending.command = command;
  pending.refused = check(command);
  pending.first = requests_size_;
  if (pending.refused == Status::ok && overlaps_batch(command)) return false;
  const bool behind =
      pending.refused == Status::ok && deferred_.any() && deferred_.is_behind(command);
  if (behind && batch_size_ > 0) return false;
  if (command.type == kCmdWrite) {
    if (!gather_write(pending)) return false;
  } else if (pending.refused == Status::ok) {
    switch (command.type) {
      case kCmdRead:
        if (!gather_read(pending)) return false;
        break;
      case kCmdBlockStatus:
        // It must see the requests before it done, and takes its answer's room from the batch.
        if (batch_size_ > 0) return false;
        if (behind) deferred_.wait_until_apart(command);
        block_status(pending);
        break;
      case kCmdTrim:
        add(pending, Op::discard);
        break;
      case kCmdWriteZeroes:
        add(pending, Op::write_zeroes);
        break;
      case kCmdFlush:
        add(pending, Op::flush);
        break;
      default:  // CACHE: everything is in memory as it is
        break;
    }
  }
  // "FUA": durable before the reply. Reads and flushes have nothing to add.
  if (command.is_change() && pending.refused == Status::ok) {
    if ((command.flags & kCmdFlagFua) != 0) {
      requests_[requests_size_++] = Request{.op = Op::flush, .flags = kNoWait};
      ++pending.requests;
    }
    changed_begin_ = std::min(changed_begin_, command.offset);
    changed_end_ = std::max(changed_end_, command.end());
  }
  behind_ = behind;
  if (command.type != kCmdWrite) stream_.consume(kRequestBytes);
  ++batch_size_;
  return true;
}

// Takes the command and its payload off the stream.
bool Transmission::gather_write(Pending& pending) {
  const std::size_t length = pending.command.length;
  const std::span<const std::byte> here = stream_.pending();
  if (here.size() - kRequestBytes >= length) {
    std::byte* payload = stream_.pending_data() + kRequestBytes;
    stream_.consume(kRequestBytes + length);
    if (pending.refused == Status::ok) add(pending, Op::write, payload);
    return true;
  }
  // Nobody should wait for an answer until this payload has come. Receiving it would also move what
  // the batch points at.
  if (batch_size_ > 0 || length <= kInlinePayloadBytes) return false;
  stream_.consume(kRequestBytes);
  const bool received = pending.refused == Status::ok ? stream_.take(std::span(large_, length))
                                                      : stream_.skip(length);
  if (!received) {
    over_ = true;
    return false;
  }
  large_used_ = true;
  if (pending.refused == Status::ok) add(pending, Op::write, large_);
  return true;
}

bool Transmission::gather_read(Pending& pending) {
  const std::size_t length = pending.command.length;
  std::byte* to = nullptr;
  if (length <= kSmallReplyBytes - small_used_) {
    to = small_ + small_used_;
    small_used_ += length;
  } else if (!large_used_) {
    to = large_;
    large_used_ = true;
  } else {
    return false;
  }
  pending.data = std::span(to, length);
  add(pending, Op::read, to);
  return true;
}

// "NBD_REPLY_TYPE_BLOCK_STATUS": the context's number, then length and flags of each run.
void Transmission::block_status(Pending& pending) {
  const Command& command = pending.command;
  std::vector<Extent> extents((command.flags & kCmdFlagReqOne) != 0 ? 1 : kExtentsMax);
  const std::size_t count = export_.device.extents(command.offset, command.length, extents);
  if (count == 0) {
    pending.refused = Status::io_error;
    return;
  }
  std::byte* at = small_;
  store_be(at, kAllocationContextId);
  at += sizeof(std::uint32_t);
  for (const Extent& extent : std::span(extents).first(count)) {
    store_be(at, static_cast<std::uint32_t>(extent.length));
    store_be(at + 4, (extent.hole ? kStateHole : 0U) | (extent.zero ? kStateZero : 0U));
    at += kDescriptorBytes;
  }
  small_used_ = kSmallReplyBytes;
  pending.data = std::span(small_, at);
}

Status Transmission::check(const Command& command) const {
  const std::uint16_t type = command.type;
  if (type > kCmdBlockStatus || type == kCmdDisc) return Status::invalid_argument;
  if ((command.flags & ~flags_allowed(type, session_.structured_replies)) != 0) {
    return Status::invalid_argument;
  }
  if (type == kCmdFlush) {
    return command.offset == 0 && command.length == 0 ? Status::ok : Status::invalid_argument;
  }
  if (type == kCmdBlockStatus && (!session_.block_status || command.length == 0)) {
    return Status::invalid_argument;
  }
  if ((type == kCmdRead || type == kCmdWrite) && command.length > kPayloadBytesMax) {
    return Status::invalid_argument;
  }
  if (command.is_change() && export_.read_only) return Status::read_only;
  const std::uint64_t size = export_.device.size_bytes();
  if (command.offset > size || command.length > size - command.offset) return Status::out_of_range;
  return Status::ok;
}

void Transmission::add(Pending& pending, Op op, std::byte* data) {
  Request& request = requests_[requests_size_++];
  request = {};
  request.op = op;
  request.flags = kNoWait;
  if (op == Op::write_zeroes && (pending.command.flags & kCmdFlagNoHole) != 0) {
    request.flags |= kNoHole;
  }
  request.offset = pending.command.offset;
  request.length = pending.command.length;
  request.data = data;
  ++pending.requests;
}

// Only what lies between the first and the last byte that the batch changes needs a closer look.
bool Transmission::overlaps_batch(const Command& command) const {
  if (command.offset >= changed_end_ || command.end() <= changed_begin_) return false;
  const std::span<const Pending> batch(batch_.data(), batch_size_);
  return std::any_of(batch.begin(), batch.end(), [&command](const Pending& other) {
    return other.refused == Status::ok && other.command.is_change() &&
           other.command.overlaps(command);
  });
}

std::span<Request> Transmission::requests_of(const Pending& pending) {
  return std::span(requests_).subspan(pending.first, pending.requests);
}

bool Transmission::run_batch() {
  const std::span<Request> requests(requests_.data(), requests_size_);
  if (behind_) {
    for (Request& request : requests) request.status = Status::would_block;
  } else {
    export_.device.submit(requests);
  }
  const std::span<const Pending> batch(batch_.data(), batch_size_);
  std::array<const Pending*, kBatchMax> here;
  std::size_t here_size = 0;
  for (const Pending& pending : batch) {
    if (status_of(pending) == Status::would_block &&
        !deferred_.take(pending.command, requests_[pending.first])) {
      here[here_size++] = &pending;
    }
  }
  if (!answer(batch)) return false;
  return std::all_of(here.begin(), here.begin() + here_size,
                     [this](const Pending* pending) { return run_here(*pending); });
}

bool Transmission::run_here(const Pending& pending) {
  deferred_.wait_until_apart(pending.command);
  const std::span<Request> requests = requests_of(pending);
  for (Request& request : requests) request.flags &= static_cast<std::uint8_t>(~kNoWait);
  export_.device.submit(requests);
  return answer({&pending, 1});
}

bool Transmission::answer_deferred() {
  while (const std::unique_ptr<Deferred::Job> job = deferred_.give_back()) {
    Pending ended;
    ended.command = job->command;
    ended.refused = job->request.status;
    if (job->request.op == Op::read) ended.data = {job->request.data, job->request.length};
    if (!answer({&ended, 1})) return false;
  }
  return true;
}

bool Transmission::answer(std::span<const Pending> commands) {
  std::array<std::array<std::byte, kReplyHeaderBytesMax>, kBatchMax> headers;
  std::array<iovec, 2 * kBatchMax> parts;
  std::size_t count = 0;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const Pending& pending = commands[i];
    const Status status = status_of(pending);
    if (status == Status::would_block) continue;
    const std::size_t header_size =
        put_reply_header(pending.command, session_, status, pending.data.size(), headers[i].data());
    parts[count++] = {headers[i].data(), header_size};
    if (status == Status::ok && !pending.data.empty()) {
      parts[count++] = {const_cast<std::byte*>(pending.data.data()), pending.data.size()};
    }
  }
  return stream_.send(std::span(parts.data(), count));
}

Status Transmission::status_of(const Pending& pending) const {
  if (pending.refused != Status::ok) return pending.refused;
  for (const Request& request : std::span(requests_).subspan(pending.first, pending.requests)) {
    if (request.status != Status::ok) return request.status;
  }
  return Status::ok;
}

}  // namespace uzram::attach::nbd
