#include "serve/http/workers.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace ingot {

namespace {

constexpr int kLargeNice = 5;  // beside a thread of the engine on the same core: a quarter of it
constexpr size_t kMostNested =
    4;  // large jobs that wait for others to end on their thread, each with a stack of its own

int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void JobQueue::push(Job job) {
  std::deque<Job>& jobs = waiting_[job.cost.payer];
  const bool first = jobs.empty();
  if (first) turns_.push_back(job.cost.payer);
  try {
    jobs.push_back(std::move(job));
  } catch (...) {
    if (first) turns_.pop_back();
    throw;
  }
  ++size_;
}

JobQueue::Job JobQueue::pop() { return take(turns_.begin()); }

std::optional<JobQueue::Job> JobQueue::pop_other(const std::vector<std::string>& payers) {
  const auto other = std::ranges::find_if(
      turns_, [&](const std::string& payer) { return std::ranges::find(payers, payer) == payers.end(); });
  if (other == turns_.end()) return std::nullopt;
  return take(other);
}

JobQueue::Job JobQueue::take(std::list<std::string>::iterator turn) {
  const auto at = waiting_.find(*turn);
  Job job = std::move(at->second.front());
  at->second.pop_front();
  --size_;
  if (at->second.empty()) {
    waiting_.erase(at);
    turns_.erase(turn);
  } else {
    turns_.splice(turns_.end(), turns_, turn);
  }
  return job;
}

Workers::Workers(int threads, size_t max_jobs, size_t max_bytes) : max_jobs_(max_jobs), max_bytes_(max_bytes) {
  try {
    for (int i = 0; i < threads; ++i) begin_thread(Takes::kSmall);
    begin_thread(Takes::kLarge);
  } catch (...) {
    stop();  // those that began: a thread that nobody joins ends the program
    throw;
  }
}

void Workers::begin_thread(Takes takes) {
  std::atomic<int64_t>& since = since_.emplace_back(0);
  threads_.emplace_back([this, takes, &since] {
    if (takes == Takes::kLarge) become_large();
    work(takes, since);
  });
}

// Relative to what the process has: an absolute value would be a higher priority, and refused, under `nice -n 10`.
void Workers::become_large() {
  {
    const std::lock_guard lock(mutex_);
    large_thread_ = std::this_thread::get_id();
  }
  const int own = ::getpriority(PRIO_PROCESS, 0);  // of this thread alone, on Linux
  priority_refused_ = ::setpriority(PRIO_PROCESS, 0, own + kLargeNice) != 0;
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  wake_large_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  JobQueue dropped[2];  // go outside the lock: what jobs hold may post
  std::unique_lock lock(mutex_);
  std::swap(dropped[0], small_);
  std::swap(dropped[1], large_);
  while (!urgent_.empty()) run_urgent(lock);
  closed_ = true;
  lock.unlock();
}

// As much as is left free, of what this payer does not have yet.
bool Workers::fits(const JobCost& cost) const {
  const size_t waiting = small_.size() + large_.size();
  if (waiting >= max_jobs_ || cost.bytes > max_bytes_ - std::min(bytes_, max_bytes_)) return false;
  const auto at = shares_.find(cost.payer);
  if (at == shares_.end()) return true;
  return at->second.jobs <= max_jobs_ - waiting && at->second.bytes <= max_bytes_ - bytes_ - cost.bytes;
}

bool Workers::post(std::function<void()> job, JobCost cost) {
  const size_t bytes = cost.bytes;
  const bool large = bytes > kLargeBytes;
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || !fits(cost)) return false;
    Share& share = shares_[cost.payer];
    (large ? large_ : small_).push({std::move(job), std::move(cost)});
    ++share.jobs;
    share.bytes += bytes;
    bytes_ += bytes;
  }
  (large ? wake_large_ : wake_).notify_one();
  return true;
}

