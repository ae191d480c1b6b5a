// An exclusive claim on a loop device of ours.
//
// What: held, it keeps mounts and swap out, wherever they are made. The descriptor behind it is in
//   a table of its own, with a thread of its own: were it in the process's, and the process killed
//   after somebody had written to the device and gone, the kernel would wait in closing it for
//   write-back through our own session, whose descriptor stands in the same table and is not
//   closed before. No signal would end that.
// Units: none. Ownership: owns thread and claim; both go with it.
// Threading: taken and dropped by any thread. Errors: busy where others hold the device.
#ifndef UZRAM_ATTACH_LOOP_LOOP_CLAIM_H_
#define UZRAM_ATTACH_LOOP_LOOP_CLAIM_H_

#include <memory>
#include <optional>
#include <thread>

#include "attach/loop/loop_device.h"
#include "base/mutex.h"

namespace uzram::attach {

class LoopClaim {
 public:
  // Nothing where the device is not (or no longer) bound to `backing`.
  static Result<std::unique_ptr<LoopClaim>> take(int number, const Backing& backing);
  ~LoopClaim();
  LoopClaim(const LoopClaim&) = delete;
  LoopClaim& operator=(const LoopClaim&) = delete;

 private:
  LoopClaim() = default;
  void hold(int number, const Backing& backing);

  base::Mutex mutex_;
  base::CondVar changed_;
  std::optional<Result<bool>> taken_ UZRAM_GUARDED_BY(mutex_);
  bool drop_ UZRAM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_LOOP_CLAIM_H_
