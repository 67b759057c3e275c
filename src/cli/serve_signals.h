// Signals of a server. SIGTERM and SIGINT: the first lets requests in flight finish, the second ends at once. SIGHUP
// reads the key file again, unless standard input is a terminal: then it means what it always meant, that the terminal
// went.
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
  // From here on SIGTERM and SIGINT end the process at once (exit status 128 + number) until begin().
  explicit ServeSignals(double drain_seconds);
  ~ServeSignals();
  ServeSignals(const ServeSignals&) = delete;
  ServeSignals& operator=(const ServeSignals&) = delete;

  // From here on they drain and stop `server`, which must outlive end(), and SIGHUP has its keys read.
  void begin(Server& server);
  // As SIGTERM does. Any thread may call it, before end().
  void drain() { pthread_kill(thread_.native_handle(), SIGTERM); }
  // The server's run() has returned.
  void end();

 private:
  void watch();
  void drain(Server& server);

  const double drain_seconds_;
  sigset_t signals_{}, ends_{}, before_{};
  std::atomic<Server*> server_{nullptr};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace ingot
