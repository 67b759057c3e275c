#include "weights/kv_scales.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "files/gguf/gguf_writer.h"
#include "quant/format.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

constexpr std::string_view kFormat = "ingot.kv.format", kHeads = "ingot.kv.heads", kKeep = "ingot.kv.keep";
constexpr std::string_view kKeys = "ingot.kv.k_scale", kValues = "ingot.kv.v_scale";
constexpr int kMostLayers = 1 << 16;  // a damaged file names no more

enum class Kind : uint8_t { kNone, kKey, kValue, kBoth, kOther };

// compressed-tensors and AutoFP8, ModelOpt, and those that quantized the outputs of k_proj and v_proj.
Kind kind_of(std::string_view name) {
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  for (const std::string_view module : {".self_attn", ".attn"}) {
    const std::string at(module);
    if (ends(at + ".k_scale")) return Kind::kKey;
    if (ends(at + ".v_scale")) return Kind::kValue;
    if (ends(at + ".kv_scale")) return Kind::kBoth;
    if (ends(at + ".q_scale") || ends(at + ".prob_scale") || ends(at + ".prob_output_scale")) return Kind::kOther;
  }
  if (ends(".k_proj.k_scale") || ends(".k_proj.output_scale")) return Kind::kKey;
  if (ends(".v_proj.v_scale") || ends(".v_proj.output_scale")) return Kind::kValue;
  return ends(".q_proj.q_scale") || ends(".q_proj.output_scale") ? Kind::kOther : Kind::kNone;
}

void check_values(const std::vector<float>& scales, std::string_view name) {
  for (const float scale : scales) {
    // Below it codes of 127 times the inverse would be no number.
    if (!std::isfinite(scale) || scale < 0x1p-100f)
      throw Error("[kv] '{}' is {}: a scale is a positive number", name, scale);
  }
}

DType format_of(const std::string& name) {
  if (name == "fp8") return DType::kFp8;
  if (name == "int8") return DType::kInt8;
  throw Error("[kv] scales for '{}': known are fp8 and int8", name);
}

KvScales::Layer& layer_at(KvScales& scales, int64_t layer, std::string_view where) {
  if (layer < 0 || layer >= kMostLayers) throw Error("[kv] '{}' is of layer {}", where, layer);
  if (scales.layers.size() <= static_cast<size_t>(layer)) scales.layers.resize(static_cast<size_t>(layer) + 1);
  return scales.layers[static_cast<size_t>(layer)];
}

std::vector<float> values_of(const SafeTensor& tensor) {
  const std::optional<Format> format = format_by_name(tensor.dtype);
  const bool plain = format && (*format == Format::kF32 || *format == Format::kF16 || *format == Format::kBF16);
  if (!plain) throw Error("[kv] '{}' is stored as {}, and a scale is F32, F16 or BF16", tensor.name, tensor.dtype);
  std::vector<float> values(tensor.bytes / static_cast<size_t>(format_block_bytes(*format)));
  format_decode(*format, tensor.data, values.data(), static_cast<int64_t>(values.size()));
  if (values.empty()) throw Error("[kv] '{}' is empty", tensor.name);
  check_values(values, tensor.name);
  return values;
}

// What the configuration says beside the tensors.
void read_config(const JsonObject& config, KvScales& scales) {
  if (const JsonObject* quantized = find_object(config, "quantization_config")) {
    const Json* scheme = find(*quantized, "kv_cache_scheme");
    if (scheme != nullptr && scheme->is_object() && get_string(scheme->as_object(), "type", "float") == "int")
      scales.format = DType::kInt8;
  }
  const JsonObject* own = find_object(config, "ingot_kv");
  const JsonArray* keep = own != nullptr ? find_array(*own, "keep") : nullptr;
  if (keep == nullptr) return;
  for (const Json& layer : *keep) {
    if (!layer.is_int64()) throw Error("[kv] ingot_kv.keep of config.json holds a value that is no layer's number");
    layer_at(scales, layer.as_int64(), "ingot_kv.keep").keep = true;
  }
}

}  // namespace

bool is_kv_scale(std::string_view name) { return kind_of(name) != Kind::kNone; }

int layer_number(std::string_view path) {
  for (size_t at = path.find('.'); at != std::string_view::npos; at = path.find('.', at + 1)) {
    const size_t end = std::min(path.find_first_not_of("0123456789", at + 1), path.size());
    if (end > at + 1 && end - at < 8 && (end == path.size() || path[end] == '.'))
      return std::atoi(std::string(path.substr(at + 1, end - at - 1)).c_str());
  }
  return -1;
}

