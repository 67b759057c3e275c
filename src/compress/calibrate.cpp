#include "compress/calibrate.h"

#include <cmath>

#include "compress/hidden_file.h"
#include "compress/layer_runner.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

// Sums in double, made float at the end: 24 k squares of unlike sizes are added.
struct Sums {
  std::vector<double> squares;
  std::vector<float> largest;
  double rows = 0;

  void add(const float* x, int64_t n, int64_t stride, int64_t cols, ThreadPool& pool) {
    squares.resize(static_cast<size_t>(cols));
    largest.resize(static_cast<size_t>(cols));
    rows += static_cast<double>(n);
    // By columns, so that the order of additions is the same for any number of threads.
    constexpr int64_t kColumns = 64;
    const auto add_columns = [&](int64_t task, int) {
      const int64_t begin = task * kColumns, end = std::min(cols, begin + kColumns);
      for (int64_t t = 0; t < n; ++t) {
        const float* row = x + t * stride;
        for (int64_t k = begin; k < end; ++k) {
          const auto i = static_cast<size_t>(k);
          squares[i] += static_cast<double>(row[k]) * static_cast<double>(row[k]);
          largest[i] = std::max(largest[i], std::abs(row[k]));
        }
      }
    };
    pool.run((cols + kColumns - 1) / kColumns, add_columns);
  }
};

void put(const MatrixName& matrix, int experts, int64_t cols, const Sums& sums, Stats& stats) {
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

Stats calibrate(const CalibrateOptions& options, const CalibrationText& text) {
  const Model model = Model::load(options.model, layer_options(static_cast<int>(text.chunk_rows)));
  ThreadPool pool(options.threads);
  LayerRunner runner(model, static_cast<int>(text.chunk_rows), pool);
  HiddenFile states(options.scratch, "", text.chunks(), text.chunk_rows, runner.width());
  states.remove();  // it has no name from here on, and ends with this process
  std::vector<float> hidden(static_cast<size_t>(text.chunk_rows * runner.width()));
  for (int64_t c = 0; c < text.chunks(); ++c) {
    runner.embed(text.chunk(c), hidden.data());
    states.advance(hidden.data(), pool);
  }
  Stats stats;
  for (int layer = 0; layer < runner.layers(); ++layer) {
    runner.open(layer);
    std::vector<Sums> sums(runner.inputs().size());
    const InputTap tap = [&](size_t input, const float* x, int64_t rows, int64_t stride) {
      sums[input].add(x, rows, stride, runner.inputs()[input].cols, pool);
    };
    for (int64_t c = 0; c < text.chunks(); ++c) {
      states.load(c, hidden.data(), pool);
      runner.run(text.chunk_rows, hidden.data(), tap);
      states.advance(hidden.data(), pool);
      if (options.progress)
        options.progress(static_cast<double>(layer * text.chunks() + c + 1) /
                         static_cast<double>(runner.layers() * text.chunks()));
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const LayerInput& input = runner.inputs()[i];
      for (const MatrixName& matrix : input.matrices) put(matrix, input.experts, input.cols, sums[i], stats);
    }
  }
  stats.datasets = {text.dataset};
  stats.chunks = static_cast<uint32_t>(text.chunks());
  stats.chunk_rows = static_cast<uint32_t>(text.chunk_rows);
  stats.text_hash = text.hash;
  stats.model = model_fingerprint(*model.files, *model.arch);
  return stats;
}

}  // namespace ingot
