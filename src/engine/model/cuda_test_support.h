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
inline Hparams small_llama() {
  Hparams hp;
  hp.arch = "llama";
  hp.layers = 2;
  hp.hidden = 64;
  hp.heads = 4;
  hp.kv_heads = 2;
  hp.head_dim = 16;
  hp.ffn = 128;
  hp.vocab = 256;
  hp.context = 256;
  hp.attention_scale = 0.25f;
  hp.rope.theta = 1e4;
  hp.rope.head_dim = 16;
  hp.rope.max_context = 256;
  hp.rope_local = hp.rope;
  hp.sliding.assign(2, false);
  hp.uses_rope.assign(2, true);
  return hp;
}

inline Model random_model(Format format, DType kv, bool on_device) {
  return Model::random(small_llama(), [format](const std::string&) { return format; },
                       {.context = 128, .kv = kv, .random_on_device = on_device});
}

inline EngineConfig options_of(const EngineDevice& device) {
  return {.max_seqs = 4, .step_rows = 64, .page_rows = 16, .device = device};
}

}  // namespace ingot
