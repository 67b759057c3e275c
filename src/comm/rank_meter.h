// What a rank spends its time on, and what it gives the others: counted by the rank, read by any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

namespace ingot {

enum class CommKind : uint8_t {
  kAllGather,
  kGather,
  kAllReduce,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kMessage,
};
inline constexpr const char* kCommKindNames[] = {"all_gather", "gather",    "all_reduce", "reduce_scatter",
                                                 "all_to_all", "broadcast", "message"};
inline constexpr size_t kCommKinds = std::size(kCommKindNames);

// A rank's counts since its start, as it also sends them to rank 0.
struct RankCounts {
  int64_t steps = 0;
  int64_t step_ns = 0;                      // in steps, with all that is below
  int64_t wait_ns = 0;                      // for others, in steps
  int64_t collective_ns = 0;                // in collectives, with the waits in them
  std::array<int64_t, kCommKinds> bytes{};  // given, once for each rank that gets them

  void add(const RankCounts& other);
};

class RankMeter {
 public:
  // Of the rank's thread.
  void add_step(bool first_part, std::chrono::nanoseconds time) {
    add(steps_, first_part ? 1 : 0);
    add(step_ns_, time.count());
  }
  void add_wait(std::chrono::nanoseconds time) { add(wait_ns_, time.count()); }
  void add_collective(std::chrono::nanoseconds time) { add(collective_ns_, time.count()); }
  void add_bytes(CommKind kind, int64_t bytes) { add(bytes_[static_cast<size_t>(kind)], bytes); }
  // The rank runs no step any more.
  void end() { ended_.store(true, std::memory_order_relaxed); }

  // Of any thread.
  RankCounts counts() const;
  bool ended() const { return ended_.load(std::memory_order_relaxed); }

 private:
  using Count = std::atomic<int64_t>;
  // One thread writes: no locked addition is needed.
  static void add(Count& count, int64_t more) {
    count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  Count steps_{0}, step_ns_{0}, wait_ns_{0}, collective_ns_{0};
  std::array<Count, kCommKinds> bytes_{};
  std::atomic<bool> ended_{false};
};

// From here to the end of its life; `add` gets the time.
template <class Add>
class Timed {
 public:
  explicit Timed(Add add) : add_(std::move(add)), began_(std::chrono::steady_clock::now()) {}
  ~Timed() { add_(std::chrono::nanoseconds(std::chrono::steady_clock::now() - began_)); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  const Add add_;
  const std::chrono::steady_clock::time_point began_;
};

}  // namespace ingot
