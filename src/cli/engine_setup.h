// A model and the engine that runs it, opened the same way by every command.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cli/command.h"
#include "engine/engine.h"
#include "models/model.h"

namespace ingot {

struct KvMemory {
  int64_t bytes = 0;
  int64_t eager_bytes = 0;  // as EngineOptions::kv_eager_bytes
};

struct EngineSetup {
  int context = 0;  // 0: what the model was made for
  int seqs = 1;
  int step_rows = 256;
  int chunk_rows = 0;
  int page_rows = 64;
  int64_t kv_bytes = 0;  // 0: enough for `seqs` whole contexts
  double gap_ms = 0;     // 0: no target
  int max_waiting = 1 << 20;
  std::function<void(const StepFacts&)> on_step = {};
  bool keep_hidden = false;  // of every layer
  bool keep_last = false;    // of the last one alone: requests may ask for it (Request::on_hidden)
  DType kv = DType::kF32;
  // The KV cache is, on a GPU, BF16 or F32 where all weights are; on a CPU BF16 where that is multiplied fastest.
  bool kv_by_device = false;
  std::set<std::string> fuse_off = {};
  // The KV cache for the model that was loaded; asked where kv_bytes is 0.
  std::function<KvMemory(const Model&, std::optional<DType> type)> choose_kv = {};
};

struct OpenEngine {
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};

// Threads, reference kernels and the device are those of `common`; --ref also switches all fusion off.
OpenEngine open_engine(const std::string& path, const CommonOptions& common, const EngineSetup& setup);
OpenEngine make_engine(Model model, const CommonOptions& common, const EngineSetup& setup);

// The model's part of the setup.
ModelOptions model_options(const CommonOptions& common, const EngineSetup& setup);

// "f32", "f16", "bf16" or "q8_0". Throws Error for anything else.
DType parse_kv(const std::string& name);
// The same; where none is named, f16: half the memory and traffic of f32, and the perplexity of the default model moves
// by less than another order of additions moves it. f32 with --ref, which is the oracle.
DType kv_or_default(const std::string& name, const CommonOptions& common);
// The setup's part of both.
void set_kv(EngineSetup& setup, const std::string& name, const CommonOptions& common);

// The index of "cuda" (0) and "cuda:N"; -1 for anything else.
int cuda_index(const std::string& device);
// The CUDA device to compute on, -1 for the CPU. Throws Error where the named one is not there.
int choose_device(const CommonOptions& common);

// "a,b" as a set of two.
std::set<std::string> split_names(const std::string& list);

}  // namespace ingot
