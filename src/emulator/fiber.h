// A function on a stack of its own that can be left and entered again, for the emulator. AArch64 and x86-64.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace ingot::cuda {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next enter() begins with body(). REQUIRES: a body before it has ended.
  void start(const std::function<void()>* body);
  // Runs the body until it leaves or ends. Returns whether it has ended.
  bool enter();
  // Called by the body: back to who entered.
  void leave();

 private:
  static void begin(Fiber* self);

  std::byte* stack_ = nullptr;
  void* own_ = nullptr;     // the body's stack pointer while it is out
  void* caller_ = nullptr;  // who entered
  const std::function<void()>* body_ = nullptr;
  bool ended_ = true;
};

}  // namespace ingot::cuda