bool Workers::post_first(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    urgent_.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

size_t Workers::waiting() const {
  const std::lock_guard lock(mutex_);
  return small_.size() + large_.size() + urgent_.size();
}

double Workers::busy_seconds() const {
  const int64_t now = steady_nanoseconds();
  int64_t longest = 0;
  for (const std::atomic<int64_t>& since : since_) {
    const int64_t begun = since.load();
    if (begun != 0) longest = std::max(longest, now - begun);
  }
  return static_cast<double>(longest) * 1e-9;
}

void Workers::run(std::function<void()>& job) {
  try {
    job();
  } catch (...) {
    ++failed_;
  }
  job = nullptr;  // what it holds may take the lock when it goes
}

void Workers::run_urgent(std::unique_lock<std::mutex>& lock) {
  std::function<void()> job = std::move(urgent_.front());
  urgent_.pop_front();
  lock.unlock();
  run(job);
  lock.lock();
}

void Workers::run_job(std::unique_lock<std::mutex>& lock, JobQueue::Job job) {
  Share& share = shares_.at(job.cost.payer);  // stays where it is while a job of it runs
  --share.jobs;
  ++share.running;
  lock.unlock();
  run(job.run);
  lock.lock();
  bytes_ -= job.cost.bytes;
  share.bytes -= job.cost.bytes;
  --share.running;
  if (share.jobs == 0 && share.running == 0) shares_.erase(job.cost.payer);
}

bool Workers::give_way() {
  std::unique_lock lock(mutex_);
  if (std::this_thread::get_id() != large_thread_ || stop_ || at_work_.size() >= kMostNested) return false;
  std::optional<JobQueue::Job> job = large_.pop_other(at_work_);
  if (!job) return false;
  std::atomic<int64_t>& since = since_.back();  // the last thread that was begun
  const int64_t before = steady_nanoseconds(), outer = since.exchange(before);
  at_work_.push_back(job->cost.payer);
  run_job(lock, std::move(*job));
  at_work_.pop_back();
  since = outer + (steady_nanoseconds() - before);  // what the other took is not this one's
  return true;
}

void Workers::work(Takes takes, std::atomic<int64_t>& since) {
  const bool small = takes == Takes::kSmall;
  JobQueue& queue = small ? small_ : large_;
  std::condition_variable& wake = small ? wake_ : wake_large_;
  std::unique_lock lock(mutex_);
  while (true) {
    wake.wait(lock, [&] { return stop_ || !queue.empty() || (small && !urgent_.empty()); });
    if (stop_) return;
    since = steady_nanoseconds();
    if (small && !urgent_.empty()) {
      run_urgent(lock);
    } else {
      JobQueue::Job job = queue.pop();
      if (!small) at_work_.assign(1, job.cost.payer);
      run_job(lock, std::move(job));
      if (!small) at_work_.clear();
    }
    since = 0;
  }
}

struct Strand::State {
  explicit State(Workers& w) : workers(w) {}
  Workers& workers;
  std::mutex mutex;
  std::vector<std::function<void()>> jobs;
  bool scheduled = false;  // a worker has it, or will
};

Strand::Strand(Workers& workers) : state_(std::make_shared<State>(workers)) {}

void Strand::post(std::function<void()> job) {
  std::function<void()> first;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->scheduled) first = [state = state_] { drain(state); };
    state_->jobs.push_back(std::move(job));
    if (std::exchange(state_->scheduled, true)) return;
  }
  const auto drop = [this] {
    std::vector<std::function<void()>> dropped;  // outside the lock: what they hold may post when it goes
    const std::lock_guard lock(state_->mutex);
    state_->scheduled = false;
    dropped.swap(state_->jobs);
  };
  try {
    if (!state_->workers.post_first(std::move(first))) drop();
  } catch (...) {
    drop();
    throw;
  }
}

void Strand::drain(const std::shared_ptr<State>& state) {
  // What came up to now, and no more, so that a busy request shares the workers with the others.
  for (bool again = true; again;) {
    run(*state);
    {
      const std::lock_guard lock(state->mutex);
      if (state->jobs.empty()) {
        state->scheduled = false;
        return;
      }
    }
    again = false;
    try {
      again = !state->workers.post_first([state] { drain(state); });
    } catch (...) {
      again = true;  // no memory to wait in the line
    }
  }
}

void Strand::run(State& state) {
  std::vector<std::function<void()>> jobs;
  {
    const std::lock_guard lock(state.mutex);
    jobs.swap(state.jobs);
  }
  for (std::function<void()>& job : jobs) {
    try {
      job();
    } catch (...) {
      ++state.workers.failed_;
    }
    job = nullptr;
  }
}

}  // namespace ingot
