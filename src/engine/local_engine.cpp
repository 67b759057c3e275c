#include "engine/local_engine.h"

#include <algorithm>
#include <limits>
#include <random>

#include "base/check.h"
#include "base/error.h"
#include "base/mapping_guard.h"
#include "engine/model/cpu_model.h"
#include "engine/model/cuda.h"
#include "graph/kv_store.h"

namespace ingot {
namespace {

// Logit rows of one run of the head: 16 rows of a vocabulary of 262,144 are 16 MiB.
constexpr int kLogitRowsOfHead = 16;

// On a GPU all that one step samples go at once: 256 rows of a vocabulary of 128,256 are 125 MiB.
constexpr int kLeastLogitRowsOnGpu = 64;

StepLimits step_limits(const Model& model, const EngineOptions& options) {
  const int logits = options.device.cuda < 0 ? kLogitRowsOfHead : std::max(kLeastLogitRowsOnGpu, options.max_seqs);
  return {.rows = options.step_rows,
          .seqs = options.max_seqs,
          .logits = std::min(logits, options.step_rows),
          .context = model.context,
          .page_rows = options.page_rows};
}

// In all groups.
int64_t bytes_of_page(const Model& model, const EngineOptions& options) {
  return kv_page_bytes(model.graph, options.kv, options.page_rows);
}

int page_count(const Model& model, const EngineOptions& options) {
  if (options.pages) return options.pages;
  const int64_t per_seq = step_limits(model, options).pages_per_seq();
  const int64_t most = std::numeric_limits<int32_t>::max() / options.page_rows;  // a slot is an int32
  int64_t pages = per_seq * options.max_seqs;
  if (options.kv_bytes > 0) {
    const int64_t one = bytes_of_page(model, options);
    // More than max_seqs contexts need is of use too: the prefix cache keeps what was read.
    pages = options.kv_bytes / std::max<int64_t>(one, 1);
    if (pages < 1) throw Error("[kv] {} bytes hold no page of the KV cache: one needs {}", options.kv_bytes, one);
  }
  return static_cast<int>(std::min(most, pages));
}

// Of a GPU. Memory that was asked for in bytes is there as a whole or the model is refused; else one context is.
int least_pages(const EngineOptions& options, const StepLimits& limits, int pages) {
  const bool asked = options.kv_bytes > 0 && options.kv_bytes != kAllFreeBytes;
  return asked && options.pages == 0 ? pages : std::min(pages, limits.pages_per_seq());
}

std::unique_ptr<DeviceModel> device_model(Model& model, const EngineOptions& options) {
  const StepLimits limits = step_limits(model, options);
  const int pages = page_count(model, options);
  if (options.device.cuda < 0) {
    return std::make_unique<CpuModel>(model,
                                      RunOptions{.limits = limits,
                                                 .threads = options.threads,
                                                 .kernels = options.kernels,
                                                 .short_cols = options.short_cols,
                                                 .kv = options.kv},
                                      std::vector<int>(model.graph.kv_groups.size(), pages));
  }
  if (options.kernels == Kernels::kRef) throw Error("[device] the reference kernels run on the CPU alone");
  return make_cuda_model(model, {.device = options.device.cuda,
                                 .limits = limits,
                                 .threads = options.threads,
                                 .pages = pages,
                                 .least_pages = least_pages(options, limits, pages),
                                 .kv = options.kv,
                                 .graphs = options.device.graphs,
                                 .overlap = options.device.overlap,
                                 .ahead = options.device.ahead,
                                 .batch_invariant = options.device.batch_invariant});
}

CoreOptions core_options(const Model& model, const EngineOptions& options, const std::vector<int>& pages) {
  CoreOptions core;
  core.limits = step_limits(model, options);
  core.vocab = model.hp.vocab;
  core.chunk_rows = options.chunk_rows;
  core.gap_seconds = options.gap_ms / 1e3;
  core.max_waiting = options.max_waiting;
  core.max_draft = options.max_draft;
  core.prefix_cache = options.prefix_cache;
  core.has_hidden = model.graph.outputs.contains(kLastHidden);
  for (size_t g = 0; g < pages.size(); ++g) {
    const KvGroupSpec& group = model.graph.kv_groups[g];
    const int64_t eager = options.kv_eager_bytes / std::max<int64_t>(bytes_of_page(model, options), 1);
    core.groups.push_back(
        {.pages = pages[g], .window = group.window, .eager = static_cast<int>(std::min<int64_t>(eager, pages[g]))});
    core.kv_format = dtype_name(options.kv.value_or(group.dtype));
  }
  std::random_device random;
  core.hash_key = uint64_t{random()} << 32 | random();
  return core;
}

}  // namespace

LocalEngine::LocalEngine(Model& model, const EngineOptions& options)
    : model_(model),
      options_(options),
      graph_(device_model(model, options)),
      core_(*graph_, core_options(model, options, graph_->pages())) {
  core_.damaged = [] { return mapping_damaged(); };
}

Runner& LocalEngine::runner() {
  Runner* runner = graph_->runner();
  CHECK(runner != nullptr, "the engine does not run on the CPU");
  return *runner;
}

}  // namespace ingot
