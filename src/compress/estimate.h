// How long the methods that run the model will take: for `--dry-run`.
#pragma once

#include <string>

#include "compress/quantize.h"

namespace ingot {

struct PassesSetup {
  std::string model;  // a path
  int64_t chunk_rows = 0, chunks = 0;
  int threads = 1;
  // gptq: each layer is passed twice, XᵀX summed and factored, and codes are chosen with feedback. Else the text passes
  // once, and squares are summed.
  bool gptq = false;
};

// Seconds for all layers, beside those that plain rounding takes: by one layer over one chunk, and by a small matrix
// for what XᵀX costs behind the sums. Throws Error as the methods do.
double estimate_passes(const PassesSetup& setup, const PlannedFormats& formats);

}  // namespace ingot
