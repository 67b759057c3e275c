#include "cli/interrupt.h"

#include <csignal>

namespace ingot {

namespace {

volatile std::sig_atomic_t g_interrupted = 0;
struct sigaction g_old_int, g_old_term;

void on_signal(int signal_number) {
  if (g_interrupted != 0) {
    // The first signal was not acted upon in time: do what the user expects of a second one.
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
  g_interrupted = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_interrupted = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read from the terminal or a wait for a child returns at once.
  sigaction(SIGINT, &action, &g_old_int);
  sigaction(SIGTERM, &action, &g_old_term);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &g_old_int, nullptr);
  sigaction(SIGTERM, &g_old_term, nullptr);
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace ingot