std::optional<KvScales> KvScales::read(const Gguf& gguf) {
  if (!gguf.has(kKeys)) return {};
  KvScales scales;
  scales.format = format_of(gguf.get_string(kFormat));
  const std::vector<float> k = gguf.get_f32_array(kKeys), v = gguf.get_f32_array(kValues);
  check_values(k, kKeys);
  check_values(v, kValues);
  const std::vector<uint64_t> heads = gguf.get_u64_array(kHeads);
  uint64_t at = 0;
  for (const uint64_t n : heads) {
    if (n > k.size() || at + n > k.size() || at + n > v.size())
      throw Error("[kv] {} has {} scales, {} {}, and {} names more heads", kKeys, k.size(), kValues, v.size(), kHeads);
    const auto begin = static_cast<std::ptrdiff_t>(at), end = static_cast<std::ptrdiff_t>(at + n);
    scales.layers.push_back({.k = {k.begin() + begin, k.begin() + end}, .v = {v.begin() + begin, v.begin() + end}});
    at += n;
  }
  if (at != k.size() || at != v.size())
    throw Error("[kv] {} has {} scales, {} {}, and {} names {} heads", kKeys, k.size(), kValues, v.size(), kHeads, at);
  if (gguf.has(kKeep)) {
    for (const int64_t layer : gguf.get_i64_array(kKeep)) {
      if (layer < 0 || layer >= static_cast<int64_t>(heads.size()))
        throw Error("[kv] {} names layer {}, and there are {}", kKeep, layer, heads.size());
      scales.layers[static_cast<size_t>(layer)].keep = true;
    }
  }
  return scales;
}

std::optional<KvScales> KvScales::read(const ModelFiles& files) {
  if (files.is_gguf()) return read(*files.gguf);
  KvScales scales;
  for (const SafeTensor& tensor : files.safetensors->tensors()) {
    const Kind kind = kind_of(tensor.name);
    if (kind == Kind::kNone || kind == Kind::kOther) continue;
    Layer& layer = layer_at(scales, layer_number(tensor.name), tensor.name);
    const std::vector<float> values = values_of(tensor);
    if (kind != Kind::kValue) layer.k = values;
    if (kind != Kind::kKey) layer.v = values;
  }
  if (scales.layers.empty()) return {};
  read_config(files.config, scales);
  return scales;
}

void KvScales::write(GgufWriter& writer) const {
  std::vector<float> k, v;
  std::vector<uint32_t> heads;
  std::vector<int32_t> keep;
  for (size_t i = 0; i < layers.size(); ++i) {
    // One scale beside several is that of each of these heads.
    std::vector<float> of_k = layers[i].k, of_v = layers[i].v;
    if (of_k.size() == 1) of_k.resize(std::max<size_t>(1, of_v.size()), of_k[0]);
    if (of_v.size() == 1) of_v.resize(of_k.size(), of_v[0]);
    if (of_k.size() != of_v.size())
      throw Error("[kv] layer {} has {} scales for keys and {} for values: a file has both of each head", i,
                  of_k.size(), of_v.size());
    k.insert(k.end(), of_k.begin(), of_k.end());
    v.insert(v.end(), of_v.begin(), of_v.end());
    heads.push_back(static_cast<uint32_t>(of_k.size()));
    if (layers[i].keep) keep.push_back(static_cast<int32_t>(i));
  }
  writer.set(kFormat, dtype_name(format));
  writer.set_array(kHeads, std::span<const uint32_t>(heads));
  writer.set_array(kKeys, std::span<const float>(k));
  writer.set_array(kValues, std::span<const float>(v));
  if (!keep.empty()) writer.set_array(kKeep, std::span<const int32_t>(keep));
}

KvScales KvScales::fitted(DType to, int heads) const {
  KvScales result = *this;
  // A cache that has scales of its own asks for the layers alone.
  if (to != DType::kFp8 && to != DType::kInt8) {
    for (Layer& layer : result.layers) layer.k.clear(), layer.v.clear();
    return result;
  }
  const float factor = kv_largest_code(format) / kv_largest_code(to);
  result.format = to;
  for (Layer& layer : result.layers) {
    layer.k_alike = layer.k.size() == 1;
    layer.v_alike = layer.v.size() == 1;
    for (std::vector<float>* one : {&layer.k, &layer.v}) {
      if (one->size() == 1) one->resize(static_cast<size_t>(std::max(heads, 1)), one->front());
      for (float& scale : *one) scale *= factor;
    }
  }
  return result;
}

const KvScales::Layer* KvScales::find(int layer, int kv_heads) const {
  if (layer < 0 || static_cast<size_t>(layer) >= layers.size()) return nullptr;
  const Layer& found = layers[static_cast<size_t>(layer)];
  if (found.k.empty() && found.v.empty()) return found.keep ? &found : nullptr;
  const auto n = static_cast<size_t>(kv_heads);
  const auto has = [n](const std::vector<float>& scales, bool alike) {
    return alike ? scales.size() >= n : scales.size() == n;
  };
  const bool fits = has(found.k, found.k_alike) && has(found.v, found.v_alike);
  if (!fits)
    throw Error("[kv] layer {} has {} KV heads, {} scales for keys and {} for values", layer, kv_heads, found.k.size(),
                found.v.size());
  return &found;
}

std::vector<int> KvScales::kept() const {
  std::vector<int> result;
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].keep) result.push_back(static_cast<int>(i));
  return result;
}

}  // namespace ingot
