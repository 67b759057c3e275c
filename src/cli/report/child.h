// Programs of the machine that a report asks, where they are there: Chromium.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace ingot {

// The path of the first of `names` that PATH has.
std::optional<std::string> find_program(const std::vector<std::string>& names);

// A program that runs beside this one, without a shell. Its output is read when it has ended; what it says on stderr is
// dropped. Single-threaded.
class Child {
 public:
  // args[0] is its path. Throws Error where it cannot be started.
  explicit Child(const std::vector<std::string>& args);
  ~Child() { stop(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // What it printed until its end; after `seconds` it is stopped. Once.
  std::string wait(double seconds);
  // Ends it and returns what it printed so far. Once.
  std::string stop();
  // Of one that ended by itself; -1 before, and where a signal ended it.
  int status() const { return status_; }

 private:
  bool read_some(int milliseconds);  // false at the end of its output

  pid_t pid_ = -1;
  int out_ = -1;
  int status_ = -1;
  std::string text_;
};

}  // namespace ingot
