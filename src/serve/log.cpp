#include "serve/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {

namespace {

constexpr size_t kMaxTextBytes = 300;  // of one field

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      break;
  }
  return "error";
}

}  // namespace

std::string log_time() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  gmtime_r(&seconds, &utc);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", utc, ms);
}

Log::Log(const LogOptions& options) : options_(options) {
  if (options_.path == "off") return;
  if (options_.path.empty()) {
    fd_ = STDERR_FILENO;
  } else {
    fd_ = open(options_.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
    if (fd_ < 0) throw Error("[log] {}: {}", options_.path, std::strerror(errno));
    struct stat info {};
    is_file_ = fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
    bytes_ = is_file_ ? info.st_size : 0;
  }
  thread_ = std::thread([this] { loop(); });
}

Log::~Log() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (fd_ != STDERR_FILENO) close(fd_);
}

std::string Log::line(LogLevel level, std::string_view event, const JsonObject& fields) const {
  if (options_.json) {
    JsonObject all{{"time", log_time()}, {"level", level_name(level)}, {"event", event}};
    for (const auto& [name, value] : fields) {
      all[name] = value.is_string() ? Json(utf8_printable(value.get_string(), kMaxTextBytes)) : value;
    }
    return to_json(all) + "\n";
  }
  std::string text = fmt::format("{} {:<7} {}", log_time(), level_name(level), event);
  for (const auto& [name, value] : fields) {
    text += fmt::format(" {}={}", std::string_view(name),
                        value.is_string() ? utf8_printable(value.get_string(), kMaxTextBytes) : to_json(value));
  }
  return text + "\n";
}

void Log::write(LogLevel level, std::string_view event, JsonObject fields) {
  if (fd_ < 0) return;
  try {
    std::string text = line(level, event, fields);
    const std::lock_guard lock(mutex_);
    if (lines_.size() < kMaxWaiting) {
      lines_.push_back(std::move(text));
      wake_.notify_one();
      return;
    }
  } catch (const std::bad_alloc&) {
    // Counted below: a line of the log is not worth a request.
  }
  ++dropped_;
}

void Log::flush() {
  if (fd_ < 0) return;
  std::unique_lock lock(mutex_);
  written_.wait(lock, [this] { return lines_.empty() && !writing_; });
}

void Log::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !lines_.empty(); });
    if (lines_.empty()) return;
    std::vector<std::string> batch;
    batch.swap(lines_);
    writing_ = true;
    lock.unlock();
    for (const std::string& text : batch) {
      if (!put(text)) ++dropped_;
    }
    lock.lock();
    writing_ = false;
    written_.notify_all();
  }
}

bool Log::writable() {
  pollfd wait{.fd = fd_, .events = POLLOUT, .revents = 0};
  // One line waits for a slow reader; those behind it do not, until it reads again.
  stuck_ = poll(&wait, 1, stuck_ ? 0 : 1000) <= 0;
  return !stuck_;
}

bool Log::put(std::string_view text) {
  if (is_file_ && options_.max_bytes > 0 && bytes_ + static_cast<int64_t>(text.size()) > options_.max_bytes) {
    return false;
  }
  size_t done = 0;
  while (done < text.size() && (is_file_ || writable())) {
    // A pipe that poll() calls writable takes so much without waiting.
    const size_t part = std::min<size_t>(text.size() - done, PIPE_BUF);
    const ssize_t n = ::write(fd_, text.data() + done, part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  if (done == text.size()) {
    bytes_ += static_cast<int64_t>(done);
    return true;
  }
  // A full disk took a part of the line: a log of whole lines stays one.
  if (is_file_ && done > 0 && ftruncate(fd_, bytes_) != 0) bytes_ += static_cast<int64_t>(done);
  return false;
}

}  // namespace ingot
