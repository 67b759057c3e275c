// Many requests to one server at once, on one thread: libcurl's multi interface over epoll, so that a thousand open
// streams cost this process little and the machine stays the server's.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cli/load/load_answer.h"
#include "cli/load/load_plan.h"

namespace ingot {

struct LoadTarget {
  std::string base;      // "http://127.0.0.1:8080", without a path
  std::string key;       // sent as Bearer; empty: none
  double timeout = 600;  // seconds for one request
};

// `url` as a user gives it: with or without "/v1" and a slash at the end. Throws Error unless it is http or https.
std::string base_of(const std::string& url);

// Single-threaded.
class LoadClient {
 public:
  // Takes as many file descriptors as the process may have. Throws Error where libcurl cannot be started or the key
  // has characters that no header may hold.
  explicit LoadClient(LoadTarget target);
  ~LoadClient();
  LoadClient(const LoadClient&) = delete;
  LoadClient& operator=(const LoadClient&) = delete;

  // Seconds since the last restart_clock(), or since this was made.
  double now() const;
  void restart_clock();

  // Sends a POST to `path`. The record must stay where it is until its state is not kOpen.
  void start(const std::string& path, std::string body, LoadRecord& record, LoadCancel cancel = {});
  // Handles what comes; returns after something came or `seconds` have passed.
  void wait(double seconds);

  size_t open() const { return open_; }
  int64_t pieces() const { return pieces_; }  // of all answers so far

  // One GET with its body, outside the load; throws Error when there is no answer of status 200. Throws Interrupted.
  std::string get(const std::string& path);

 private:
  struct Transfer;
  struct Events;  // libcurl's wishes: which sockets to watch, when to be called
  using Clock = std::chrono::steady_clock;

  Transfer* take_transfer();
  void setup(Transfer& transfer, const std::string& path);
  void collect();

  LoadTarget target_;
  Clock::time_point start_ = Clock::now();
  void* headers_ = nullptr;  // curl_slist*
  void* multi_ = nullptr;    // CURLM*
  std::unique_ptr<Events> events_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<Transfer*> free_;
  size_t open_ = 0;
  int64_t pieces_ = 0;
};

}  // namespace ingot
