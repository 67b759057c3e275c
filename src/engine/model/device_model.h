// A model's graph on some device, as the engine and its tools use it: CpuModel on the CPU, CudaModel on a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/model/step_model.h"
#include "graph/expert_use.h"
#include "graph/outputs.h"
#include "graph/program.h"
#include "graph/run.h"

namespace ingot {

// Memory of a device that is not the host's, and what was made ready on it; all zero on the CPU.
struct DeviceUse {
  std::string name;  // "cuda:0 NVIDIA H200"; empty on the CPU
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;    // when it was asked
  int64_t weight_bytes = 0;  // in all their layouts
  int64_t step_bytes = 0;    // activations and scratch
  int graphs = 0;            // of steps, recorded before the first
  double graph_seconds = 0;  // that took
};

class DeviceModel : public StepModel {
 public:
  // Called in each step after its body, with named outputs in place, by the thread that runs it.
  std::function<void(const Batch& batch, const StepOutputs& outputs)> on_body;

  // Of all below: between two calls of the engine's step().
  virtual const std::vector<int>& pages() const = 0;  // of each KV group
  virtual int64_t kv_bytes() const = 0;
  virtual const Program& program() const = 0;
  // Seconds that each node took since the last reset; empty unless profiling.
  virtual void profile(bool on) = 0;
  virtual const std::vector<double>& node_seconds() const = 0;
  // Of all steps since the last reset, from their first node to their last; 0 where the caller's clock tells.
  virtual double profiled_seconds() const { return 0; }
  virtual DeviceUse use() const { return {}; }
  // DeviceUse::free_bytes of now. At any time, by any thread.
  virtual int64_t free_bytes() const { return 0; }
  // How experts were used; all zero where nobody counts. At any time, by any thread.
  virtual ExpertUse expert_use() const { return {}; }
  // Why no further step can run: a rank was lost. Empty while all is well. At any time, by any thread.
  virtual std::string lost() const { return {}; }
  // Of the CPU; null elsewhere.
  virtual Runner* runner() { return nullptr; }
};

}  // namespace ingot
