// The tensors of a model that a directory of Hugging Face holds, as GGUF has them.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/error.h"
#include "compress/gguf_numbers.h"
#include "compress/gguf_target.h"
#include "compress/model_tensors.h"
#include "compress/row_readers.h"
#include "models/model.h"
#include "weights/config.h"
#include "weights/weights.h"

namespace ingot {
namespace {

constexpr std::array<std::pair<ExpertPart, std::string_view>, 3> kParts = {
    {{ExpertPart::kGate, "gate"}, {ExpertPart::kUp, "up"}, {ExpertPart::kDown, "down"}}};

bool is_scale(std::string_view name) {
  return name.ends_with("_scale") || name.ends_with("_scale_inv") || name.ends_with(".input_scale");
}

// Where a layer's experts begin in a name of one of them, or of what holds them all; "": it is none.
std::string experts_path(const std::string& name) {
  if (const size_t at = name.find(".experts."); at != std::string::npos) return name.substr(0, at + 8);
  for (const std::string_view joined : {".input_linear.weight", ".output_linear.weight"}) {
    if (name.ends_with(joined) && name.find("_moe.") != std::string::npos)
      return name.substr(0, name.size() - joined.size());
  }
  return "";
}

// What Weights made for a reader is freed with it: other readers of the layer still have theirs.
RowReader freeing(RowReader reader, Weights& weights, std::vector<const std::byte*> made) {
  reader.done = [given = reader.done, &weights, made = std::move(made)] {
    given();
    weights.release([&](const std::byte* data) { return std::ranges::find(made, data) != made.end(); });
  };
  return reader;
}

std::vector<const std::byte*> data_of(const std::vector<Weight>& all) {
  std::vector<const std::byte*> data;
  for (const Weight& weight : all) data.push_back(weight.data);
  return data;
}

// Some of Granite 4 have layers with a state, or layers without rope: GGUF has another architecture for all of them.
void check_target(const std::string& type) {
  if (type == "granitemoehybrid")
    throw Error("[quantize] '{}' cannot be written as GGUF: its architecture there is 'granitehybrid'", type);
}

}  // namespace

void GgufModel::read_safetensors() {
  const Config config(files_);
  arch_ = &find_architecture(config);
  target_ = &gguf_target(arch_->name);
  hp_ = Model::read_numbers(files_);
  check_target(config.type());
  mix_model_.arch = target_->gguf;
  mix_model_.layers = hp_.layers;
  mix_model_.heads = hp_.heads;
  mix_model_.kv_heads = hp_.latent && mix_model_.arch != "deepseek2" ? hp_.heads : hp_.kv_heads;
  mix_model_.experts = hp_.experts.count;
  if (mix_model_.arch == "llama" && std::ranges::any_of(hp_.sliding, [](bool s) { return s; }))
    warnings_.push_back(
        fmt::format("GGUF's 'llama' has no sliding window: that of {} positions is left out", hp_.window));
  weights_ = std::make_unique<Weights>(open_source(files_, arch_->names));
  std::set<std::string> experts;
  bool later = false;
  for (const std::string& name : weights_->source().names()) {
    if (is_scale(name) || (hp_.tied && name == "lm_head.weight")) continue;
    const int layer = layer_number(name, arch_->names.layers_prefix);
    if (layer >= hp_.layers) {
      later = true;
    } else if (const std::string path = experts_path(name); !path.empty()) {
      if (experts.insert(path).second) add_experts(path, layer);
    } else if (name.ends_with(".shared_mlp.input_linear.weight")) {
      add_halves(name, layer);
    } else if (name.ends_with(".kv_b_proj.weight") && mix_model_.arch == "deepseek2") {
      add_up_projection(name, layer);
    } else {
      add_stored(name);
    }
  }
  if (later) warnings_.emplace_back("layers behind the last, which guess further tokens, are left out");
  add_rope_factors();
  // What was unpacked to be described is not needed before it is read.
  weights_->release([](const std::byte*) { return true; });
}

void GgufModel::add_stored(const std::string& name) {
  const StoredWeight& stored = *weights_->source().find(name, {});
  if (stored.bytes) throw Error("[quantize] '{}' is stored as plain bytes, not as numbers", name);
  ModelTensor tensor;
  tensor.layer = layer_number(name, arch_->names.layers_prefix);
  const std::optional<std::string> own = gguf_layer_name(name, tensor.layer);
  tensor.name = own ? *own : gguf_from_canonical(shared_part(name), arch_->names);
  tensor.canonical = name;
  tensor.shape = stored.shape;
  while (tensor.shape.size() > 1 && tensor.shape[0] == 1) tensor.shape.erase(tensor.shape.begin());
  if (tensor.shape.empty()) throw Error("[quantize] '{}' is a single number, which GGUF has no place for", name);
  const bool q = tensor.name.find(".attn_q.") != std::string::npos;
  const bool k = tensor.name.find(".attn_k.") != std::string::npos;
  const int heads = !arch_->names.gguf_permuted_qk || !(q || k) ? 0 : q ? hp_.heads : hp_.kv_heads;
  tensor.stored_bytes = stored.stored_bytes > 0 ? stored.stored_bytes : 0;
  if (tensor.shape.size() == 1) {
    tensor.stored = Format::kF32;
    const float offset = name.ends_with("norm.weight") ? hp_.norm_offset : 0.0f;
    tensor.open = [this, name, heads, offset, n = tensor.cols()] {
      const Weight vector = weights_->vector(name, n, offset);
      const auto* values = reinterpret_cast<const float*>(vector.data);
      std::vector<float> copy(values, values + n);
      for (int64_t i = 0; heads > 0 && i < n; ++i) copy[static_cast<size_t>(i)] = values[rotated_row(i, n / heads)];
      return freeing(read_floats(std::move(copy), n), *weights_, {vector.data});
    };
    tensors_.push_back(std::move(tensor));
    return;
  }
  // GPT-2 publishes its linears transposed, and its tables as they are.
  const bool turned = hp_.transposed_linears && tensor.layer >= 0;
  if (turned) std::swap(tensor.shape[0], tensor.shape[1]);
  const int64_t rows = tensor.rows(), cols = tensor.cols();
  if (heads > 0 && rows % (2 * heads) != 0) throw Error("[quantize] '{}': {} rows are not {} heads", name, rows, heads);
  tensor.stored = stored.format;
  tensor.open = [this, name, rows, cols, turned, head_rows = heads > 0 ? rows / heads : 0] {
    const Weight weight = weights_->take(name, rows, cols, {.transposed = turned});
    return freeing(read_weights({weight}, head_rows), *weights_, {weight.data});
  };
  tensors_.push_back(std::move(tensor));
}

// Of the published tensor, which is not made into matrices for that.
Format GgufModel::format_of_experts(const std::string& path, ExpertPart part, int64_t rows, int64_t cols) {
  const std::string joined = path + (part == ExpertPart::kDown ? ".down_proj" : ".gate_up_proj");
  if (weights_->has(joined + "_blocks")) return Format::kMXFP4;
  if (weights_->has(joined)) return weights_->source().find(joined, {})->format;
  return weights_->experts(path, part, hp_.experts.count, rows, cols, target_->experts)[0].format;
}

void GgufModel::add_experts(const std::string& path, int layer) {
  const ExpertParams& experts = hp_.experts;
  for (const auto& [part, word] : kParts) {
    const bool down = part == ExpertPart::kDown;
    const int64_t rows = down ? hp_.hidden : experts.ffn, cols = down ? experts.ffn : hp_.hidden;
    ModelTensor tensor;
    tensor.name = fmt::format("blk.{}.ffn_{}_exps.weight", layer, word);
    tensor.canonical = fmt::format("{}.{}_proj.weight", path, word);
    tensor.layer = layer;
    tensor.shape = {experts.count, rows, cols};
    const Format format = format_of_experts(path, part, rows, cols);
    tensor.stored = format;
    tensor.stored_bytes = experts.count * rows * format_row_bytes(format, cols);
    // Its blocks are made as GGUF has them, one behind the other.
    tensor.as_stored = weights_->has(path + (down ? ".down_proj_blocks" : ".gate_up_proj_blocks"));
    if (tensor.as_stored) tensor.stored_type = *gguf_type(format);
    tensor.open = [this, path, of = part, rows, cols, whole = tensor.as_stored] {
      const std::vector<Weight> all = weights_->experts(path, of, hp_.experts.count, rows, cols, target_->experts);
      RowReader reader = freeing(read_weights(all, 0), *weights_, data_of(all));
      if (whole) reader.stored = all[0].data;
      return reader;
    };
    tensors_.push_back(std::move(tensor));
    if (target_->expert_biases) add_expert_bias(path, part, rows, fmt::format("blk.{}.ffn_{}_exps.bias", layer, word));
  }
}

void GgufModel::add_expert_bias(const std::string& path, ExpertPart part, int64_t rows, const std::string& name) {
  ModelTensor tensor;
  tensor.name = tensor.canonical = name;
  tensor.layer = tensors_.back().layer;
  tensor.shape = {hp_.experts.count, rows};
  tensor.stored = Format::kF32;
  tensor.open = [this, path, part, rows] {
    const Weight bias = weights_->expert_bias(path, part, hp_.experts.count, rows, target_->experts);
    const auto* values = reinterpret_cast<const float*>(bias.data);
    return freeing(read_floats({values, values + bias.cols}, rows), *weights_, {bias.data});
  };
  tensors_.push_back(std::move(tensor));
}

// Gate and up of the MLP that every row meets, in one matrix.
void GgufModel::add_halves(const std::string& name, int layer) {
  const int64_t rows = hp_.experts.shared_ffn, cols = hp_.hidden;
  const std::string path = name.substr(0, name.size() - std::string_view("input_linear.weight").size());
  for (const bool up : {false, true}) {
    ModelTensor tensor;
    tensor.canonical = fmt::format("{}{}_proj.weight", path, up ? "up" : "gate");
    tensor.name = gguf_from_canonical(tensor.canonical, arch_->names);
    tensor.layer = layer;
    tensor.shape = {rows, cols};
    const StoredWeight& stored = *weights_->source().find(name, {});
    tensor.stored = stored.format;
    tensor.stored_bytes = stored.stored_bytes / 2;
    tensor.open = [this, name, rows, cols, begin = up ? rows : 0] {
      return read_weights({weights_->take(name, rows, cols, {.row_begin = begin, .stored_rows = 2 * rows})}, 0);
    };
    tensors_.push_back(std::move(tensor));
  }
}

// Latent attention's up-projection, absorbed: keys turned around, a matrix for each head.
void GgufModel::add_up_projection(const std::string& name, int layer) {
  const LatentSpec& l = hp_.latent;
  const std::string path = name.substr(0, name.size() - std::string_view(".kv_b_proj.weight").size());
  const StoredWeight& stored = *weights_->source().find(name, {});
  for (const bool key : {true, false}) {
    ModelTensor tensor;
    tensor.canonical = fmt::format("{}.{}_b_proj.weight", path, key ? "k" : "v");
    tensor.name = gguf_from_canonical(tensor.canonical, arch_->names);
    tensor.layer = layer;
    tensor.shape = {hp_.heads, key ? l.kv_rank : l.v_dim, key ? l.nope_dim : l.kv_rank};
    tensor.stored = stored.format;
    tensor.stored_bytes = stored.stored_bytes * (key ? l.nope_dim : l.v_dim) / (l.nope_dim + l.v_dim);
    tensor.open = [this, path, key] {
      const LatentSpec& of = hp_.latent;
      const UpProjection up = weights_->up_projection(path, hp_.heads, of.nope_dim, of.v_dim, of.kv_rank);
      return freeing(read_weights({key ? up.key : up.value}, 0), *weights_, {up.key.data, up.value.data});
    };
    tensors_.push_back(std::move(tensor));
  }
}

void GgufModel::add_rope_factors() {
  if (std::ranges::none_of(hp_.uses_rope, [](bool r) { return r; })) return;
  constexpr std::array<std::string_view, 4> kFactors = {"llama", "granite", "granitemoe", "llama4"};
  if (hp_.rope.kind == RopeKind::kLlama3 && std::ranges::find(kFactors, mix_model_.arch) == kFactors.end())
    throw Error("[quantize] GGUF's '{}' has no rope of the kind 'llama3'", mix_model_.arch);
  for (RopeFactors& factors : rope_factors(hp_.rope)) add_vector(factors.name, std::move(factors.values));
}

void GgufModel::add_vector(const std::string& name, std::vector<float> values) {
  ModelTensor tensor;
  tensor.name = tensor.canonical = name;
  tensor.shape = {static_cast<int64_t>(values.size())};
  tensor.stored = Format::kF32;
  tensor.open = [values = std::move(values)] { return read_floats(values, static_cast<int64_t>(values.size())); };
  tensors_.push_back(std::move(tensor));
}

}  // namespace ingot
