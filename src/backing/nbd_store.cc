#include "backing/nbd_store.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "backing/nbd_connection.h"
#include "backing/transfer.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace uzram::backing {
namespace {

using Clock = std::chrono::steady_clock;

// One call of `run` or `discard`, on its caller's stack. The thread's alone from its arrival until
// `done` is set.
struct Batch {
  std::span<Io> ios;
  unsigned in_flight_max = 1;
  std::uint64_t trim_bytes = 0;  // not 0: the one Io names only the place of a trim

  std::size_t next = 0;  // the first that may still have to be started
  unsigned in_flight = 0;
  bool queued = false;  // in a Queue
  Batch* after = nullptr;

  base::CondVar finished;
  bool done = false;  // guarded by the store's mutex
};

class Queue {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  void push(Batch& batch) noexcept {
    batch.queued = true;
    batch.after = nullptr;
    (first_ == nullptr ? first_ : last_->after) = &batch;
    last_ = &batch;
  }
  Batch& pop() noexcept {
    Batch& batch = *first_;
    first_ = batch.after;
    batch.queued = false;
    return batch;
  }

 private:
  Batch* first_ = nullptr;
  Batch* last_ = nullptr;
};

// One Io on its way.
struct Slot {
  NbdConnection::Command command;
  Batch* batch = nullptr;  // null: free
  Io* io = nullptr;
  std::uint64_t done_bytes = 0;
};

class NbdStore final : public Store {
 public:
  NbdStore(std::string uri, std::chrono::milliseconds connect_time_max,
           std::unique_ptr<NbdConnection> connection, base::Fd wake, base::Fd given_up)
      : uri_(std::move(uri)),
        connect_time_max_(connect_time_max),
        block_count_(connection->size_bytes() / kBlockBytes),
        can_trim_(connection->can_trim()),
        wake_(std::move(wake)),
        given_up_(std::move(given_up)),
        connection_(std::move(connection)),
        thread_([this] { serve(); }) {}
  ~NbdStore() override;

  const std::string& where() const noexcept override { return uri_; }
  std::uint64_t block_count() const noexcept override { return block_count_; }
  void run(std::span<Io> batch, unsigned in_flight_max) noexcept override;
  bool discard(std::uint64_t first_block, std::uint64_t count) noexcept override;
  void shut_down() noexcept override UZRAM_EXCLUDES(mutex_);

 private:
  void submit_and_wait(Batch& batch) noexcept UZRAM_EXCLUDES(mutex_);
  static void signal(const base::Fd& event) noexcept;

  // The thread.
  void serve() noexcept UZRAM_EXCLUDES(mutex_);
  bool take_arrivals() noexcept UZRAM_EXCLUDES(mutex_);
  void connect_again() noexcept;
  void wait() noexcept;
  void start_ready() noexcept;
  void start(Slot& slot) noexcept;
  bool collect() noexcept;
  void end(Slot& slot, Status status) noexcept;
  void give_up_connection() noexcept;
  void fail_ready() noexcept;
  void finish(Batch& batch) noexcept UZRAM_EXCLUDES(mutex_);

  const std::string uri_;
  const std::chrono::milliseconds connect_time_max_;
  const std::uint64_t block_count_;
  const bool can_trim_;
  const base::Fd wake_;      // eventfd: something arrived, or the end
  const base::Fd given_up_;  // eventfd, never reset: shut down

  base::Mutex mutex_;
  Queue arrivals_ UZRAM_GUARDED_BY(mutex_);
  bool ending_ UZRAM_GUARDED_BY(mutex_) = false;
  bool shut_down_ UZRAM_GUARDED_BY(mutex_) = false;

  // The thread's alone.
  std::unique_ptr<NbdConnection> connection_;
  bool may_connect_ = true;
  Clock::time_point next_attempt_{};
  Queue ready_;  // batches that have more to start and may
  std::array<Slot, kInFlightMax> slots_;
  unsigned slots_used_ = 0;

  std::thread thread_;  // last: it uses all of the above
};

// Ios that have ended before they were started were refused.
bool has_more(Batch& batch) noexcept {
  while (batch.next < batch.ios.size() && batch.ios[batch.next].status != kPending) ++batch.next;
  return batch.next < batch.ios.size();
}

NbdStore::~NbdStore() {
  {
    const base::MutexLock lock(mutex_);
    ending_ = true;
  }
  signal(wake_);
  thread_.join();
}

void NbdStore::shut_down() noexcept {
  {
    const base::MutexLock lock(mutex_);
    shut_down_ = true;
  }
  signal(given_up_);
  signal(wake_);
}

void NbdStore::run(std::span<Io> batch, unsigned in_flight_max) noexcept {
  if (check_batch(batch, block_count_) == 0) return;
  Batch made;
  made.ios = batch;
  made.in_flight_max = std::clamp(in_flight_max, 1U, kInFlightMax);
  (void)has_more(made);  // past those that were refused
  submit_and_wait(made);
}

bool NbdStore::discard(std::uint64_t first_block, std::uint64_t count) noexcept {
  const ByteRange range = clip_discard(first_block, count, block_count_);
  if (range.length == 0 || !can_trim_) return true;
  Io place{Io::Kind::write, range.offset, {}, kPending};
  Batch made;
  made.ios = {&place, 1};
  made.trim_bytes = range.length;
  submit_and_wait(made);
  return !place.uncertain;
}

void NbdStore::submit_and_wait(Batch& batch) noexcept {
  {
    const base::MutexLock lock(mutex_);
    arrivals_.push(batch);
  }
  signal(wake_);
  const base::MutexLock lock(mutex_);
  while (!batch.done) batch.finished.wait(mutex_);
}

void NbdStore::signal(const base::Fd& event) noexcept {
  const std::uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof one);
}

