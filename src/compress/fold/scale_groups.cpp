#include "compress/fold/scale_groups.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "tensor/dtype.h"

namespace ingot {
namespace {

class Finder {
 public:
  Finder(const Model& model, std::string_view method) : values_(model), method_(method) {}

  std::vector<ScaleGroup> find() {
    std::vector<ScaleGroup> groups;
    for (size_t n = 0; n < values_.model().graph.head_begin; ++n) {
      Node& node = values_.nodes()[n];
      if (auto* linear = match<Linear>(node)) {
        if (first_reader(linear->x, n)) add(linear->x, linear->parts[0].weight.name, groups);
      } else if (auto* experts = match<ExpertLinear>(node); experts != nullptr && experts->by_place()) {
        add_experts(*experts, n, groups);
      }
    }
    return groups;
  }

 private:
  bool first_reader(const Tensor& x, size_t node) const {
    return std::ranges::all_of(values_.readers(x), [&](const auto& reading) { return reading.node >= node; });
  }

  void add(const Tensor& x, const std::string& name, std::vector<ScaleGroup>& groups) {
    ScaleGroup group;
    group.channel.resize(static_cast<size_t>(x.cols));
    std::iota(group.channel.begin(), group.channel.end(), 0);
    group.channels = x.cols;
    if (!find_source(x, name, group) || !find_readers(x, group)) return;
    groups.push_back(std::move(group));
  }

  // False: something else reads the value, too.
  bool find_readers(const Tensor& x, ScaleGroup& group) {
    for (const GraphValues::Reading& reading : values_.readers(x)) {
      Node& node = values_.nodes()[reading.node];
      if (!same_tensor(reading.tensor, x)) return false;
      if (auto* linear = match<Linear>(node)) {
        group.readers.push_back(values_.matrix(linear->parts[0].weight));
      } else if (auto* experts = match<ExpertLinear>(node); experts != nullptr && !experts->by_place()) {
        for (size_t p = 0; p < static_cast<size_t>(experts->n_parts); ++p)
          for (const Weight& weight : experts->parts[p].weights) group.readers.push_back(values_.matrix(weight));
      } else {
        return false;
      }
    }
    return true;
  }

  // Back from `x` through what multiplies element by element, to a norm or a matrix.
  bool find_source(const Tensor& x, const std::string& name, ScaleGroup& group) {
    bool residual = true;  // so far nothing but factors lies behind
    for (Tensor at = x;;) {
      const std::optional<size_t> writer = values_.writer(at);
      if (!writer) return false;
      Node& node = values_.nodes()[*writer];
      if (auto* rms = match<RmsNorm>(node)) {
        group.norm = rms->weight;
        return rms->width == at.cols && same_tensor(rms->out, at) && values_.stored(rms->weight);
      }
      if (auto* layer = match<LayerNorm>(node)) {
        group.norm = layer->weight;
        group.norm_bias = layer->bias;
        return values_.stored(layer->weight);
      }
      if (auto* linear = match<Linear>(node)) {
        group.source = values_.matrix(linear->parts[0].weight, linear->parts[0].bias);
        group.source_first = at.offset / static_cast<int64_t>(sizeof(float));
        group.channels = at.cols;
        return true;
      }
      Tensor from;
      if (auto* glu = match<Glu>(node)) {
        if (glu->kind == ActivationKind::kClampedSwiglu) return false;  // up is not merely multiplied
        from = glu->up;
        if (!values_.only_reader(from, *writer)) return false;
      } else if (auto* attention = match<Attention>(node)) {
        if (!through_heads(*attention, from, group)) return false;
      } else if (auto* scale = match<Scale>(node)) {
        from = scale->x;
        if (!residual && !values_.only_reader(from, *writer)) return false;
      } else if (residual && (match<Add>(node) != nullptr || match<Embedding>(node) != nullptr)) {
        throw Error("[{}] '{}' has no norm before '{}': there is nothing that its columns could be scaled with",
                    method_, values_.model().arch->name, name);
      } else {
        return false;
      }
      residual = residual && match<Scale>(node) != nullptr;
      at = from;
    }
  }

