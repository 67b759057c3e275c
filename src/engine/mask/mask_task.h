// The masks of a constrained seq's next rows, made beside the engine's thread. A task belongs to one seq and lives on
// while a worker has it: a seq may go at any time.
//
//   engine:  ask() ──► MaskWorkers::post() ┐                  ┌──► result, or the next ask()
//   worker:                                └► run(), finish() ┘
//
// Between the two it is under way, and nobody but the worker touches its constraint.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"

namespace ingot {

// Of a mask with a bit for each token.
inline size_t mask_words(int vocab) { return (static_cast<size_t>(vocab) + 31) / 32; }

// Clears the bits of `tokens`, none of which is there twice, unless nothing else would be left.
void refuse_tokens(std::span<uint32_t> mask, std::span<const int32_t> tokens, int vocab);

// Biases without end, taken out of a constrained seq's sampling: they limit the mask as far as it lets them, so that
// they cannot leave it empty. Lists are sorted, without repetition.
struct EndlessBiases {
  SamplingParams sampling;       // without them
  std::vector<int32_t> forced;   // bias +inf: no other token may come
  std::vector<int32_t> refused;  // bias -inf
};

class MaskTask {
 public:
  // `endless` may be null. Both are the task's own.
  MaskTask(std::shared_ptr<const Request> request, std::unique_ptr<TokenConstraint> constraint,
           std::unique_ptr<EndlessBiases> endless, int vocab);

  // Of the engine's thread.
  bool under_way() const { return state_.load(std::memory_order_acquire) == State::kPosted; }
  // REQUIRES, of this and of all that follow: it is not under way.
  TokenConstraint& constraint();
  // The masks of the row that draws token number `made` of the answer, and of those that verify `draft`. Of at most
  // `foresee` tokens it is also told which must follow.
  void ask(int made, std::span<const int32_t> draft, int foresee, double rank);
  // Room for so many guesses: asking allocates nothing then.
  void reserve(int guesses);
  // Throws what its constraint threw, and ConstraintError where that leaves no token. REQUIRES: it was asked.
  void check() const;
  bool failed() const { return threw_ != nullptr; }
  // Row i of those that were asked for; empty where no row after it is needed. REQUIRES: check() throws nothing.
  std::span<const uint32_t> mask(size_t i) const;
  // Tokens that must follow the state that was asked about.
  std::span<const int32_t> foreseen() const { return foreseen_; }
  // CPU seconds that the workers took since the last call.
  double take_seconds();

  // At any time, by the engine's thread: what was asked last.
  bool asked(int made) const { return made_ == made; }
  bool covers(int made, std::span<const int32_t> draft) const;
  const EndlessBiases* endless() const { return endless_.get(); }
  bool proposes() const { return proposes_; }
  // Its seq has gone: a worker that has not begun leaves it.
  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }
  double rank() const { return rank_; }  // the lower, the sooner

  // Of the worker.
  void run() noexcept;
  void finish(double seconds);

 private:
  enum class State : uint8_t { kIdle, kPosted, kDone };
  void fill();
  void constrain(std::span<uint32_t> mask);

  const std::shared_ptr<const Request> request_;
  const std::unique_ptr<TokenConstraint> constraint_;
  const std::unique_ptr<EndlessBiases> endless_;
  const int vocab_;
  const bool proposes_;
  // Written by the engine's thread while it is not under way.
  int made_ = -1;
  std::vector<int32_t> draft_;
  int foresee_ = 0;
  double rank_ = 0;
  // Written by the worker.
  std::vector<uint32_t> masks_;  // [rows_, words]
  size_t rows_ = 0;
  std::vector<int32_t> foreseen_;
  std::exception_ptr threw_;
  double seconds_ = 0;
  std::atomic<State> state_{State::kIdle};
  std::atomic<bool> abandoned_{false};
};

// Those who make masks beside the engine's thread: a pool of threads, or a simulation's script.
class MaskWorkers {
 public:
  virtual ~MaskWorkers() = default;
  // The task is run soon, those of a lower rank first. REQUIRES: it was asked and is not posted yet.
  virtual void post(const std::shared_ptr<MaskTask>& task) = 0;
  // Until a task has ended since the last call, or for a short while.
  virtual void wait() = 0;
  // Lets go of what a seq leaves: the last holder of a grammar frees tens of megabytes in small pieces.
  virtual void drop(std::shared_ptr<const void> last) = 0;
};

}  // namespace ingot
