// SIGTERM and SIGINT of a server: the first lets requests in flight finish, the second ends at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

namespace ingot {

class Server;

// One at a time, made on the main thread before other threads are.
class ServeSignals {
 public:
  // From here on the two signals end the process at once (exit status 128 + number) until begin().
  explicit ServeSignals(double drain_seconds);
  ~ServeSignals();
  ServeSignals(const ServeSignals&) = delete;
  ServeSignals& operator=(const ServeSignals&) = delete;

  // From here on they drain and stop `server`, which must outlive end().
  void begin(Server& server);
  // The server's run() has returned.
  void end();

 private:
  void watch();
  void drain(Server& server);

  const double drain_seconds_;
  sigset_t signals_{}, before_{};
  std::atomic<Server*> server_{nullptr};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace ingot
