// What may be chosen about an engine: its memory, how it batches, where it computes. One struct from the options of a
// command down to the core: a new choice is a field here, and a row in cli/engine_options.cpp where people may make it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "graph/device_options.h"
#include "graph/run.h"
#include "ops/batch.h"

namespace ingot {

class Comm;

// As EngineConfig::kv_bytes: whatever a GPU has free.
inline constexpr int64_t kAllFreeBytes = std::numeric_limits<int64_t>::max();

struct EngineConfig {
  // That share all of what follows, but for the rows of a step (Engines). LocalEngine and Engine are one.
  int engines = 1;
  int threads = 1;

  // A step.
  int max_seqs = 1;     // that run at once
  int step_rows = 256;  // budget of rows
  int chunk_rows = 0;   // rows of one prompt; 0: the whole budget

  // The KV cache.
  int page_rows = 64;
  int pages = 0;                 // of each KV group; 0: as kv_bytes says
  std::optional<DType> kv = {};  // its type; none: as the graph says
  // Its memory; 0: enough for max_seqs whole contexts, or what a GPU has free where that is less.
  int64_t kv_bytes = 0;
  int64_t kv_eager_bytes = 0;  // of it, what old content may fill before it gives way (PageGroup::eager); 0: all

  // Requests.
  double gap_ms = 0;          // target between two tokens of a seq while prompts of others are read; 0: none
  int max_waiting = 1 << 20;  // that may wait
  // For the first token: a request that is foreseen to miss it is sent away at once (Submitted::late); 0: none.
  double ttft_target_ms = 0;
  int max_draft = 0;  // guesses of one seq in a step
  bool prefix_cache = true;

  // The device.
  Kernels kernels = Kernels::kFast;
  // Weights of up to so many columns stay in float on the CPU. Tests of small models set 0: the kernels of long rows.
  int64_t short_cols = kShortCols;
  EngineDevice device = {};
  // Figures on paper: stands for the ranks beside the one that it is of, which leads. Of the CPU.
  std::shared_ptr<Comm> on_paper = {};

  // Of a model with so many positions for a seq whose head takes so many logit rows at once.
  StepLimits limits(int context, int logits) const {
    return {.rows = step_rows, .seqs = max_seqs, .logits = logits, .context = context, .page_rows = page_rows};
  }
};

}  // namespace ingot
