#include "compress/calibrate.h"

#include "compress/hidden_file.h"
#include "compress/input_sums.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

void put(const MatrixName& matrix, int experts, int64_t cols, const InputSums& sums, Stats& stats) {
  if (matrix.gguf.empty()) return;  // another name of the same
  InputStats& to = stats.tensors[matrix.gguf];
  const size_t count = experts > 0 ? static_cast<size_t>(experts) : 1,
               at = experts > 0 ? static_cast<size_t>(matrix.gguf_expert) : 0;
  const auto n = static_cast<size_t>(cols);
  to.cols = cols;
  to.squares.resize(count * n);
  to.largest.resize(count * n);
  to.counts.resize(count);
  to.counts[at] = static_cast<float>(sums.rows);
  for (size_t k = 0; k < sums.squares.size(); ++k) {
    to.squares[at * n + k] = static_cast<float>(sums.squares[k]);
    to.largest[at * n + k] = sums.largest[k];
  }
}

}  // namespace

void pass_layers(const Model& model, const CalibrateOptions& options, const CalibrationText& text, ThreadPool& pool,
                 const LayerVisitor& visitor) {
  LayerRunner runner(model, static_cast<int>(text.chunk_rows), pool);
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
      if (options.progress)
        options.progress(static_cast<double>(layer * text.chunks() + c + 1) /
                         static_cast<double>(runner.layers() * text.chunks()));
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
            for (size_t i = 0; i < sums.size(); ++i)
              for (const MatrixName& matrix : inputs[i].matrices)
                put(matrix, inputs[i].experts, inputs[i].cols, sums[i], stats);
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
