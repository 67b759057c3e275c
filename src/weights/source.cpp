#include "weights/source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/seeded_hash.h"
#include "weights/kv_scales.h"
#include "weights/model_files.h"
#include "weights/random_values.h"
#include "weights/schemes/scheme.h"

namespace ingot {
namespace {

bool ignorable(const std::string& name, const ArchNames& names) {
  return std::ranges::any_of(names.ignorable, [&](const std::string& p) { return name_matches(name, p); });
}

// A router's rows must differ: experts with equal scores are chosen by their index, always the same.
bool is_router(const std::string& name) {
  return name.ends_with(".gate.weight") || name.ends_with(".router.weight") || name.ends_with(".router.layer.weight") ||
         name.ends_with(".gate.wg.weight");
}

// Weights that lie in mapped files.
class FileSource : public WeightSource {
 public:
  FileSource(const ModelFiles& files, const ArchNames& names) {
    if (files.gguf) {
      read_gguf(*files.gguf, names);
    } else {
      read_safetensors(*files.safetensors, names);
    }
  }

  const StoredWeight* find(const std::string& name, const std::vector<int64_t>&) override {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : &weights_[it->second];
  }
  bool has(const std::string& name) const override { return index_.contains(name); }
  std::vector<std::string> names() const override {
    std::vector<std::string> result;
    for (const StoredWeight& weight : weights_) result.push_back(weight.name);
    return result;
  }
  bool permuted_qk() const override { return permuted_qk_; }

 private:
  void add(StoredWeight weight) {
    if (!index_.emplace(weight.name, weights_.size()).second) {
      throw Error("[weights] two stored tensors mean '{}'", weight.name);
    }
    weights_.push_back(std::move(weight));
  }

  void read_gguf(const Gguf& gguf, const ArchNames& names) {
    permuted_qk_ = names.gguf_permuted_qk;
    for (const GgufTensor& tensor : gguf.tensors()) {
      // The factors of rope are part of the configuration: read_hparams has read them.
      if (tensor.name.starts_with("rope_")) continue;
      StoredWeight weight;
      weight.name = canonical_from_gguf(tensor.name, names);
      if (weight.name.empty()) throw Error("[weights] '{}' is unknown to this architecture", tensor.name);
      // What NVFP4's tensors are multiplied with.
      if (weight.name.ends_with(".scale")) weight.name.replace(weight.name.size() - 6, 6, ".weight_scale");
      if (ignorable(weight.name, names)) continue;
      const std::optional<Format> format = format_by_gguf_type(tensor.type);
      if (!format) throw Error("[weights] '{}' is stored as type {}, which is not supported", tensor.name, tensor.type);
      weight.format = *format;
      weight.shape.assign(tensor.dims.rbegin(), tensor.dims.rend());
      weight.data = tensor.data;
      weight.mapped = true;
      add(std::move(weight));
    }
  }

  void read_safetensors(const SafeTensors& file, const ArchNames& names) {
    const bool bare = std::ranges::none_of(
        file.tensors(), [&](const SafeTensor& t) { return stripped(t.name).starts_with(names.prefix); });
    for (const SafeTensor& tensor : file.tensors()) {
      StoredWeight weight;
      weight.name = stripped(tensor.name);
      if (bare && !weight.name.starts_with("lm_head.")) weight.name = names.prefix + weight.name;
      if (ignorable(weight.name, names) || is_kv_scale(weight.name)) continue;
      const std::optional<Format> format = format_by_name(tensor.dtype);
      weight.bytes = !format;  // with_schemes() knows whether they are part of a weight
      weight.dtype = tensor.dtype;
      weight.stored_bytes = static_cast<int64_t>(tensor.bytes);
      if (format) weight.format = *format;
      weight.shape = tensor.shape;
      weight.data = tensor.data;
      weight.mapped = true;
      add(std::move(weight));
    }
  }

  // Multimodal checkpoints hold the decoder one level deeper.
  static std::string stripped(const std::string& name) {
    if (name.starts_with("language_model.")) return name.substr(15);
    if (name.starts_with("model.language_model.")) return "model." + name.substr(21);
    return name;
  }

