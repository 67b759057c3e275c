#include "compress/estimate.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "compress/input_sums.h"
#include "compress/layer_runner.h"
#include "quant/gptq.h"
#include "quant/gram.h"

namespace ingot {
namespace {

// Columns and rows of the small matrix: as many as keep the multipliers busy, and a tenth of a second.
constexpr int64_t kCols = 768, kRows = 64;

template <class F>
double seconds_of(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What XᵀX costs when its sums are there.
struct Unit {
  double factor = 0;  // seconds for each cols³ of an input
  double round = 0;   // for each rows · cols² of a matrix, of one thread
};

Unit measure_unit(ThreadPool& pool) {
  std::vector<float> h(static_cast<size_t>(kCols * kCols));
  for (int64_t i = 0; i < kCols; ++i)
    for (int64_t k = i; k < kCols; ++k)
      h[static_cast<size_t>(i * kCols + k)] = i == k ? 2.0f : 1.0f / static_cast<float>(kCols + k - i);
  constexpr auto kCubed = static_cast<double>(kCols * kCols * kCols);
  Unit unit;
  Feedback feedback;
  unit.factor = seconds_of([&] { feedback = make_feedback(std::move(h), kCols, {}, pool); }) / kCubed;
  std::vector<float> values(static_cast<size_t>(kRows * kCols));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 31) - 15.0f;
  const int64_t row_bytes = format_row_bytes(Format::kQ4_0, kCols);
  std::vector<std::byte> encoded(static_cast<size_t>(kRows * row_bytes));
  for (int64_t r = 0; r < kRows; ++r)
    format_encode(Format::kQ4_0, values.data() + r * kCols, encoded.data() + r * row_bytes, kCols);
  unit.round = seconds_of([&] { gptq_round(feedback, Format::kQ4_0, values, kRows, kCols, encoded); }) /
               static_cast<double>(kRows * kCols * kCols);
  return unit;
}

// Of one layer, when its sums are there.
double behind_sums(const std::vector<LayerInput>& inputs, const Model& model, const PlannedFormats& formats,
                   ThreadPool& pool) {
  const Unit unit = measure_unit(pool);
  double seconds = 0;
  for (const LayerInput& input : inputs) {
    const auto cols = static_cast<double>(input.cols);
    seconds += unit.factor * cols * cols * cols;
    for (const MatrixName& matrix : input.matrices) {
      const StoredWeight* stored = model.weights->source().find(matrix.tensor, {});
      if (stored == nullptr || stored->shape.size() < 2 || !formats.contains(matrix.tensor)) continue;
      const auto rows = static_cast<double>(stored->shape[stored->shape.size() - 2]);
      seconds += unit.round * rows * cols * cols / pool.threads();
    }
  }
  return seconds;
}

}  // namespace

double estimate_passes(const PassesSetup& setup, const PlannedFormats& formats) {
  const Model model = Model::load(setup.model, layer_options(static_cast<int>(setup.chunk_rows)));
  ThreadPool pool(setup.threads);
  LayerRunner runner(model, static_cast<int>(setup.chunk_rows), pool);
  std::vector<float> hidden(static_cast<size_t>(setup.chunk_rows * runner.width()));
  std::vector<int32_t> tokens(static_cast<size_t>(setup.chunk_rows));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(static_cast<int64_t>(i) % model.hp.vocab);
  runner.embed(tokens, hidden.data());
  // One of the middle: the first may have no experts.
  const double open = seconds_of([&] { runner.open(runner.layers() / 2); });
  std::vector<std::unique_ptr<Gram>> grams(runner.inputs().size());
  std::vector<InputSums> sums;
  for (const LayerInput& input : runner.inputs()) sums.emplace_back(input.cols);
  const InputTap tap = [&](size_t input, const float* x, int64_t rows, int64_t stride) {
    if (!setup.gptq) return sums[input].add(x, rows, stride, pool);
    if (grams[input] == nullptr) grams[input] = std::make_unique<Gram>(runner.inputs()[input].cols);
    grams[input]->add(x, rows, stride, pool);
  };
  double chunk = 0, behind = 0;
  if (setup.gptq) chunk = seconds_of([&] { runner.read_inputs(setup.chunk_rows, hidden.data(), tap); });
  chunk += seconds_of([&] { runner.run(setup.chunk_rows, hidden.data(), setup.gptq ? InputTap() : tap); });
  grams.clear();
  if (setup.gptq) behind = behind_sums(runner.inputs(), model, formats, pool);
  return runner.layers() * ((setup.gptq ? 2 : 1) * open + static_cast<double>(setup.chunks) * chunk + behind);
}

}  // namespace ingot
