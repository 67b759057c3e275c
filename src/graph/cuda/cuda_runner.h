// Runs a program on a CUDA device: weights, activations and the KV cache live there, a step is one upload of its batch
// and one recorded graph of its bucket. Nothing is allocated after the constructor but recorded graphs.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/cuda/cuda_batch.h"
#include "graph/cuda/cuda_buckets.h"
#include "graph/cuda/cuda_weights.h"
#include "graph/device_options.h"
#include "graph/expert_use.h"
#include "graph/kv_store.h"
#include "graph/outputs.h"
#include "graph/program.h"
#include "matmul/cuda/cuda_blas.h"
#include "ops/cuda/ops.h"
#include "ops/cuda/peer_memory.h"
#include "ops/sample/sample_cuda.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

// Single-threaded: the engine's thread alone calls it, but for construction. All that gives work returns before it is
// done. Where ranks share the model, each has one in a thread of its own, and all are given the same steps.
class DeviceRunner final : public StepOutputs {
 public:
  // Throws Error where the device is not there or its memory does not suffice; CommError where another rank's is not.
  DeviceRunner(const Graph& graph, const DeviceRunOptions& options);
  ~DeviceRunner() override;

  // The body over all rows of the batch, then the head over its logit rows, where there are any, then a token for each
  // of `samples`, which belong to the first logit rows. Tokens below 0 are those of the run before (StepWork).
  // REQUIRES: all runs but the last are done and collected, and of the last nothing is wanted but its tokens.
  void run(const Batch& batch, std::span<const SampleRow> samples);
  // A token for each of `samples` of the last run, which was given none. What they want goes to the device beside the
  // run, in a stream of its own.
  void draw(std::span<const SampleRow> samples);
  // Head and samples once more, for other logit rows of the same batch. REQUIRES: all runs are done and collected.
  void run_head(const Batch& batch, std::span<const SampleRow> samples);
  // The tokens of the oldest run that was not collected. REQUIRES: its work is done.
  void collect(std::span<SampleResult> results);
  // Something threw: waits for whatever was given, and nothing of it is collected.
  void give_up();
  // Throws CommError where another rank did not come to a meeting of the work. REQUIRES: it is done.
  void check_peers() const;
  // Work that waits for other ranks ends, and no step runs any more. Any thread.
  void leave_peers();
  // By the host's memory, since the devices do not reach each other's.
  bool meets_on_host() const { return peers_ != nullptr && !peers_->peers().direct; }
  void copy_page(int group, int from, int to);

  StreamRef stream() const { return stream_.ref(); }
  void synchronize() const { stream_.synchronize(); }
  const Tensor& device_output(const std::string& name) const { return program_.outputs.at(name); }
  const Program& program() const { return program_; }
  // The output's rows of the last step, copied. REQUIRES: its work is done.
  const Tensor& output(const std::string& name) const override;
  // One row of an output into `to`. REQUIRES: its work is done.
  void read_row(const Tensor& output, int64_t row, float* to) const;

  const std::vector<int>& pages() const { return pages_; }
  int64_t kv_bytes() const { return kv_memory_.bytes(); }
  int64_t weight_bytes() const;  // with packed copies
  int64_t step_bytes() const;    // activations, scratch and batch
  const DeviceFacts& facts() const { return facts_; }
  Blas* blas() const { return blas_.get(); }
  const StepLimits& limits() const { return buckets_.padded(); }

  // Seconds that each node took since the last reset; empty unless profiling, which gives up graphs and overlap.
  void profile(bool on);
  // Adds the times of the step that ran. REQUIRES: its work is done.
  void count_times();
  const std::vector<double>& node_seconds() const { return node_seconds_; }
  double profiled_seconds() const { return profiled_seconds_; }
  // How experts were used in the first step after each profile(true). At any time, by any thread.
  ExpertUse expert_use() const { return experts_.now(); }

  // Records the graphs of all buckets that get one, after each has run once on padding alone.
  void record_all();
  int recorded() const { return static_cast<int>(recorded_.size()); }

 private:
  enum class Part : uint8_t { kBody, kHead, kStep };
  struct Key {
    Part part;
    Bucket bucket;
    auto operator<=>(const Key&) const = default;
  };

  Ctx ctx(const Bucket& bucket) const;
  int64_t free_bytes() const;
  void meet_ranks() const;
  void check_room();
  // So much of a KV cache was asked for, and no less is given.
  bool asks_for_kv() const { return options_.least_pages > options_.limits.pages_per_seq(); }
  void prepare_all();
  void place_kv();
  std::byte* allocate(int64_t bytes);
  bool recordable(const Key& key) const;
  void give(Part part, const Bucket& bucket);
  void give_nodes(Part part, const Bucket& bucket);
  void give_timed(size_t begin, size_t end, Ctx& ctx);
  void copy_choices(size_t node);
  void count_choices();

  const DeviceRunOptions options_;
  const DeviceFacts facts_;  // its free memory before anything was placed
  const Buckets buckets_;
  Program program_;
  Stream stream_;
  Stream copies_stream_;  // of what is drawn later
  Event copied_;
  std::unique_ptr<PeerMemory> peers_;  // null: one rank
  std::unique_ptr<DeviceWeights> weights_;
  DeviceMemory arena_, scratch_, tickets_, handed_, kv_memory_;
  std::vector<DeviceMemory> kept_;  // what prepare() asked for
  int64_t kept_used_ = 0;           // of the last piece of kept_
  int64_t kept_bytes_ = 0;
  std::unique_ptr<Blas> blas_;  // null: own products alone
  std::unique_ptr<BatchUpload> batch_;
  std::unique_ptr<DeviceSampler> sampler_;  // null where the graph has no logits
  std::unique_ptr<KvStore> kv_;
  std::vector<int> pages_;
  Bucket bucket_;
  int rows_ = 0;  // of the last step
  int logit_rows_ = 0;
  std::map<Key, RecordedGraph> recorded_;  // empty: has run once, and is recorded when it comes again
  std::vector<double> node_seconds_;
  double profiled_seconds_ = 0;
  std::vector<std::pair<Event, Event>> times_;  // of each node
  std::vector<char> timed_;
  // What a router has chosen, until it is counted: copied behind a node, the last that reads it, since a launch of
  // experts may make it, too.
  struct Choices {
    size_t router;
    PinnedMemory copy;
  };
  std::map<size_t, Choices> choices_;
  ExpertCounters experts_;
  mutable std::map<std::string, std::pair<std::vector<float>, Tensor>> copies_;
};

}  // namespace ingot::cuda
