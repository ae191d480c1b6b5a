// Mutex and condition variable that clang's thread-safety analysis understands.
//
// What: std::mutex and std::condition_variable under annotated names; used instead of the bare
// ones. Units: none. Ownership: as std. Threading: as std. Errors: none.
#ifndef UZRAM_BASE_MUTEX_H_
#define UZRAM_BASE_MUTEX_H_

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define UZRAM_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define UZRAM_THREAD_ANNOTATION(x)
#endif

#define UZRAM_CAPABILITY(x) UZRAM_THREAD_ANNOTATION(capability(x))
#define UZRAM_SCOPED_CAPABILITY UZRAM_THREAD_ANNOTATION(scoped_lockable)
#define UZRAM_GUARDED_BY(x) UZRAM_THREAD_ANNOTATION(guarded_by(x))
#define UZRAM_PT_GUARDED_BY(x) UZRAM_THREAD_ANNOTATION(pt_guarded_by(x))
#define UZRAM_REQUIRES(...) UZRAM_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define UZRAM_ACQUIRE(...) UZRAM_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define UZRAM_RELEASE(...) UZRAM_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define UZRAM_TRY_ACQUIRE(...) UZRAM_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define UZRAM_EXCLUDES(...) UZRAM_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define UZRAM_NO_THREAD_SAFETY_ANALYSIS UZRAM_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace uzram::base {

class UZRAM_CAPABILITY("mutex") Mutex {
 public:
  void lock() UZRAM_ACQUIRE() { mutex_.lock(); }
  void unlock() UZRAM_RELEASE() { mutex_.unlock(); }
  bool try_lock() UZRAM_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class UZRAM_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) UZRAM_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() UZRAM_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may wake spuriously: callers loop over their condition.
class CondVar {
 public:
  void wait(Mutex& mutex) UZRAM_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cond_.wait(lock);
    lock.release();
  }
  // False when `deadline` passed first.
  template <typename Clock, typename Duration>
  bool wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& deadline)
      UZRAM_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = cond_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_one() noexcept { cond_.notify_one(); }
  void notify_all() noexcept { cond_.notify_all(); }

 private:
  std::condition_variable cond_;
};

}  // namespace uzram::base

#endif  // UZRAM_BASE_MUTEX_H_