void NbdStore::serve() noexcept {
  base::leave_signals_to_main();
  while (take_arrivals()) {
    if (!may_connect_ && connection_ != nullptr) give_up_connection();
    if (connection_ == nullptr && !ready_.empty()) connect_again();
    if (connection_ == nullptr) {
      fail_ready();
    } else {
      do {
        start_ready();
      } while (collect());
    }
    if (connection_ == nullptr || connection_->alive()) {
      wait();
    } else {
      give_up_connection();
    }
  }
  connection_.reset();
}

// False when the store ends.
bool NbdStore::take_arrivals() noexcept {
  const base::MutexLock lock(mutex_);
  while (!arrivals_.empty()) ready_.push(arrivals_.pop());
  may_connect_ = !shut_down_;
  return !ending_;
}

void NbdStore::connect_again() noexcept {
  if (!may_connect_ || Clock::now() < next_attempt_) return;
  try {
    auto connected = NbdConnection::connect(uri_, connect_time_max_, given_up_.get());
    // One that shrank is not the export that the blocks were written to.
    if (connected && (*connected)->size_bytes() / kBlockBytes >= block_count_) {
      connection_ = std::move(*connected);
    }
  } catch (const std::bad_alloc&) {
    connection_.reset();
  }
  constexpr std::chrono::seconds kPause{1};
  next_attempt_ = Clock::now() + kPause;
}

// Nothing more can be done without the server or a caller.
void NbdStore::wait() noexcept {
  if (connection_ != nullptr) {
    connection_->wait(wake_.get(), -1);
  } else {
    pollfd polled{wake_.get(), POLLIN, 0};
    (void)::poll(&polled, 1, -1);
  }
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
}

// In turn, one Io of each batch, so that a large one does not hold up a small one.
void NbdStore::start_ready() noexcept {
  while (!ready_.empty() && slots_used_ < slots_.size()) {
    Batch& batch = ready_.pop();
    Slot& slot = *std::find_if(slots_.begin(), slots_.end(),
                               [](const Slot& at) { return at.batch == nullptr; });
    ++slots_used_;
    ++batch.in_flight;
    slot.batch = &batch;
    slot.io = &batch.ios[batch.next++];
    slot.done_bytes = 0;
    start(slot);
    if (batch.in_flight < batch.in_flight_max && has_more(batch)) ready_.push(batch);
  }
}

void NbdStore::start(Slot& slot) noexcept {
  using Op = NbdConnection::Op;
  const Io& io = *slot.io;
  const bool trims = slot.batch->trim_bytes > 0;
  const Op op = trims ? Op::trim : io.kind == Io::Kind::read ? Op::read : Op::write;
  const std::uint64_t length = trims ? slot.batch->trim_bytes : io.data.size();
  slot.command.op = op;
  slot.command.offset = io.offset + slot.done_bytes;
  slot.command.data = trims ? nullptr : io.data.data() + slot.done_bytes;
  slot.command.length = static_cast<std::size_t>(
      std::min<std::uint64_t>(length - slot.done_bytes, connection_->length_max(op)));
  connection_->issue(slot.command);
}

// True when something was finished, so that more may be started.
bool NbdStore::collect() noexcept {
  bool any = false;
  while (NbdConnection::Command* const command = connection_->take_finished()) {
    any = true;
    Slot& slot = *std::find_if(slots_.begin(), slots_.end(),
                               [command](const Slot& at) { return &at.command == command; });
    slot.done_bytes += command->length;
    const std::uint64_t length =
        slot.batch->trim_bytes > 0 ? slot.batch->trim_bytes : slot.io->data.size();
    if (command->error != 0) {
      end(slot, status_of_transfer(command->error));
    } else if (slot.done_bytes == length) {
      end(slot, Status::ok);
    } else {
      start(slot);
    }
  }
  return any;
}

void NbdStore::end(Slot& slot, Status status) noexcept {
  slot.io->status = status;
  Batch& batch = *std::exchange(slot.batch, nullptr);
  --slots_used_;
  --batch.in_flight;
  if (batch.queued) return;
  if (has_more(batch)) {
    ready_.push(batch);
  } else if (batch.in_flight == 0) {
    finish(batch);
  }
}

// What was in flight fails; what was not started yet may find a new connection.
void NbdStore::give_up_connection() noexcept {
  (void)collect();
  connection_.reset();  // from here on nothing moves the callers' bytes
  for (Slot& slot : slots_) {
    if (slot.batch == nullptr) continue;
    slot.io->uncertain = slot.io->kind == Io::Kind::write;
    end(slot, Status::io_error);
  }
}

// Nothing is in flight.
void NbdStore::fail_ready() noexcept {
  while (!ready_.empty()) {
    Batch& batch = ready_.pop();
    for (; has_more(batch); ++batch.next) batch.ios[batch.next].status = Status::io_error;
    finish(batch);
  }
}

void NbdStore::finish(Batch& batch) noexcept {
  const base::MutexLock lock(mutex_);
  batch.done = true;
  batch.finished.notify_one();  // under the lock: the caller's stack is gone after it
}

}  // namespace

Result<std::unique_ptr<Store>> open_nbd_store(const std::string& uri,
                                              std::chrono::milliseconds connect_time_max) {
  auto connection = NbdConnection::connect(uri, connect_time_max, -1);
  if (!connection) return tl::unexpected<Error>(std::move(connection.error()));
  base::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  base::Fd given_up(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake || !given_up) return fail_errno(errno, uri + ": eventfd");
  try {
    return std::make_unique<NbdStore>(uri, connect_time_max, std::move(*connection),
                                      std::move(wake), std::move(given_up));
  } catch (const std::system_error& error) {
    return fail_errno(error.code().value(), uri + ": thread");
  }
}

}  // namespace uzram::backing
