// What a model's files say of a KV cache of 8 bits: the scales of each layer and head, and the layers that keep 16
// bits. In GGUF it is metadata, since llama.cpp refuses tensors that it does not know:
//
//   ingot.kv.format  "fp8" or "int8": what they were found for
//   ingot.kv.heads   KV heads of each layer; 0 where it has no cache
//   ingot.kv.k_scale, ingot.kv.v_scale   those of all heads of all layers, in order
//   ingot.kv.keep    numbers of the layers that keep 16 bits
//
// In a directory it is the tensors k_scale and v_scale of each attention, one value or one for each head, under any of
// the names by which they are published; kv_cache_scheme of the quantization_config has the format, `ingot_kv` the
// layers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace ingot {

class Gguf;
class GgufWriter;
struct ModelFiles;

struct KvScales {
  struct Layer {
    std::vector<float> k, v;                // [kv heads], or one for all of them; empty: none
    bool keep = false;                      // 16 bits
    bool k_alike = false, v_alike = false;  // one scale that was repeated, for as many heads as there may be
  };
  DType format = DType::kFp8;  // or kInt8
  std::vector<Layer> layers;   // by number; may end before the last

  // Throws Error: counts that do not fit, a scale that is no positive number, a format that is none. Nothing where the
  // files have no scales.
  static std::optional<KvScales> read(const ModelFiles& files);
  static std::optional<KvScales> read(const Gguf& gguf);
  // Throws Error where a layer has scales for keys or for values alone: nobody could read it again.
  void write(GgufWriter& writer) const;

  // The same ranges for codes of another format; each layer has a scale for each of at most `heads` heads then.
  KvScales fitted(DType to, int heads) const;
  // The layer's, fitted, for so many KV heads; null: it has none. Throws Error where it has another number of scales.
  const Layer* find(int layer, int kv_heads) const;
  std::vector<int> kept() const;
};

// The largest code: a scale is the largest value over it.
constexpr float kv_largest_code(DType format) { return format == DType::kInt8 ? 127.0f : 448.0f; }

// Whether a tensor of a directory is a scale of a cache, or of queries and weights beside it, and none of a matrix.
bool is_kv_scale(std::string_view name);

// The number in "model.layers.3.self_attn"; -1: it has none.
int layer_number(std::string_view path);

}  // namespace ingot
