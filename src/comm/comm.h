// How the ranks of one model speak: collectives, which all ranks call in the same order with the same sizes, and
// messages between two of them. Sums are made in the order of ranks, so all have the same bits.
//
// No wait is without an end: a rank that does not come in time, that has gone, or that called abort() ends the wait of
// every other with a CommError, and from then on every call throws it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "comm/rank_meter.h"

namespace ingot {

// Names the rank that waited, its step, what it waited for, and why that did not come.
class CommError : public Error {
 public:
  using Error::Error;
};

// `rows` pieces of `bytes` each, `pitch` bytes from one to the next: some columns of a matrix.
struct CommBlock {
  std::byte* data = nullptr;  // null: this rank does not want it
  int64_t rows = 1;
  int64_t bytes = 0;
  int64_t pitch = 0;
};

// One rank's end. One thread at a time calls it, but for abort().
class Comm {
 public:
  static constexpr std::chrono::milliseconds kForever{-1};

  virtual ~Comm() = default;
  Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Where a rank is: empty where all are in one process. Any thread may ask.
  virtual std::string host(int /*rank*/) const { return {}; }
  // False once the process of a rank has ended, or it was lost. Any thread may ask.
  virtual bool alive(int /*rank*/) const { return true; }

  // parts[rank()] is given to all, and parts[r] filled with what rank r gives. All ranks know all sizes.
  virtual void all_gather(std::span<const CommBlock> parts) = 0;
  // The same for `root` alone: on every other rank all parts but its own are null.
  virtual void gather(std::span<const CommBlock> parts, int /*root*/) { all_gather(parts); }
  // x becomes the sum over all ranks.
  virtual void all_reduce(std::span<float> x) = 0;
  // Rank r gets the sum of [begins[r], begins[r + 1]) of all ranks' x. `out` may be that part of its own x.
  virtual void reduce_scatter(std::span<const float> x, std::span<const int64_t> begins, float* out) = 0;
  // give[r] goes to rank r, where it is got[rank()].
  virtual void all_to_all(std::span<const std::span<const std::byte>> give,
                          std::span<const std::span<std::byte>> got) = 0;
  // Everyone gets what `root` has.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  // Returns once the message can be received, not when it was.
  virtual void send(std::span<const std::byte> message, int to) = 0;
  // The next message of rank `from`, at most as long as `into`; returns its length. Sleeps until it comes, for at most
  // `time`.
  virtual int64_t recv(std::span<std::byte> into, int from, std::chrono::milliseconds time) = 0;

  // Ends every wait of every rank, and all calls from now on. The first reason is kept. Any thread may call it.
  virtual void abort(const std::string& reason) = 0;

  // How long any other wait may last: what is waited for in a step is some part of a layer, so a rank that hangs is
  // known, and clients told, within 5 s.
  static constexpr std::chrono::milliseconds kStepWait{4'500};
  // The first step of a rank reads its weights from a disk.
  static constexpr std::chrono::milliseconds kFirstStepWait{60'000};
  std::chrono::milliseconds deadline = kFirstStepWait;
  // Named in errors.
  int64_t step = 0;
  // What this rank gives, and its time in collectives and in waits that have an end.
  RankMeter meter;

 protected:
  // For the life of a collective, in which this rank gives so many bytes. Two looks at the clock.
  auto time_collective(CommKind kind, int64_t bytes) {
    meter.add_bytes(kind, bytes);
    return Timed([this](std::chrono::nanoseconds time) { meter.add_collective(time); });
  }
  // For the life of a wait: not for one without an end, which is idleness.
  auto time_wait(std::chrono::milliseconds most) {
    return Timed([this, most](std::chrono::nanoseconds time) {
      if (most != kForever) meter.add_wait(time);
    });
  }
  // What this rank gives the others of `give`, one part for each rank.
  int64_t given_bytes(std::span<const std::span<const std::byte>> give) const {
    int64_t bytes = 0;
    for (size_t r = 0; r < give.size(); ++r)
      if (static_cast<int>(r) != rank()) bytes += static_cast<int64_t>(give[r].size());
    return bytes;
  }
  // A sum of at most so many bytes is made by every rank, of all that each gives; of a larger one each makes a part.
  static constexpr size_t kWholeSum = 64 << 10;
  // What each rank gives where all sum values of so many bytes: all of them, or its parts of the others, then its sum.
  int64_t reduced_bytes(size_t bytes) const {
    const int64_t others = static_cast<int64_t>(bytes) * (ranks() - 1);
    return bytes <= kWholeSum ? others : 2 * (others / ranks());
  }
  // The same where each gets the sum of its part.
  int64_t scattered_bytes(size_t bytes) const { return static_cast<int64_t>(bytes) * (ranks() - 1) / ranks(); }
};

}  // namespace ingot
