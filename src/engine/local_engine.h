// The engine's core on a real model, for one thread: what Engine puts a thread around, and what tests step by hand.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "engine/core.h"
#include "engine/model/device_model.h"
#include "models/model.h"

namespace ingot {

// Where the engine computes.
struct EngineDevice {
  int cuda = -1;  // index of the CUDA device; -1: the CPU
  bool graphs = true;
  bool overlap = true;
  bool ahead = true;             // the next step is launched while one runs
  bool batch_invariant = false;  // on the CPU it always holds
};

// As EngineOptions::kv_bytes: whatever a GPU has free.
inline constexpr int64_t kAllFreeBytes = std::numeric_limits<int64_t>::max();

struct EngineOptions {
  int threads = 1;
  int max_seqs = 1;
  int step_rows = 256;  // budget of rows for a step
  int chunk_rows = 0;   // rows of one prompt in a step; 0: the whole budget
  int page_rows = 64;
  int pages = 0;                 // of each KV group; 0: as kv_bytes says
  std::optional<DType> kv = {};  // type of the KV cache; none: as the graph says
  // Memory of the KV cache; 0: enough for max_seqs whole contexts, or what a GPU has free where that is less.
  int64_t kv_bytes = 0;
  int64_t kv_eager_bytes = 0;  // of it, what old content may fill before it gives way (PageGroup::eager); 0: all
  double gap_ms = 0;           // target between two tokens of a seq while prompts of others are read; 0: none
  int max_waiting = 1 << 20;
  int max_draft = 0;
  bool prefix_cache = true;
  Kernels kernels = Kernels::kFast;
  // Weights of up to so many columns stay in float on the CPU. Tests of small models set 0: the kernels of long rows.
  int64_t short_cols = kShortCols;
  EngineDevice device = {};
  // Of Engine: called after each step by its thread; must not wait. What it throws is lost.
  std::function<void(const StepFacts&)> on_step = {};
};

class LocalEngine {
 public:
  LocalEngine(Model& model, const EngineOptions& options);

  Submitted submit(Request request) { return core_.submit(std::move(request)); }
  bool cancel(SeqId id) { return core_.cancel(id); }
  bool cancel(SeqId id, int choice) { return core_.cancel(id, choice); }
  std::span<Event> step() { return core_.step(); }
  bool idle() const { return core_.idle(); }

  EngineCore& core() { return core_; }
  const EngineCore& core() const { return core_; }
  DeviceModel& graph() { return *graph_; }
  const DeviceModel& graph() const { return *graph_; }
  // REQUIRES: it runs on the CPU.
  Runner& runner();
  const Model& model() const { return model_; }
  const EngineOptions& options() const { return options_; }

 private:
  Model& model_;
  const EngineOptions options_;
  std::unique_ptr<DeviceModel> graph_;
  EngineCore core_;
};

}  // namespace ingot
