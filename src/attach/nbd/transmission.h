// The transmission phase of one connection: requests in, replies out.
//
// What: takes the requests that one receive brought (up to 64), runs them as one batch of the
// device
//   and answers all of them with one send. Requests of a connection run in the order in which they
//   came, but for those that wait for the backing store: they go to the slow lane and are answered
//   when they have ended. None overtakes an older change that it overlaps, and a FLUSH covers every
//   change that was answered before it came.
// Units: bytes. Ownership: borrows. Memory: small requests share a buffer, a large one has its own;
//   both are the stream's scratch, kTransmissionScratchBytes; and what Deferred says.
// Threading: one thread. `run` returns when nothing of it is in the lane any more.
// Errors: a request that fails is answered and the connection goes on; what can't be answered (a
//   wrong magic, a peer that stalls) ends it.
#ifndef UZRAM_ATTACH_NBD_TRANSMISSION_H_
#define UZRAM_ATTACH_NBD_TRANSMISSION_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "attach/nbd/command.h"
#include "attach/nbd/deferred.h"
#include "attach/nbd/export.h"
#include "attach/nbd/stream.h"
#include "exec/slow_lane.h"
#include "uzram/device.h"
#include "uzram/request.h"

namespace uzram::attach::nbd {

inline constexpr std::size_t kSmallReplyBytes = std::size_t{256} << 10;
inline constexpr std::size_t kTransmissionScratchBytes = kSmallReplyBytes + kPayloadBytesMax;

class Transmission {
 public:
  Transmission(const Export& served, const Session& session, Stream& stream, exec::SlowLane& lane)
      : export_(served),
        session_(session),
        stream_(stream),
        small_(stream.scratch()),
        large_(stream.scratch() + kSmallReplyBytes),
        deferred_(served.device, lane) {}

  // Serves until the client leaves. Returns why it had to end, empty for a good reason.
  std::string run();

 private:
  static constexpr std::size_t kBatchMax = 64;

  // A command and where its answer comes from.
  struct Pending {
    Command command;
    Status refused = Status::ok;          // set: the device is not asked
    std::size_t first = 0, requests = 0;  // its part of requests_
    std::span<const std::byte> data;      // sent after the header on success
  };

  // One round; false when the connection is over.
  bool serve_some();
  // Takes commands from what is pending until the batch is full, or what follows needs the batch to
  // be done first, or more bytes.
  void gather();
  // One command; false when it has to wait for the batch, or for more bytes.
  bool gather_one(const Command& command);
  bool gather_write(Pending& pending);
  bool gather_read(Pending& pending);
  void block_status(Pending& pending);
  Status check(const Command& command) const;
  void add(Pending& pending, Op op, std::byte* data = nullptr);
  // Whether a change of this batch overlaps it.
  bool overlaps_batch(const Command& command) const;

  bool run_batch();
  // Waits for the backing store on this thread, and answers.
  bool run_here(const Pending& pending);
  std::span<Request> requests_of(const Pending& pending);
  // Those that have ended.
  bool answer(std::span<const Pending> commands);
  bool answer_deferred();
  Status status_of(const Pending& pending) const;

  const Export& export_;
  const Session session_;
  Stream& stream_;
  std::byte* const small_;  // kSmallReplyBytes: what small reads of a batch return
  std::byte* const large_;  // kPayloadBytesMax: the data of the one large request of a batch

  std::array<Pending, kBatchMax> batch_;
  std::size_t batch_size_ = 0;
  std::array<Request, kBatchMax> requests_;
  std::size_t requests_size_ = 0;
  std::size_t small_used_ = 0;
  bool large_used_ = false;
  std::uint64_t changed_begin_ = 0, changed_end_ = 0;  // what the batch changes lies in here
  bool behind_ = false;  // the batch is one command, which a change in the lane comes before
  Deferred deferred_;
  bool over_ = false;
  std::string why_;
};

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_TRANSMISSION_H_
