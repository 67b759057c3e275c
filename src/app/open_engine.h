// A model and the engine that runs it, opened the same way by everyone. Nothing here prints or knows of a command line.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "app/expert_use_file.h"
#include "engine/replicas/engines.h"
#include "models/model.h"

namespace ingot {

// All that may be chosen when a model is opened.
struct OpenOptions {
  std::string device = {};  // as choose_device takes it
  bool ref = false;         // plain float32 reference kernels, no fusion
  // Type of the KV cache, as parse_kv takes it. Empty: on a GPU BF16 or F32 where all weights are, on a CPU BF16 where
  // that is multiplied fastest, else f16: half the memory and traffic of f32, and the perplexity of the default model
  // moves by less than another order of additions moves it. With `ref`, which is the oracle, f32.
  std::string kv = {};
  std::string verify = {};         // a manifest that the model's files must match; empty: not checked
  std::string tp_form = "gather";  // or "reduce" (graph/shard.h)
  // How often experts were chosen: read with --ep, else written when the engine ends. Empty: neither.
  std::string expert_use = {};
  ModelOptions model = {};  // its `kv`, `tp_form` and `expert_uses` follow from those above
  // 0 threads: the cores that this process may use. The device's index and the kernels follow from `device` and `ref`.
  EngineConfig engine = {.threads = 0};
  // Sets kv_bytes and kv_eager_bytes for the model that was loaded; null: they are as they are. May throw Error.
  void (*fit_kv)(const Model& model, EngineConfig& config) = nullptr;
  std::function<void(const StepFacts&)> on_step = {};  // as Engines takes it
  std::function<void()> on_follow = {};                // of a rank above 0: its part is packed, its first step comes
  bool routes = false;                                 // requests go through OpenEngine::engines: there may be several
};

struct OpenEngine {
  std::unique_ptr<Model> model;
  std::unique_ptr<Engines> engines;
  Engine* engine = nullptr;                     // the first of them
  std::unique_ptr<ExpertUseWriter> expert_use;  // null: not asked for
};

// Throws Error: a device that is not there is told before the files are read.
OpenEngine open_engine(const std::string& path, const OpenOptions& options);
// The same for a model that is loaded already, with model_options().
OpenEngine make_engine(Model model, const OpenOptions& options);

// The model's part of the options.
ModelOptions model_options(const OpenOptions& options);

// Types of the KV cache by name.
std::span<const DType> kv_types();
// One of them. Throws Error for anything else.
DType parse_kv(const std::string& name);

}  // namespace ingot
