// The usage log: a file that is only appended to, with one line of JSON for each request that was worked on. It holds
// names and counts, never a prompt or a key. Unlike the log of events it is written by whoever ends the request, before
// the client has the last byte of its answer: a server that is killed has told of every answer that was complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace ingot {

struct UsageLogOptions {
  std::string path = {};                 // empty: none is kept
  int64_t max_bytes = int64_t{1} << 30;  // of the file: beyond it lines are lost and counted; 0: no limit
  bool required = false;                 // what cannot be written down is answered with 503
};

// Any thread.
class UsageLog {
 public:
  // Opens the file, which is this process's alone. A last line without an end, of a machine that went down, gets one.
  // Throws Error.
  explicit UsageLog(const UsageLogOptions& options = {});
  ~UsageLog();
  UsageLog(const UsageLog&) = delete;
  UsageLog& operator=(const UsageLog&) = delete;

  bool on() const { return fd_ >= 0; }
  bool required() const { return options_.required; }
  // Appends `line` and its end in one write(). False: it is not in the file (which is full, or the disk is) and
  // counted; the next one that can be written follows a line {"lost": N}.
  bool write(const std::string& line);
  // Whether a line can be written, as far as that is known: after one that could not it is tried with that of the lost.
  bool ready();
  // Lines that are not in the file.
  int64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  bool put(const std::string& text);
  std::string lost_line() const;

  const UsageLogOptions options_;
  int fd_ = -1;
  std::mutex mutex_;
  int64_t untold_ = 0;  // lost since the last line; guarded by mutex_
  std::atomic<int64_t> lost_{0};
};

}  // namespace ingot
