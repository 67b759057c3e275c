// Ranks whose tensors lie in GPUs' memory, carried by NCCL: each call gives work to a stream, and may be recorded into
// a graph. The host's calls never wait for longer than the deadline; what streams do is watched by check().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "comm/comm.h"
#include "comm/nccl_api.h"

namespace ingot {

// One rank's end. One thread at a time calls it, but for abort().
class NcclComm {
 public:
  using Stream = NcclApi::Stream;

  // All ranks at the same time, each with its device in use; `id`: of rank 0's make_id(). Throws CommError where a rank
  // does not come within the deadline, and what nccl() throws.
  NcclComm(const NcclApi& api, const NcclApi::Id& id, int rank, int ranks, std::chrono::milliseconds deadline);
  // Gives up what is under way: nobody waits for a rank that has gone.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  static NcclApi::Id make_id(const NcclApi& api);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // out = the sum over all ranks, in an order that NCCL chooses: not bit for bit what other numbers of ranks give.
  void all_reduce(const float* x, float* out, int64_t count, Stream stream);
  // Each gives as many.
  void all_gather(const std::byte* x, std::byte* out, int64_t bytes, Stream stream);
  void reduce_scatter(const float* x, float* out, int64_t count, Stream stream);
  void broadcast(std::byte* data, int64_t bytes, int root, Stream stream);
  void send(const std::byte* data, int64_t bytes, int to, Stream stream);
  void recv(std::byte* data, int64_t bytes, int from, Stream stream);

  // Throws CommError where another rank was lost, as far as NCCL has noticed. While work is waited for.
  void check();
  // Ends all work under way on this rank's streams; every later call throws. Any thread.
  void abort();
  // Until ended() says that the stream's work is done: throws CommError, and aborts, where that lasts beyond the
  // deadline or another rank was lost.
  void await(const std::function<bool()>& ended);

  int64_t step = 0;  // told in errors
  std::chrono::milliseconds deadline;

 private:
  // What a call gave: while it goes on, until it has ended.
  void expect(int status, const char* what);
  void check_alive();
  [[noreturn]] void lose(const char* what, const std::string& why);

  const NcclApi& api_;
  const int rank_, ranks_;
  std::atomic<NcclApi::Handle> handle_ = nullptr;  // null once it was given up
};

}  // namespace ingot
