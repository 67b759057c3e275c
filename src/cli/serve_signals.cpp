#include "cli/serve_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "serve/server.h"

namespace ingot {

ServeSignals::ServeSignals(double drain_seconds) : drain_seconds_(drain_seconds) {
  sigemptyset(&ends_);
  sigaddset(&ends_, SIGINT);
  sigaddset(&ends_, SIGTERM);
  signals_ = ends_;
  if (isatty(STDIN_FILENO) == 0) sigaddset(&signals_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::thread([this] { watch(); });
}

ServeSignals::~ServeSignals() {
  end();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void ServeSignals::begin(Server& server) { server_ = &server; }

void ServeSignals::end() {
  if (!thread_.joinable()) return;
  ended_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void ServeSignals::watch() {
  int number = 0;
  while (sigwait(&signals_, &number) != 0 || number == SIGHUP) {
    Server* const server = server_;
    if (number != SIGHUP || server == nullptr) continue;  // one that loads has just read its keys
    try {
      server->reload_keys(true);
    } catch (...) {
      // No memory even to say so: the old keys stay.
    }
  }
  if (ended_) return;
  Server* const server = server_;
  // Nothing was promised to anybody yet, and loading a model cannot be interrupted.
  if (server == nullptr) _exit(128 + number);
  drain(*server);
}

void ServeSignals::drain(Server& server) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(drain_seconds_);
  server.begin_drain();
  constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 5'000'000};
  while (server.in_flight() > 0 && Clock::now() < deadline) {
    if (sigtimedwait(&ends_, nullptr, &kTick) > 0) break;
  }
  server.stop();
}

}  // namespace ingot
