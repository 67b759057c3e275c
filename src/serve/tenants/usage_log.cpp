#include "serve/tenants/usage_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "files/json.h"
#include "serve/log.h"

namespace ingot {

namespace {

constexpr std::chrono::milliseconds kRetry{250};

}  // namespace

UsageLog::UsageLog(const UsageLogOptions& options) : options_(options) {
  if (options_.path.empty()) return;
  open_file();
  try {
    thread_ = std::thread([this] { work(); });
  } catch (...) {
    close(fd_);
    throw;
  }
}

void UsageLog::open_file() {
  // For reading too: how its last line ends.
  fd_ = open(options_.path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
  if (fd_ < 0) throw Error("[usage] {}: {}", options_.path, std::strerror(errno));
  struct stat info {};
  const bool plain = fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  // Half a line that a full disk took is cut off again: of another's lines that must not happen.
  const bool alone = plain && flock(fd_, LOCK_EX | LOCK_NB) == 0;
  char last = '\n';
  const bool whole = info.st_size == 0 || pread(fd_, &last, 1, info.st_size - 1) == 1;
  const bool ended = alone && whole && (last == '\n' || ::write(fd_, "\n", 1) == 1);
  if (ended) return;
  close(fd_);
  if (!plain) throw Error("[usage] {} is not a plain file", options_.path);
  if (!alone) throw Error("[usage] {} is in use by another server", options_.path);
  throw Error("[usage] {} cannot be written", options_.path);
}

UsageLog::~UsageLog() {
  stop();
  if (fd_ >= 0) close(fd_);
}

void UsageLog::flush() {
  std::unique_lock lock(mutex_);
  if (thread_.joinable()) idle_.wait(lock, [this] { return waiting_.empty() && !busy_ && !retry_; });
}

void UsageLog::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UsageLog::write(std::string line, Done done, size_t bytes) noexcept {
  bytes += line.size();
  bool written = !on();
  if (on()) {
    const std::lock_guard lock(mutex_);
    try {
      if (!stop_ && waiting_.size() < kMaxWaiting && bytes <= kMaxWaitingBytes - bytes_) {
        waiting_.push_back({std::move(line), std::move(done), bytes});
        bytes_ += bytes;
        wake_.notify_one();
        return;
      }
    } catch (...) {
      // No memory for it.
    }
    ++untold_;
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
  try {
    if (done) done(written);
  } catch (...) {
    // Whoever waits for it is told by what goes with `done`.
  }
}

bool UsageLog::ready() {
  if (!on()) return true;
  const std::lock_guard lock(mutex_);
  if (untold_ == 0) return true;
  retry_ = true;
  wake_.notify_one();
  return false;
}

void UsageLog::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto something = [this] { return stop_ || retry_ || !waiting_.empty(); };
    // While lines are lost it is tried now and then whether there is room again: nobody may be left to ask.
    if (untold_ > 0) retry_ = !wake_.wait_for(lock, kRetry, something) || retry_;
    wake_.wait(lock, something);
    if (waiting_.empty() && !retry_) return;
    busy_ = true;
    write_one(lock);
    busy_ = false;
    if (waiting_.empty() && !retry_) idle_.notify_all();
  }
}

// The line that waits for the longest time; where none does, that of the lost alone.
void UsageLog::write_one(std::unique_lock<std::mutex>& lock) {
  retry_ = false;
  Entry entry;
  const bool has_line = !waiting_.empty();
  if (has_line) {
    entry = std::move(waiting_.front());
    waiting_.pop_front();
  }
  const int64_t untold = untold_;
  if (!has_line && untold == 0) return;
  lock.unlock();
  const bool written = put_lines(has_line ? &entry.line : nullptr, untold);
  lock.lock();
  if (written) {
    untold_ -= untold;
  } else if (has_line) {
    ++untold_;
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
  lock.unlock();
  try {
    if (entry.done) entry.done(written);
  } catch (...) {
    // As in write().
  }
  const size_t bytes = entry.bytes;
  entry = {};  // what it holds may be much: not under the lock
  lock.lock();
  bytes_ -= bytes;
}

bool UsageLog::put_lines(const std::string* line, int64_t untold) noexcept {
  try {
    std::string text;
    if (untold > 0) text = to_json(JsonObject{{"time", log_time()}, {"lost", untold}}) + "\n";
    if (line) text += *line + "\n";
    return put(text);
  } catch (...) {
    return false;  // no memory
  }
}

// The size is asked for each time: whoever empties the file (after a copy of it) makes room.
bool UsageLog::put(const std::string& text) {
  struct stat info {};
  if (fstat(fd_, &info) != 0) return false;
  const auto size = static_cast<int64_t>(text.size());
  if (options_.max_bytes > 0 && info.st_size + size > options_.max_bytes) return false;
  ssize_t n = -1;
  do {
    n = ::write(fd_, text.data(), text.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(text.size())) return true;
  // A full disk took a part of it: a file of whole lines stays one.
  if (n > 0 && ftruncate(fd_, info.st_size) != 0) return false;
  return false;
}

}  // namespace ingot
