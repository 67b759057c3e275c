#include "compress/search/divergences.h"

#include <algorithm>
#include <numeric>

#include "compress/compare.h"
#include "compress/mix.h"

namespace ingot {
namespace {

using States = std::vector<std::vector<float>>;  // of each chunk, [rows, width]

class Work {
 public:
  Work(const DivergenceSetup& setup, const DivergenceText& text, const std::vector<TensorFormats>& variants)
      : setup_(setup), text_(text), variants_(variants), states_(variants.size()) {}

  std::vector<double> run() {
    begin();
    const int layers = setup_.runner.layers();
    for (int layer = 0; layer < layers; ++layer) {
      pass(layer);
      if (setup_.progress) setup_.progress(static_cast<double>(layer + 1) / (layers + 1));
    }
    return end();
  }

 private:
  std::vector<const ModelTensor*> tensors_of(int layer) const {
    std::vector<const ModelTensor*> found;
    for (const ModelTensor& tensor : setup_.tensors)
      if (tensor.layer == layer && mix_quantizes({tensor.name, tensor.shape})) found.push_back(&tensor);
    return found;
  }
  bool changes(size_t variant, int layer) const {
    return std::ranges::any_of(variants_[variant], [=](const auto& one) { return one.first->layer == layer; });
  }

  // The states before the first layer.
  void begin() {
    const auto embed = [&](States& states) {
      for (const std::span<const int32_t> chunk : text_.chunks) {
        states.emplace_back(chunk.size() * static_cast<size_t>(setup_.runner.width()));
        setup_.runner.embed(chunk, states.back().data());
      }
    };
    setup_.values.load(tensors_of(-1));
    setup_.runner.open_embedding();
    embed(clean_);
    for (size_t v = 0; v < variants_.size(); ++v) {
      if (!changes(v, -1)) continue;
      setup_.runner.open_embedding(setup_.values.lookup(variants_[v]));
      embed(states_[v]);
    }
  }

  void pass(int layer) {
    setup_.values.load(tensors_of(layer));
    const auto run = [&](States& states) {
      for (size_t c = 0; c < states.size(); ++c)
        setup_.runner.run(static_cast<int64_t>(text_.chunks[c].size()), states[c].data());
    };
    for (size_t v = 0; v < variants_.size(); ++v) {
      if (!changes(v, layer)) continue;
      if (states_[v].empty()) states_[v] = clean_;
      setup_.runner.open(layer, setup_.values.lookup(variants_[v]));
      run(states_[v]);
    }
    setup_.runner.open(layer, setup_.values.lookup({}));
    for (size_t v = 0; v < variants_.size(); ++v)
      if (!changes(v, layer)) run(states_[v]);
    run(clean_);
  }

  std::vector<double> end() {
    setup_.values.load(tensors_of(-1));
    setup_.runner.open_head(setup_.values.lookup({}));
    keep_teacher();
    std::vector<double> result(variants_.size(), 0.0);
    for (size_t v = 0; v < variants_.size(); ++v)
      if (!states_[v].empty() && !changes(v, -1)) result[v] = divergence(states_[v]);
    for (size_t v = 0; v < variants_.size(); ++v) {
      if (!changes(v, -1)) continue;
      setup_.runner.open_head(setup_.values.lookup(variants_[v]));
      result[v] = divergence(states_[v]);
    }
    if (setup_.progress) setup_.progress(1);
    return result;
  }

  // row(i, logits) of each scored row of all chunks, numbered; any thread.
  template <class F>
  void each_scored(const States& states, const F& row) {
    const std::span<const int32_t> scored(text_.scored);
    for (size_t c = 0; c < states.size(); ++c) {
      for (size_t at = 0; at < scored.size(); at += LayerRunner::kHeadRows) {
        const auto some = scored.subspan(at, std::min<size_t>(LayerRunner::kHeadRows, scored.size() - at));
        const Tensor& logits =
            setup_.runner.logits(static_cast<int64_t>(text_.chunks[c].size()), states[c].data(), some);
        const size_t first = c * scored.size() + at;
        setup_.pool.run(static_cast<int64_t>(some.size()), [&](int64_t i, int) {
          row(first + static_cast<size_t>(i), std::span<const float>(logits.f32(i), static_cast<size_t>(logits.cols)));
        });
      }
    }
  }

  void keep_teacher() {
    teacher_.resize(text_.chunks.size() * text_.scored.size() * static_cast<size_t>(setup_.runner.vocab()));
    each_scored(clean_, [&](size_t i, std::span<const float> logits) {
      log_probs(logits, teacher_.data() + i * logits.size());
    });
  }

  double divergence(const States& states) {
    std::vector<double> klds(text_.chunks.size() * text_.scored.size());
    each_scored(states, [&](size_t i, std::span<const float> logits) {
      klds[i] = token_divergence(std::span(teacher_).subspan(i * logits.size(), logits.size()), logits);
    });
    return std::accumulate(klds.begin(), klds.end(), 0.0) / static_cast<double>(klds.size());
  }

  const DivergenceSetup& setup_;
  const DivergenceText& text_;
  const std::vector<TensorFormats>& variants_;
  States clean_;
  std::vector<States> states_;  // of each variant; none: still the clean ones
  std::vector<float> teacher_;  // [chunks · scored, vocab] logarithms of probabilities
};

}  // namespace

std::vector<double> divergences(const DivergenceSetup& setup, const DivergenceText& text,
                                const std::vector<TensorFormats>& variants) {
  return Work(setup, text, variants).run();
}

}  // namespace ingot
