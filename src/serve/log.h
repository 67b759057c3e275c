// The server's log: one line for each event, as text or JSON, on stderr or in a file. Neither prompts nor keys are ever
// written. Callers never wait: a thread of the log's own writes, and what it cannot write is counted and dropped.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "files/json.h"

namespace ingot {

struct LogOptions {
  std::string path = {};                   // "": stderr; "off": nowhere; else a file that is appended to
  bool json = false;                       // lines of JSON
  int64_t max_bytes = int64_t{256} << 20;  // of the file: beyond it lines are dropped and counted; 0: no limit
};

enum class LogLevel : uint8_t { kInfo, kWarning, kError };

// Now, as logs have it: "2026-01-31T12:00:00.000Z".
std::string log_time();

// Any thread.
class Log {
 public:
  // Opens the file. Throws Error.
  explicit Log(const LogOptions& options = {.path = "off"});
  // Writes what waits; what a stuck reader of stderr does not take is dropped after a second.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // `event` is a fixed word or two: "request", "drain begins". The fields follow it in order.
  void write(LogLevel level, std::string_view event, JsonObject fields = {});
  void info(std::string_view event, JsonObject fields = {}) { write(LogLevel::kInfo, event, std::move(fields)); }
  void warning(std::string_view event, JsonObject fields = {}) { write(LogLevel::kWarning, event, std::move(fields)); }
  void error(std::string_view event, JsonObject fields = {}) { write(LogLevel::kError, event, std::move(fields)); }

  // Lines that were not written: the disk is full, the file has reached its limit, or the reader of stderr is too slow.
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  // Waits until all that was given so far is written or dropped: for tests and for the end.
  void flush();

 private:
  static constexpr size_t kMaxWaiting = 4096;  // lines

  std::string line(LogLevel level, std::string_view event, const JsonObject& fields) const;
  void loop();
  bool put(std::string_view text);
  bool writable();

  const LogOptions options_;
  int fd_ = -1;
  int64_t bytes_ = 0;  // of the file
  bool is_file_ = false;
  bool stuck_ = false;  // the reader of stderr takes nothing
  std::mutex mutex_;
  std::condition_variable wake_, written_;
  std::vector<std::string> lines_;
  bool writing_ = false, stop_ = false;
  std::atomic<int64_t> dropped_{0};
  std::thread thread_;
};

}  // namespace ingot
