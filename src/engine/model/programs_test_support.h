// What the tests of several programs of one graph share.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/local_engine.h"

namespace ingot {

struct SmallSizes {
  int hidden, head_dim, context;
};
// Two layers of four heads, a vocabulary of 256.
inline Hparams small_llama(const SmallSizes& sizes) {
  Hparams hp;
  hp.arch = "llama";
  hp.layers = 2;
  hp.hidden = sizes.hidden;
  hp.heads = 4;
  hp.kv_heads = 2;
  hp.head_dim = sizes.head_dim;
  hp.ffn = 2 * sizes.hidden;
  hp.vocab = 256;
  hp.context = sizes.context;
  hp.attention_scale = 1 / std::sqrt(static_cast<float>(sizes.head_dim));
  hp.rope.theta = 1e4;
  hp.rope.head_dim = sizes.head_dim;
  hp.rope.max_context = sizes.context;
  hp.rope_local = hp.rope;
  hp.sliding.assign(2, false);
  hp.uses_rope.assign(2, true);
  return hp;
}

using Logits = std::vector<std::vector<float>>;  // of each position

inline std::vector<int32_t> some_tokens(int n, int seed) {
  std::vector<int32_t> tokens;
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 1;
  for (int i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((state >> 8) % 256));
  }
  return tokens;
}

// `to` must live until the engine is idle.
inline void submit(LocalEngine& engine, std::vector<int32_t> tokens, Logits& to) {
  Request request;
  request.prompt = std::move(tokens);
  request.max_tokens = 0;
  request.on_logits = [&to](int, std::span<const float> logits) { to.emplace_back(logits.begin(), logits.end()); };
  EXPECT_EQ(engine.submit(std::move(request)).refused, "");
}

inline Logits logits_of(LocalEngine& engine, std::vector<int32_t> tokens) {
  Logits logits;
  submit(engine, std::move(tokens), logits);
  while (!engine.idle()) engine.step();
  return logits;
}

// Mean squared difference over mean square.
inline double nmse_of(const Logits& got, const Logits& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, norm = 0;
  for (size_t r = 0; r < std::min(got.size(), want.size()); ++r) {
    for (size_t i = 0; i < want[r].size(); ++i) {
      const double d = static_cast<double>(got[r][i]) - want[r][i];
      error += d * d;
      norm += static_cast<double>(want[r][i]) * want[r][i];
    }
  }
  return error / norm;
}

// All that a program sets in its own nodes, as it is in the graph's.
inline std::string text_of(const Graph& graph) {
  struct Text : TensorVisitor {
    std::string all;
    void add(const Tensor& t) {
      all += fmt::format(" {}:{}:{}:{}", t.value, dtype_name(t.dtype), t.offset, static_cast<const void*>(t.data));
    }
    void in(Tensor& t) { add(t); }
    void out(Tensor& t) { add(t); }
    void inout(Tensor& t) { add(t); }
    void weight(Weight& w) { all += fmt::format(" {}:{}", static_cast<const void*>(w.data), w.head_rows); }
  } text;
  for (Node node : graph.nodes) {
    text.all += "\n" + node.label;
    each_tensor(node.op, text);
    if (const auto* linear = match<Linear>(node)) {
      for (const Linear::Part& part : linear->parts)
        text.all += fmt::format(" {}", static_cast<const void*>(part.packed));
      text.all += linear->streamed != nullptr ? " streamed" : "";
    }
  }
  for (const Value& value : graph.values) text.all += fmt::format(" {}", dtype_name(value.dtype));
  for (const KvGroupSpec& group : graph.kv_groups) text.all += fmt::format(" {}", dtype_name(group.dtype));
  return text.all;
}

}  // namespace ingot
