#include "serve/tenants/usage_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "files/json.h"
#include "serve/log.h"

namespace ingot {

UsageLog::UsageLog(const UsageLogOptions& options) : options_(options) {
  if (options_.path.empty()) return;
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
  if (fd_ >= 0) close(fd_);
}

std::string UsageLog::lost_line() const {
  return untold_ == 0 ? std::string() : to_json(JsonObject{{"time", log_time()}, {"lost", untold_}}) + "\n";
}

bool UsageLog::write(const std::string& line) {
  if (!on()) return true;
  const std::lock_guard lock(mutex_);
  if (put(lost_line() + line + "\n")) {
    untold_ = 0;
    return true;
  }
  ++untold_;
  lost_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool UsageLog::ready() {
  if (!on()) return true;
  const std::lock_guard lock(mutex_);
  if (untold_ == 0) return true;
  if (!put(lost_line())) return false;
  untold_ = 0;
  return true;
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
