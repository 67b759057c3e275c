// The usage log: a file that is only appended to, with one line of JSON for each request that was worked on. It holds
// names and counts, never a prompt or a key. A thread of its own writes it, so that a slow disk holds up nothing but
// the ends of answers: the client has the last byte of its answer after its line is in the file. So a server that is
// killed has told of every answer that was complete.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ingot {

struct UsageLogOptions {
  std::string path = {};                 // empty: none is kept
  int64_t max_bytes = int64_t{1} << 30;  // of the file: beyond it lines are lost and counted; 0: no limit
  bool required = false;                 // what cannot be written down is answered with 503
};

// Any thread; nothing but flush() and stop() waits for the disk.
class UsageLog {
 public:
  using Done = std::function<void(bool written)>;
  static constexpr size_t kMaxWaiting = 8192;                   // lines; the next ones are lost
  static constexpr size_t kMaxWaitingBytes = size_t{32} << 20;  // of what waits with them; likewise

  // Opens the file, which is this process's alone. A last line without an end, of a machine that went down, gets one.
  // Throws Error.
  explicit UsageLog(const UsageLogOptions& options = {});
  ~UsageLog();  // stop()
  UsageLog(const UsageLog&) = delete;
  UsageLog& operator=(const UsageLog&) = delete;

  bool on() const { return fd_ >= 0; }
  bool required() const { return options_.required; }
  // Appends `line` and its end in one write(), soon, and then calls `done` on the log's thread; where there is nothing
  // to wait for (the log is off, has ended, or too many lines wait) at once. Not written: the line is not in the file
  // (which is full, or the disk is) and counted; the next one that can be written follows a line {"lost": N}. What
  // `done` throws is swallowed. `bytes`: of what `done` holds, such as an answer that is sent then.
  void write(std::string line, Done done = {}, size_t bytes = 0) noexcept;
  // Whether a line can be written, as far as that is known. After one that could not it is tried with that of the lost:
  // whoever asks then gets the next answer.
  bool ready();
  // Waits until what was given is written and told.
  void flush();
  // The same, and ends the thread: lines that follow are lost. One thread calls it; a second call does nothing.
  void stop();
  // Lines that are not in the file.
  int64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::string line;
    Done done;
    size_t bytes = 0;
  };
  void open_file();
  void work();
  void write_one(std::unique_lock<std::mutex>& lock);
  bool put_lines(const std::string* line, int64_t untold) noexcept;
  bool put(const std::string& text);

  const UsageLogOptions options_;
  int fd_ = -1;
  std::mutex mutex_;  // guards all below
  std::condition_variable wake_, idle_;
  std::deque<Entry> waiting_;
  size_t bytes_ = 0;    // of what waits, with the line that is being written
  int64_t untold_ = 0;  // lost since the last line
  bool retry_ = false;  // somebody asked whether there is room again
  bool busy_ = false;   // the thread is at a line
  bool stop_ = false;
  std::atomic<int64_t> lost_{0};
  std::thread thread_;
};

}  // namespace ingot
