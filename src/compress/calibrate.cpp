#include "compress/calibrate.h"

#include "compress/hidden_file.h"
#include "compress/input_sums.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

size_t expert_of(const LayerInput& input, const MatrixName& matrix) {
  return input.experts > 0 ? static_cast<size_t>(matrix.gguf_expert) : 0;
}

void put(const LayerInput& input, const InputSums& sums, Stats& stats) {
  count_rows(input, sums.rows, stats);
  for (const MatrixName& matrix : input.matrices) {
    if (matrix.gguf.empty()) continue;  // another name of the same
    InputStats& to = stats.tensors[matrix.gguf];
    const auto n = static_cast<size_t>(input.cols);
    const size_t at = expert_of(input, matrix) * n;
    to.squares.resize(to.counts.size() * n);
    to.largest.resize(to.counts.size() * n);
    for (size_t k = 0; k < sums.squares.size(); ++k) {
      to.squares[at + k] = static_cast<float>(sums.squares[k]);
      to.largest[at + k] = sums.largest[k];
    }
  }
}

}  // namespace

void count_rows(const LayerInput& input, double rows, Stats& stats) {
  for (const MatrixName& matrix : input.matrices) {
    if (matrix.gguf.empty()) continue;
    InputStats& to = stats.tensors[matrix.gguf];
    to.cols = input.cols;
    to.counts.resize(input.experts > 0 ? static_cast<size_t>(input.experts) : 1);
    to.counts[expert_of(input, matrix)] = static_cast<float>(rows);
  }
}

void pass_layers(const Model& model, const CalibrateOptions& options, const CalibrationText& text, ThreadPool& pool,
                 const LayerVisitor& visitor) {
  LayerRunner runner(model, static_cast<int>(text.chunk_rows), pool);
  const int passes = runner.layers() + (visitor.head ? 1 : 0);
  const auto report = [&](int layer, int64_t chunk) {
    if (options.progress)
      options.progress(static_cast<double>(layer * text.chunks() + chunk + 1) /
                       static_cast<double>(passes * text.chunks()));
  };
  HiddenFile states(options.scratch, "", text.chunks(), text.chunk_rows, runner.width());
  states.remove();  // it has no name from here on, and ends with this process
  std::vector<float> hidden(static_cast<size_t>(text.chunk_rows * runner.width()));
  for (int64_t c = 0; c < text.chunks(); ++c) {
    runner.embed(text.chunk(c), hidden.data());
    states.advance(hidden.data(), pool);
  }
  if (visitor.kv != nullptr) visitor.kv->begin(runner, text);
  for (int layer = 0; layer < runner.layers(); ++layer) {
    runner.open(layer);
    visitor.opened(runner.inputs());
    if (visitor.kv != nullptr) visitor.kv->opened(runner);
    for (int64_t c = 0; c < text.chunks(); ++c) {
      states.load(c, hidden.data(), pool);
      runner.run(text.chunk_rows, hidden.data(), visitor.tap);
      states.advance(hidden.data(), pool);
      report(layer, c);
    }
    visitor.passed(runner.inputs());
    if (visitor.kv != nullptr) visitor.kv->passed(runner);
  }
  if (!visitor.head) return;
  runner.open_head();
  visitor.opened(runner.inputs());
  for (int64_t c = 0; c < text.chunks(); ++c) {
    states.load(c, hidden.data(), pool);
    runner.read_head_inputs(text.chunk_rows, hidden.data(), visitor.tap);
    report(runner.layers(), c);
  }
  visitor.passed(runner.inputs());
  if (visitor.kv != nullptr) visitor.kv->end(runner, pool);
}

Stats calibrate(const CalibrateOptions& options, const CalibrationText& text) {
  const Model model = Model::load(options.model, layer_options(static_cast<int>(text.chunk_rows)));
  ThreadPool pool(options.threads);
  Stats stats;
  std::vector<InputSums> sums;
  std::optional<KvCalibration> kv;
  if (options.kv) kv.emplace(*options.kv);
  const LayerVisitor visitor{
      .opened =
          [&](const std::vector<LayerInput>& inputs) {
            sums.clear();
            for (const LayerInput& input : inputs) sums.emplace_back(input.cols);
          },
      .tap = [&](size_t input, const float* x, int64_t rows,
                 int64_t stride) { sums[input].add(x, rows, stride, pool); },
      .passed =
          [&](const std::vector<LayerInput>& inputs) {
            for (size_t i = 0; i < sums.size(); ++i) put(inputs[i], sums[i], stats);
          },
      .head = true,
      .kv = kv ? &*kv : nullptr,
  };
  pass_layers(model, options, text, pool, visitor);
  if (kv) stats.kv = std::make_shared<const KvScales>(kv->scales(options.kv_bits));
  if (kv) stats.kv_divergences = kv->divergences();
  stats.datasets = {text.dataset};
  stats.chunks = static_cast<uint32_t>(text.chunks());
  stats.chunk_rows = static_cast<uint32_t>(text.chunk_rows);
  stats.text_hash = text.hash;
  stats.model = model_fingerprint(*model.files, *model.arch);
  return stats;
}

}  // namespace ingot
