// What the tests of the engine on a CUDA device share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/local_engine.h"
#include "engine/model/cuda.h"
#include "engine/model/programs_test_support.h"

namespace ingot {

#define NEEDS_DEVICE() \
  if (const std::string why = cuda_refusal(0); !why.empty()) GTEST_SKIP() << why

// A small Llama with random weights of one format, the same wherever it is made.
inline Model random_model(Format format, DType kv, bool on_device) {
  return Model::random(small_llama({.hidden = 64, .head_dim = 16, .context = 256}),
                       [format](const std::string&) { return format; },
                       {.context = 128, .kv = kv, .random_on_device = on_device});
}

inline EngineConfig options_of(const EngineDevice& device) {
  return {.max_seqs = 4, .step_rows = 64, .page_rows = 16, .device = device};
}

}  // namespace ingot
