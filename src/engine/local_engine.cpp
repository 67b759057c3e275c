#include "engine/local_engine.h"

#include <algorithm>
#include <limits>
#include <random>

#include "base/check.h"
#include "base/error.h"
#include "base/mapping_guard.h"
#include "base/thread_pool.h"
#include "comm/world.h"
#include "engine/follow.h"
#include "engine/model/cpu_model.h"
#include "engine/model/cuda.h"
#include "graph/kv_store.h"

namespace ingot {
namespace {

// Logit rows of one run of the head: 16 rows of a vocabulary of 262,144 are 16 MiB.
constexpr int kLogitRowsOfHead = 16;

// On a GPU all that one step samples go at once: 256 rows of a vocabulary of 128,256 are 125 MiB.
constexpr int kLeastLogitRowsOnGpu = 64;

int logit_rows(const EngineConfig& config) {
  const int rows = config.device.cuda < 0 ? kLogitRowsOfHead : std::max(kLeastLogitRowsOnGpu, config.max_seqs);
  return std::min(rows, config.step_rows);
}

StepLimits step_limits(const Model& model, const EngineConfig& config) {
  return config.limits(model.context, logit_rows(config));
}

// In all groups.
int64_t bytes_of_page(const Model& model, const EngineConfig& config) {
  return kv_page_bytes(model.graph, config.kv, config.page_rows);
}

int page_count(const Model& model, const EngineConfig& config) {
  if (config.pages) return config.pages;
  const int64_t per_seq = step_limits(model, config).pages_per_seq();
  const int64_t most = std::numeric_limits<int32_t>::max() / config.page_rows;  // a slot is an int32
  int64_t pages = per_seq * config.max_seqs;
  if (config.kv_bytes > 0) {
    const int64_t one = bytes_of_page(model, config);
    // More than max_seqs contexts need is of use too: the prefix cache keeps what was read.
    pages = config.kv_bytes / std::max<int64_t>(one, 1);
    if (pages < 1) throw Error("[kv] {} bytes hold no page of the KV cache: one needs {}", config.kv_bytes, one);
  }
  return static_cast<int>(std::min(most, pages));
}

// Of a GPU. Memory that was asked for in bytes is there as a whole or the model is refused; else one context is.
int least_pages(const EngineConfig& config, const StepLimits& limits, int pages) {
  const bool asked = config.kv_bytes > 0 && config.kv_bytes != kAllFreeBytes;
  return asked && config.pages == 0 ? pages : std::min(pages, limits.pages_per_seq());
}

// On the CPU.
RunOptions run_options(const Model& model, const EngineConfig& config) {
  return {.limits = step_limits(model, config),
          .threads = config.threads,
          .kernels = config.kernels,
          .short_cols = config.short_cols,
          .kv = config.kv,
          .comm = config.on_paper.get()};
}

std::vector<int> pages_of_groups(const Model& model, const EngineConfig& config) {
  return std::vector<int>(model.graph.kv_groups.size(), page_count(model, config));
}

std::unique_ptr<DeviceModel> device_model(const Model& model, const EngineConfig& config) {
  if (config.device.cuda < 0)
    return std::make_unique<CpuModel>(model, run_options(model, config), pages_of_groups(model, config));
  const StepLimits limits = step_limits(model, config);
  const int pages = page_count(model, config);
  if (model.stages > 1) throw Error("[pp] several stages are the CPU's: --device cpu");
  if (config.kernels == Kernels::kRef) throw Error("[device] the reference kernels run on the CPU alone");
  return make_cuda_model(model, {.device = config.device,
                                 .limits = limits,
                                 .threads = config.threads,
                                 .pages = pages,
                                 .least_pages = least_pages(config, limits, pages),
                                 .kv = config.kv});
}

// What a run of the head costs for a row, in rows of the body: by the products of their weights.
double head_rows(const Graph& graph) {
  double body = 0, head = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Cost cost = std::visit([](const auto& op) { return op.cost({.tokens = 1, .logits = 1}); }, graph.nodes[n].op);
    (n < graph.head_begin ? body : head) += cost.flops;
  }
  return body > 0 ? head / body : 0;
}

CoreOptions core_options(const Model& model, const EngineConfig& config, const DeviceModel& device,
                         MaskWorkers& masks) {
  const std::vector<int>& pages = device.pages();
  CoreOptions core;
  core.head_rows = head_rows(model.graph);
  core.masks = &masks;
  core.vocab = model.hp.vocab;
  core.context = model.context;
  core.logit_rows = logit_rows(config);
  core.stages = model.stages;
  core.has_hidden = model.graph.outputs.contains(kLastHidden);
  core.kv_format.clear();
  for (size_t g = 0; g < pages.size(); ++g) {
    const KvGroupSpec& group = model.graph.kv_groups[g];
    const int64_t eager = config.kv_eager_bytes / std::max<int64_t>(bytes_of_page(model, config), 1);
    core.groups.push_back(
        {.pages = pages[g], .window = group.window, .eager = static_cast<int>(std::min<int64_t>(eager, pages[g]))});
    core.kv_format += fmt::format("{}{}", g > 0 ? " " : "", dtype_name(config.kv.value_or(group.dtype)));
  }
  std::random_device random;
  core.hash_key = uint64_t{random()} << 32 | random();
  return core;
}

}  // namespace

void follow_engine(const Model& model, const EngineConfig& config, const std::function<void()>& on_ready) {
  World* const world = World::joined();
  CHECK(world != nullptr && world->rank() > 0, "this process leads");
  const RankLinks links = world_links(*world, static_cast<int>(model.ranks.size()) / model.stages, model.stages);
  follow(model.ranks[static_cast<size_t>(links.rank)], run_options(model, config), pages_of_groups(model, config),
         links, {}, on_ready);
}

LocalEngine::LocalEngine(const Model& model, const EngineConfig& config)
    : model_(model),
      config_(config),
      device_(device_model(model, config)),
      masks_(MaskPool::threads_of(available_cores(), config.device.cuda >= 0), config.max_seqs),
      core_(*device_, config, core_options(model, config, *device_, masks_),
            std::max<int>(EngineCore::kFlights, model.stages)) {
  core_.damaged = [] { return mapping_damaged(); };
}

Runner& LocalEngine::runner() {
  Runner* runner = device_->runner();
  CHECK(runner != nullptr, "the engine does not run on the CPU");
  return *runner;
}

}  // namespace ingot
