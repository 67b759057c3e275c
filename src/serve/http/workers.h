// Threads for the work that the io thread and the engine's thread must not do: reading JSON, templates, tokens to text.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/seeded_hash.h"

namespace ingot {

// Whose a job is and how many bytes of a body it holds.
struct JobCost {
  std::string payer = {};
  size_t bytes = 0;
};

// Jobs that wait: those of one payer in the order in which they came, the payers in turn.
class JobQueue {
 public:
  struct Job {
    std::function<void()> run;
    JobCost cost;
  };
  void push(Job job);
  // REQUIRES: !empty().
  Job pop();
  // The next one of a payer that is none of these; none: there is no such job.
  std::optional<Job> pop_other(const std::vector<std::string>& payers);
  bool empty() const { return turns_.empty(); }
  size_t size() const { return size_; }

 private:
  Job take(std::list<std::string>::iterator turn);

  SeededMap<std::deque<Job>> waiting_;
  std::list<std::string> turns_;  // payers that have jobs
  size_t size_ = 0;
};

// Any thread may call all of it. Idle threads sleep.
//
// A payer may have as many jobs and bytes here as it leaves free: so one alone gets half of the room, and whoever comes
// next finds some. Jobs with large bodies have one thread of their own, which gives way to others on its core: so small
// ones never wait for a long text to be cut into tokens, and the engine's steps take little longer meanwhile. A long
// one lets those of other payers go first between its pieces: give_way().
class Workers {
 public:
  static constexpr size_t kLargeBytes = 128 << 10;  // 10 to 100 ms of tokenizing on one core

  // `threads`: for all but large bodies. `max_jobs`: how many of post() may wait; `max_bytes`: of their bodies, until
  // they have run.
  explicit Workers(int threads = 2, size_t max_jobs = 1024, size_t max_bytes = SIZE_MAX);
  ~Workers();  // stop()
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs `job` soon. False: too many wait already, or too many of this payer, and the job was not taken. What a job
  // throws is swallowed and counted: a job that has somebody to tell catches for itself.
  [[nodiscard]] bool post(std::function<void()> job, JobCost cost = {});
  // For a job between two pieces of a long work: where jobs of other payers wait for this thread, one of them runs now.
  // True: one did. Does nothing on a thread that is not that of large bodies.
  bool give_way();
  // The thread of large bodies could not be given a lower priority than the others: the system refused.
  bool priority_refused() const { return priority_refused_; }
  // Ends the threads: new jobs are dropped, those of strands that wait are run by the caller. What jobs use may go
  // afterwards. One thread calls it; a second call does nothing.
  void stop();
  int64_t failed_jobs() const { return failed_; }
  // Jobs that wait now.
  size_t waiting() const;
  // For how long the job that runs for the longest time has; 0: none runs.
  double busy_seconds() const;

 private:
  friend class Strand;
  // False: the workers have ended, and the job was not taken.
  bool post_first(std::function<void()> job);
  struct Share {
    size_t jobs = 0;     // that wait
    size_t running = 0;  // jobs
    size_t bytes = 0;    // of both
  };
  // With mutex_ held.
  bool fits(const JobCost& cost) const;
  void run_urgent(std::unique_lock<std::mutex>& lock);
  void run_job(std::unique_lock<std::mutex>& lock, JobQueue::Job job);

  enum class Takes : unsigned char { kSmall, kLarge };
  void begin_thread(Takes takes);
  void become_large();
  void work(Takes takes, std::atomic<int64_t>& since);
  void run(std::function<void()>& job);

  const size_t max_jobs_, max_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, wake_large_;
  std::deque<std::function<void()>> urgent_;  // of strands: requests that are in flight go before new ones
  JobQueue small_, large_;
  SeededMap<Share> shares_;           // of payers that have jobs
  size_t bytes_ = 0;                  // of all shares
  std::vector<std::string> at_work_;  // payers of the large jobs that run, the first one outermost
  std::thread::id large_thread_;
  bool stop_ = false;    // the threads end
  bool closed_ = false;  // nothing is taken any more
  std::atomic<int64_t> failed_{0};
  std::atomic<bool> priority_refused_{false};
  std::deque<std::atomic<int64_t>> since_;  // of each thread: when its job began, in nanoseconds; 0: it has none
  std::vector<std::thread> threads_;
};

// Jobs of one request: they run in the order they were posted, never two at once, on the workers. Never refuses: what
// waits is bounded by what the request may make. Jobs that wait keep the strand's state alive; the workers must outlive
// both.
class Strand {
 public:
  explicit Strand(Workers& workers);
  // Does not wait for anything but a short lock: the engine's thread may call it.
  void post(std::function<void()> job);

 private:
  struct State;
  static void drain(const std::shared_ptr<State>& state);
  static void run(State& state);
  std::shared_ptr<State> state_;
};

}  // namespace ingot