  std::vector<StoredWeight> weights_;
  SeededMap<size_t> index_;
  bool permuted_qk_ = false;
};

}  // namespace

int64_t StoredWeight::values() const {
  CheckedSize n(1, "[weights] values of a tensor");
  for (const int64_t d : shape) n *= d;
  return n.as_int64();
}

std::unique_ptr<WeightSource> open_source(const ModelFiles& files, const ArchNames& names) {
  auto source = std::make_unique<FileSource>(files, names);
  if (files.gguf) return source;
  const JsonObject* settings = find_object(files.config, "quantization_config");
  return with_schemes(std::move(source), settings != nullptr ? *settings : JsonObject{});
}

const StoredWeight* RandomSource::find(const std::string& name, const std::vector<int64_t>& wanted) {
  const auto known = std::ranges::find_if(made_, [&](const auto& w) { return w->name == name; });
  if (known != made_.end()) return known->get();
  const bool vector = wanted.size() < 2 || name.ends_with(".bias");
  const int64_t cols = wanted.empty() ? 1 : wanted.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < wanted.size(); ++i) rows *= wanted[i];
  auto weight = std::make_unique<StoredWeight>();
  weight->name = name;
  const bool router = is_router(name);
  weight->format = vector || router ? Format::kF32 : format_(name);
  if (cols % format_block(weight->format)) weight->format = Format::kF32;
  weight->shape = wanted;
  // Variance 1 / cols keeps the activations of a deep model near 1; uniform over ±a has variance a² / 3.
  const float range = vector ? 0.1f : std::sqrt(3.0f / static_cast<float>(cols));
  const RandomValues random{.key = std::hash<std::string>{}(name) << 20, .range = range};
  memory_.emplace_back(rows * format_row_bytes(weight->format, cols));
  weight->data = memory_.back().data();
  const bool matrix = !vector && !router;
  if (matrix && when_ == RandomFill::kDevice && (weight->format == Format::kBF16 || weight->format == Format::kF32)) {
    weight->random = random;
  } else if (matrix && when_ == RandomFill::kAsked) {
    unfilled_.push_back({weight.get(), random, memory_.back().data(), memory_.back().bytes()});
  } else {
    fill(*weight, random, memory_.back().data(), 0, rows);
  }
  made_.push_back(std::move(weight));
  return made_.back().get();
}

void RandomSource::fill_rows(const std::byte* data, int64_t bytes) {
  for (const Unfilled& one : unfilled_) {
    if (data < one.data || data >= one.data + one.bytes) continue;
    const int64_t row_bytes = format_row_bytes(one.weight->format, one.weight->shape.back());
    const int64_t first = (data - one.data) / row_bytes;
    return fill(*one.weight, one.random, one.data, first, first + bytes / row_bytes);
  }
}

// Rows first … end - 1, the same values whatever is filled beside them.
void RandomSource::fill(const StoredWeight& weight, const RandomValues& random, std::byte* out, int64_t first,
                        int64_t end) const {
  const float middle = weight.shape.size() < 2 ? 1.0f : 0.0f;  // norms are around 1
  const int64_t cols = weight.shape.empty() ? 1 : weight.shape.back();
  const int64_t row_bytes = format_row_bytes(weight.format, cols);
  std::vector<float> row(static_cast<size_t>(cols));
  const bool router = is_router(weight.name), encoded = format_block(weight.format) > 1;
  // Experts are stacked, and differ: those of encoded formats by the order in which the rows come again.
  const int64_t of_expert = weight.shape.size() == 3 ? weight.shape[1] : std::numeric_limits<int64_t>::max();
  // The row whose values row r has; r itself where it has its own.
  const auto first_of = [&](int64_t r) {
    const int64_t e = r / of_expert, i = r % of_expert;
    if (router || (encoded ? r : i) < kRandomRows) return r;
    if (!encoded) return r - i + i % kRandomRows;
    const auto order = e == 0 ? 0 : random_bits(static_cast<uint64_t>(e)) % uint64_t{kRandomRows};
    return i % kRandomRows ^ static_cast<int64_t>(order);
  };
  for (int64_t r = first; r < end; ++r) {
    const int64_t same = first_of(r);
    const int64_t made = same >= first ? same : r - kRandomRows;  // filled before, where it has the values
    if (made < r && made >= first && (made == same || first_of(made) == same)) {
      std::memcpy(out + r * row_bytes, out + made * row_bytes, static_cast<size_t>(row_bytes));
      continue;
    }
    uint64_t key = random.key;
    if (router) key = expert_key(key, r / kRandomRows);  // no two experts have the same logit
    if (!encoded) key = expert_key(key, r / of_expert);
    for (int64_t c = 0; c < cols; ++c) {
      row[static_cast<size_t>(c)] =
          middle + random_value(key, encoded ? same : same % of_expert, c, cols, random.range);
    }
    format_encode(weight.format, row.data(), out + r * row_bytes, cols);
  }
}

}  // namespace ingot
