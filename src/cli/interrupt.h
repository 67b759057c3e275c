// Ctrl-C without losing what is half done: a command that holds partial work asks interrupted()
// now and then, cleans up and throws Interrupted.
#pragma once

namespace ingot {

// Thrown by a command's body; main exits with status 130.
struct Interrupted {};

// While one lives, SIGINT and SIGTERM only set a flag; the former handling comes back at its end.
// At most one at a time, on the main thread. A second signal kills the program as usual.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

// Whether a signal came since the guard was made.
bool interrupted();
inline void throw_if_interrupted() {
  if (interrupted()) throw Interrupted{};
}

}  // namespace ingot
