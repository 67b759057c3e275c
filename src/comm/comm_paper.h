// One rank of several that do not exist, for figures on paper: each call lasts as long as a model of the links says,
// plus what a meeting of ranks was measured to cost. What others would give is filled with this rank's own values, or
// with zeros: finite, and without meaning. No rank is ever lost. Of several stages it is a rank of the last one, which
// also waits for the rows of those before it (comm/paper_stages.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>

#include "comm/comm.h"
#include "comm/link_model.h"
#include "comm/paper_stages.h"

namespace ingot {

// Since the start.
struct PaperCounts {
  int64_t collectives = 0;
  double collective_seconds = 0;  // modelled, with `sync_us` of each
  double message_seconds = 0;     // modelled: of steps that are told to others
  double stage_seconds = 0;       // for rows of the stages before
};

class PaperComm final : public Comm {
 public:
  // `sync_us` is added to every collective. REQUIRES: 0 <= rank < ranks.
  PaperComm(int rank, int ranks, const LinkModel& links, double sync_us, int stages = 1,
            const LinkModel& stage_links = {});

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void all_gather(std::span<const CommBlock> parts) override;
  void gather(std::span<const CommBlock> parts, int root) override;
  void all_reduce(std::span<float> x) override;
  void reduce_scatter(std::span<const float> x, std::span<const int64_t> begins, float* out) override;
  void all_to_all(std::span<const std::span<const std::byte>> give, std::span<const std::span<std::byte>> got) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  // One after the other goes through the port, and all are under way at once: the first since the last collective
  // waits for the latency too.
  void send(std::span<const std::byte> message, int to) override;
  // Zeros, as many as there is room for.
  int64_t recv(std::span<std::byte> into, int from, std::chrono::milliseconds time) override;
  void abort(const std::string& reason) override;

  // With stages: rank 0 has told those before of a step. Any one thread.
  void launched(int64_t message_bytes);
  // Until the rows of the oldest launched step are here; they become zeros.
  void await_rows(std::span<std::byte> rows);
  // The step whose rows were awaited last has ended.
  void end_step();

  // Of any thread.
  PaperCounts counts() const;

 private:
  using Clock = std::chrono::steady_clock;
  void begin(const char* call) const;
  void end_collective(Clock::time_point begun, const LinkWork& work);
  void fill(std::span<const CommBlock> parts) const;

  const int rank_, ranks_;
  const LinkModel links_;
  const double sync_seconds_;
  bool sent_ = false;  // since the last collective
  std::atomic<int64_t> collectives_{0}, collective_ns_{0}, message_ns_{0}, stage_ns_{0};
  PaperStages stages_;
  Clock::time_point arrived_;  // the rows of the step that runs
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::string reason_;
  struct Launch {
    Clock::time_point at;
    int64_t bytes;
  };
  std::deque<Launch> launches_;
};

}  // namespace ingot
