#include "compress/kv_calibration.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "compress/compare.h"

namespace ingot {
namespace {

constexpr int64_t kJudgedRows = 256;
constexpr int64_t kSampledOfChunk = 8;  // rows
constexpr size_t kSampledValues = size_t{1} << 16;

// Of int8 over a range of `scale`.
double squared_error(const std::vector<float>& values, float scale) {
  double sum = 0;
  for (const float x : values) {
    const float code = std::nearbyintf(std::clamp(x / scale, -127.0f, 127.0f));
    const double error = static_cast<double>(x) - static_cast<double>(code * scale);
    sum += error * error;
  }
  return sum;
}

}  // namespace

void KvCalibration::begin(LayerRunner& runner, const CalibrationText& text) {
  rows_ = std::min(text.chunk_rows, kJudgedRows);
  clean_.resize(static_cast<size_t>(rows_ * runner.width()));
  runner.embed(text.chunk(0).subspan(0, static_cast<size_t>(rows_)), clean_.data());
}

void KvCalibration::opened(LayerRunner& runner) {
  k_ = v_ = Side();
  runner.watch_kv([this](const KvLayer& kv, const Tensor& k, const Tensor& v, int64_t rows) {
    if (kv.latent) return;
    gather(k_, k, kv.kv_heads, kv.k_dim, rows);
    gather(v_, v, kv.kv_heads, kv.v_dim, rows);
  });
}

void KvCalibration::gather(Side& side, const Tensor& x, int kv_heads, int dim, int64_t rows) const {
  side.largest.resize(static_cast<size_t>(kv_heads));
  side.sample.resize(static_cast<size_t>(kv_heads));
  const int64_t step = std::max<int64_t>(1, rows / kSampledOfChunk);
  for (int64_t t = 0; t < rows; ++t) {
    for (int h = 0; h < kv_heads; ++h) {
      const auto i = static_cast<size_t>(h);
      const float* row = x.f32(t) + int64_t{h} * dim;
      for (int d = 0; d < dim; ++d) side.largest[i] = std::max(side.largest[i], std::abs(row[d]));
      const bool sampled = scales_.format == DType::kInt8 && t % step == 0 && side.sample[i].size() < kSampledValues;
      if (sampled) side.sample[i].insert(side.sample[i].end(), row, row + dim);
    }
  }
}

std::vector<float> KvCalibration::choose(const Side& side) const {
  std::vector<float> scales;
  for (size_t h = 0; h < side.largest.size(); ++h) {
    // A head that is zero everywhere has any scale; one above the least that files may hold.
    const float whole = std::max(side.largest[h] / kv_largest_code(scales_.format), 0x1p-90f);
    float best = side.largest[h] > 0 ? whole : 1.0f;
    double least = squared_error(side.sample[h], best);
    for (int step = 1; step <= 10 && scales_.format == DType::kInt8 && side.largest[h] > 0; ++step) {
      const float scale = whole * (1.0f - 0.05f * static_cast<float>(step));
      const double error = squared_error(side.sample[h], scale);
      if (error >= least) continue;
      least = error;
      best = scale;
    }
    scales.push_back(best);
  }
  return scales;
}

void KvCalibration::passed(LayerRunner& runner) {
  runner.watch_kv({});
  const std::vector<float> before = clean_;
  for (std::vector<float>& state : states_)
    if (!state.empty()) runner.run(rows_, state.data());
  runner.run(rows_, clean_.data());
  scales_.layers.push_back({.k = choose(k_), .v = choose(v_)});
  states_.emplace_back();
  const KvScales::Layer& layer = scales_.layers.back();
  if (layer.k.empty()) return;
  runner.set_kv(scales_.format, layer.k.data(), layer.v.data());
  states_.back() = before;
  runner.run(rows_, states_.back().data());
}

// Logits of the second half of the rows, one after another.
std::vector<float> KvCalibration::predictions(LayerRunner& runner, const std::vector<float>& state,
                                              ThreadPool& pool) const {
  const int64_t vocab = runner.vocab(), first = rows_ / 2;
  std::vector<float> result(static_cast<size_t>((rows_ - first) * vocab));
  for (int64_t at = first; at < rows_; at += LayerRunner::kHeadRows) {
    std::vector<int32_t> which(static_cast<size_t>(std::min<int64_t>(LayerRunner::kHeadRows, rows_ - at)));
    std::iota(which.begin(), which.end(), static_cast<int32_t>(at));
    const Tensor& logits = runner.logits(rows_, state.data(), which);
    pool.run(std::ssize(which),
             [&](int64_t i, int) { std::copy_n(logits.f32(i), vocab, result.data() + (at - first + i) * vocab); });
  }
  return result;
}

void KvCalibration::end(LayerRunner& runner, ThreadPool& pool) {
  const auto vocab = static_cast<size_t>(runner.vocab());
  std::vector<float> teacher = predictions(runner, clean_, pool);
  const auto n = static_cast<int64_t>(teacher.size() / vocab);
  pool.run(n, [&](int64_t i, int) {
    float* row = teacher.data() + static_cast<size_t>(i) * vocab;
    const std::vector<float> logits(row, row + vocab);
    log_probs(logits, row);
  });
  for (const std::vector<float>& state : states_) {
    if (state.empty()) {
      divergences_.push_back(0);
      continue;
    }
    const std::vector<float> own = predictions(runner, state, pool);
    std::vector<double> klds(static_cast<size_t>(n));
    pool.run(n, [&](int64_t i, int) {
      const size_t at = static_cast<size_t>(i) * vocab;
      klds[static_cast<size_t>(i)] =
          token_divergence(std::span(teacher).subspan(at, vocab), std::span(own).subspan(at, vocab));
    });
    divergences_.push_back(std::accumulate(klds.begin(), klds.end(), 0.0) / static_cast<double>(n));
  }
  states_.clear();
}

KvScales KvCalibration::scales(double bits) const {
  KvScales result = scales_;
  std::vector<size_t> order;
  for (size_t i = 0; i < result.layers.size(); ++i)
    if (!result.layers[i].k.empty()) order.push_back(i);
  if (order.empty()) throw Error("[kv] no layer of the model has a cache with scales");
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return divergences_[a] > divergences_[b]; });
  const auto kept = static_cast<size_t>(static_cast<double>(order.size()) * (bits - 8) / 8);
  for (size_t i = 0; i < std::min(kept, order.size()); ++i) result.layers[order[i]].keep = true;
  return result;
}

}  // namespace ingot
