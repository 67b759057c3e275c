#include "app/open_engine.h"

#include <utility>

#include "app/device.h"
#include "app/expert_use_file.h"
#include "app/join_ranks.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "comm/world.h"
#include "files/manifest.h"
#include "graph/kv_store.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

constexpr DType kKvTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8, DType::kInt8, DType::kQ8_0};

constexpr int kMaxForcedTokens = 8;

EngineConfig engine_config(const Model& model, const OpenOptions& options, const EngineDevice& device) {
  EngineConfig config = options.engine;
  const int cuda = device.cuda;
  if (config.threads == 0) config.threads = threads_of_rank();
  if (options.ref) config.kernels = Kernels::kRef;
  config.device = device;
  if (cuda >= 0 && options.kv == "int8") throw Error("[kv] int8 is a cache of the CPU: on a GPU --kv q8_0 or fp8");
  // Text that a grammar demands is verified by further rows of a step, computed for little more than one.
  config.max_draft = kMaxForcedTokens;
  // Nobody has named the type of the KV cache: it follows the weights or the CPU.
  if (options.kv.empty() && !options.ref) {
    config.kv = cuda >= 0 ? kv_of_weights(model.graph, DType::kF16) : kv_of_cpu(model.graph, DType::kF16);
  }
  if (options.fit_kv != nullptr) options.fit_kv(model, config);
  return config;
}

// Where the engine computes. Throws Error for devices and engines that there cannot be.
EngineDevice check_counts(const OpenOptions& options) {
  EngineConfig config = options.engine;
  if (choose_device(options.device, options.ref) >= 0) {
    if (World::joined() != nullptr) throw Error("[tp] processes that share a model compute on the CPU: --device cpu");
    if (options.model.ep > 1) throw Error("[ep] experts are spread over ranks of the CPU: --device cpu");
    if (options.model.pp > 1) throw Error("[pp] several stages are the CPU's: --device cpu");
    if (options.tp_form == "reduce") throw Error("[tp] ranks on GPUs gather: --tp-form gather, or --device cpu");
  }
  if (config.device.f8_rows && config.device.batch_invariant)
    throw Error("[engine] rows of fp8 have kernels that depend on their number: --fp8-rows or --batch-invariant");
  const EngineDevice device = choose_devices(options.device, options.ref, options.model.ranks());
  config.device.cuda = device.cuda;
  config.device.cudas = device.cudas;
  config.device.parts = device.parts;
  if (!options.expert_use.empty() && device.cuda >= 0)
    throw Error("[ep] uses of experts are counted on the CPU: --device cpu");
  if (config.engines > 1 && !options.routes) throw Error("[dp] several engines are a server's: ingot serve --dp");
  if (config.threads == 0) config.threads = available_cores();
  check_engines(config, options.model.ranks() * options.model.pp);
  if (options.routes && !options.expert_use.empty() && options.model.ep == 1)
    throw Error("[ep] a server reads --expert-use, with --ep: run, bench and eval write it");
  if (!options.expert_use.empty() && options.model.ep == 1 && options.model.pp > 1)
    throw Error("[pp] each stage counts its own experts' uses: --expert-use is written without --pp");
  return config.device;
}

// What loading needed and running does not: weights that were put in another order before they were packed, and the
// pages of the files. 16 MB of the default model.
void give_back(OpenEngine& open) {
  // All engines read the same packed weights; a GPU has copies of all.
  open.engine->call([&](LocalEngine& local) {
    const Runner* runner = local.device().runner();
    open.model->weights->release([&](const std::byte* data) { return runner == nullptr || runner->replaced(data); });
  });
  if (open.model->files) open.model->files->give_back_pages();
}

}  // namespace

std::span<const DType> kv_types() { return kKvTypes; }

DType parse_kv(const std::string& name) {
  for (const DType dtype : kKvTypes) {
    if (name == dtype_name(dtype)) return dtype;
  }
  throw Error("[kv] '{}' is not a format of the KV cache; known are f32, f16, bf16, fp8, int8, q8_0", name);
}

ModelOptions model_options(const OpenOptions& options) {
  ModelOptions model = options.model;
  model.kv = !options.kv.empty() ? parse_kv(options.kv) : options.ref ? DType::kF32 : DType::kF16;
  if (options.ref) model.fuse_off = {"all"};
  if (options.tp_form != "gather" && options.tp_form != "reduce")
    throw Error("[tp] a form of --tp is gather or reduce, not '{}'", options.tp_form);
  model.tp_form = options.tp_form == "reduce" ? ShardForm::kReduce : ShardForm::kGather;
  if (model.ep > 1 && !options.expert_use.empty()) model.expert_uses = read_expert_uses(options.expert_use);
  fit_to_world(model);
  return model;
}

OpenEngine make_engine(Model model, const OpenOptions& options) {
  OpenEngine open;
  open.model = std::make_unique<Model>(std::move(model));
  EngineConfig config = engine_config(*open.model, options, check_counts(options));
  join_ranks(*open.model, model_options(options), config, options.on_follow);
  open.engines = std::make_unique<Engines>(*open.model, config, options.on_step);
  open.engine = &open.engines->at(0);
  give_back(open);
  if (!options.expert_use.empty() && options.model.ep == 1)
    open.expert_use = std::make_unique<ExpertUseWriter>(*open.engine, options.expert_use);
  return open;
}

OpenEngine open_engine(const std::string& path, const OpenOptions& options) {
  check_counts(options);  // what is not there is said before the model is read
  if (!options.verify.empty()) verify_manifest(path, options.verify);
  return make_engine(Model::load(path, model_options(options)), options);
}

}  // namespace ingot
