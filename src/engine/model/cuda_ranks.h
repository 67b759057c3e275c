// The ranks of a model on GPUs beside rank 0: each a thread of this process with a device, or a part of one, a program
// and a KV cache of its own, that gives its device the steps which rank 0 sends. The devices meet in them by each
// other's memory (ops/cuda/peer_memory.h). Rank 0's thread runs its own part and calls what is below.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "engine/model/known_ranks.h"
#include "engine/model/step_message.h"
#include "engine/model/step_model.h"
#include "graph/cuda/cuda_runner.h"
#include "models/model.h"

namespace ingot {

class CudaRanks {
 public:
  // Starts the threads; options.threads are all ranks' together. REQUIRES: model.ranks has several.
  CudaRanks(const Model& model, const DeviceRunOptions& options);
  ~CudaRanks();
  CudaRanks(const CudaRanks&) = delete;
  CudaRanks& operator=(const CudaRanks&) = delete;

  // Rank 0's runner: made while the others make theirs, with which it agrees. Throws what one of them threw.
  cuda::DeviceRunner make_first(const Model& model);
  // Until all others are ready for steps. Throws what one of them threw.
  void await_ready();

  // The others begin the step, with work.batch's logit rows. Throws CommError once a rank was lost.
  void begin(const StepWork& work);
  // The others run the head again, for the batch's logit rows.
  void run_head(const StepWork& work);
  // Rank 0's part of the step has ended. Throws CommError where a rank was missing in it.
  void end(const cuda::DeviceRunner& first, const StepWork& work);
  // Rank 0 has failed in a step: all ranks stop, and no step runs any more.
  void abort(cuda::DeviceRunner& first, const std::string& reason);

  // Why no step runs any more; empty while all is well. Any thread may ask.
  std::string lost() const;

  struct Bytes {
    int64_t kv = 0, weights = 0, step = 0;
  };
  const Bytes& bytes() const { return bytes_; }  // of the others

  // Called by each rank's thread before a step. For tests.
  std::function<void(int rank)> on_step;

 private:
  DeviceRunOptions options_of(size_t rank) const;
  void run_rank(const Model& model, size_t rank);
  void follow(cuda::DeviceRunner& runner, size_t rank);
  void send(const StepMessage& message);
  void throw_first_error() const;
  std::vector<RankUse> use() const;

  const DeviceRunOptions options_;
  std::vector<std::unique_ptr<Comm>> comms_;  // [ranks]
  StepMessage message_;
  int64_t step_ = 0;
  std::chrono::steady_clock::time_point began_{};
  Bytes bytes_;

  mutable std::mutex mutex_;
  std::string lost_;  // guarded by mutex_, with what is below
  std::exception_ptr threw_;
  std::vector<std::thread> threads_;
  std::unique_ptr<KnownRanks> known_;
};

}  // namespace ingot