  // Heads share those of v.
  bool through_heads(const Attention& attention, Tensor& v, ScaleGroup& group) {
    const KvWrite* write = values_.write_of(attention);
    if (attention.kv.latent || write == nullptr) return false;
    v = write->v;
    const auto readers = values_.readers(v);
    if (readers.size() != 1 || !same_tensor(readers[0].tensor, v)) return false;
    const int dim = attention.kv.v_dim, shared = attention.heads / attention.kv.kv_heads;
    for (int32_t& c : group.channel) c = c / dim / shared * dim + c % dim;
    return true;
  }

  void add_experts(const ExpertLinear& down, size_t node, std::vector<ScaleGroup>& groups) {
    const std::optional<size_t> writer = values_.writer(down.x);
    auto* up = writer ? match<ExpertLinear>(values_.nodes()[*writer]) : nullptr;
    if (up == nullptr || up->n_parts != 2 || up->glu == ActivationKind::kClampedSwiglu || up->parts[1].bias ||
        !values_.only_reader(down.x, node))
      return;
    for (size_t e = 0; e < static_cast<size_t>(down.count()); ++e) {
      ScaleGroup group;
      group.channels = down.cols_in();
      group.channel.resize(static_cast<size_t>(group.channels));
      std::iota(group.channel.begin(), group.channel.end(), 0);
      group.readers = {values_.matrix(down.parts[0].weights[e])};
      group.source = values_.matrix(up->parts[1].weights[e]);
      groups.push_back(std::move(group));
    }
  }

  GraphValues values_;
  const std::string_view method_;
};

void multiply(std::vector<float>& factors, int64_t size, int64_t first, std::span<const float> by) {
  if (factors.empty()) factors.assign(static_cast<size_t>(size), 1.0f);
  for (size_t i = 0; i < by.size(); ++i) factors[static_cast<size_t>(first) + i] *= by[i];
}

// What a norm's values are multiplied by, and the scales that this makes exact.
std::vector<float> norm_factors(const Weight& norm, float offset, std::span<float> scales) {
  std::vector<float> factors, values(scales.size());
  norm.decode_row(0, values.data());
  for (size_t k = 0; k < scales.size(); ++k) {
    const float w = values[k], stored = bf16_to_f32(f32_to_bf16(w / scales[k] - offset)) + offset;
    const bool usable = w != 0 && stored != 0;
    factors.push_back(usable ? stored / w : 1.0f);
    scales[k] = usable ? w / stored : 1.0f;
  }
  return factors;
}

}  // namespace

std::vector<ScaleGroup> find_scale_groups(const Model& model, std::string_view method) {
  return Finder(model, method).find();
}

void fold_scales(const ScaleGroup& group, const Model& model, std::span<float> scales, Fold& fold) {
  if (group.norm) {
    const std::vector<float> factors = norm_factors(group.norm, model.hp.norm_offset, scales);
    TensorFold& norm = fold.of({{.tensor = group.norm.name}});
    norm.offset = model.hp.norm_offset;
    multiply(norm.cols, group.channels, 0, factors);
    if (group.norm_bias) multiply(fold.of({{.tensor = group.norm_bias.name}}).cols, group.channels, 0, factors);
  } else {
    std::vector<float> inverse;
    for (const float s : scales) inverse.push_back(1 / s);
    const int64_t first = group.source.first + group.source_first;
    multiply(fold.of(group.source.names).rows, group.source.stored_rows, first, inverse);
    if (group.source.bias)
      multiply(fold.of({{.tensor = group.source.bias.name}}).cols, group.source.stored_rows, first, inverse);
  }
  std::vector<float> columns;
  for (const int32_t c : group.channel) columns.push_back(scales[static_cast<size_t>(c)]);
  std::vector<std::string> done;  // q, k and v may be one stored matrix
  for (const FoldMatrix& reader : group.readers) {
    const std::string key = reader.names[0].tensor + "#" + std::to_string(reader.names[0].expert);
    if (std::ranges::find(done, key) != done.end()) continue;
    done.push_back(key);
    multiply(fold.of(reader.names).cols, static_cast<int64_t>(columns.size()), 0, columns);
  }
}

}  // namespace ingot
