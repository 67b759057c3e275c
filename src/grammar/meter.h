// What compiling costs while it goes on, so that it can be paid for and given up.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace ingot::grammar {

// Used by the one thread that compiles. A step is about 0.1 µs: an expression that is made or looked up, a symbol of a
// rule, a part of a set.
class Meter {
 public:
  // Called after each `every` steps or soon after, with all so far; what it throws ends the compile. It must not be an
  // Error: what looks like a fault of the source is told as one.
  using Pause = std::function<void(size_t steps)>;

  explicit Meter(Pause pause = {}, size_t every = 10'000) : pause_(std::move(pause)), every_(every), next_(every) {}

  void spend(size_t steps) {
    steps_ += steps;
    if (steps_ < next_) return;
    next_ = steps_ + every_;
    if (pause_) pause_(steps_);
  }
  size_t steps() const { return steps_; }

 private:
  const Pause pause_;
  const size_t every_;
  size_t steps_ = 0, next_;
};

}  // namespace ingot::grammar
