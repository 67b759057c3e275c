#include "compress/fold/scale_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compress/fold/scale_groups.h"
#include "compress/input_sums.h"
#include "quant/channel_scales.h"

namespace ingot {
namespace {

constexpr int64_t kSampleRows = 128;  // of x, at least
constexpr int64_t kWeightRows = 256;  // of a group's matrices, together
constexpr int kAwqSteps = 20;         // powers 0, 1/20 … 1
constexpr float kSmoothShare = 0.5f;

// Rows spread evenly over all that come, however many: when it is full every other one is dropped.
class RowSample {
 public:
  void add(const float* x, int64_t rows, int64_t stride, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r, ++met_) {
      if (met_ % every_ != 0) continue;
      if (count_ == 2 * kSampleRows) thin(cols);
      if (met_ % every_ != 0) continue;
      kept_.insert(kept_.end(), x + r * stride, x + r * stride + cols);
      ++count_;
    }
  }
  std::span<const float> rows() const { return kept_; }
  int64_t count() const { return count_; }

 private:
  void thin(int64_t cols) {
    for (int64_t i = 0; i < kSampleRows; ++i) std::copy_n(kept_.begin() + 2 * i * cols, cols, kept_.begin() + i * cols);
    kept_.resize(static_cast<size_t>(kSampleRows * cols));
    count_ = kSampleRows;
    every_ *= 2;
  }
  std::vector<float> kept_;
  int64_t met_ = 0, every_ = 1, count_ = 0;
};

struct Input {
  explicit Input(int64_t cols) : sums(cols) {}
  InputSums sums;
  RowSample sample;
};

// A row of one of a group's matrices, and how it is rounded.
struct WeightRow {
  const FoldMatrix* matrix;
  int64_t row;
  PlannedFormat to;
};

struct Candidate {
  std::vector<float> scales;   // [channels]
  std::vector<float> columns;  // [cols]
  std::vector<float> x;        // [cols, samples] scaled and rounded; empty: as it is, divided by the columns' factors
};

// [rows, cols] → [cols, rows].
std::vector<float> turned(std::span<const float> x, int64_t rows, int64_t cols) {
  std::vector<float> out(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < cols; ++k) out[static_cast<size_t>(k * rows + r)] = x[static_cast<size_t>(r * cols + k)];
  return out;
}

class GroupSearch {
 public:
  GroupSearch(const ScaleGroup& group, const Input& input, const PlannedFormats& formats)
      : group_(group), input_(input), cols_(static_cast<int64_t>(group.channel.size())) {
    const double rows = std::max(1.0, input.sums.rows);
    for (const double v : input.sums.squares) squares_.push_back(static_cast<float>(v / rows));
    choose_rows(formats);
  }

  // The scales of least error. Empty: none is better than 1.
  std::vector<float> search(ScaleMethod method, ThreadPool& pool) {
    if (rows_.empty() || input_.sample.count() == 0) return {};
    std::vector<Candidate> candidates;
    if (method == ScaleMethod::kAwq) {
      const std::vector<float> mean = by_channel(input_.sums.magnitudes);
      for (int i = 0; i <= kAwqSteps; ++i)
        candidates.push_back(candidate(awq_scales(mean, static_cast<float>(i) / kAwqSteps), false));
    } else {
      candidates.push_back(candidate(std::vector<float>(static_cast<size_t>(group_.channels), 1.0f), true));
      candidates.push_back(
          candidate(smooth_scales(by_channel(input_.sums.largest), largest_weights(), kSmoothShare), true));
    }
    const std::vector<double> errors = errors_of(candidates, pool);
    const auto best = static_cast<size_t>(std::ranges::min_element(errors) - errors.begin());
    return best == 0 ? std::vector<float>{} : candidates[best].scales;
  }

 private:
  void choose_rows(const PlannedFormats& formats) {
    std::vector<std::pair<const FoldMatrix*, PlannedFormat>> matrices;
    for (const FoldMatrix& matrix : group_.readers) {
      for (const MatrixName& name : matrix.names) {
        const auto to = formats.find(name.tensor);
        if (to == formats.end()) continue;
        matrices.emplace_back(&matrix, to->second);
        break;
      }
    }
    for (const auto& [matrix, to] : matrices) {
      const int64_t all = matrix->weight.rows;
      const int64_t n = std::clamp<int64_t>(kWeightRows / static_cast<int64_t>(matrices.size()), 1, all);
      for (int64_t i = 0; i < n; ++i) rows_.push_back({matrix, i * all / n, to});
    }
  }

  // Of columns that share a channel the largest counts.
  template <class T>
  std::vector<float> by_channel(const std::vector<T>& columns) const {
    std::vector<float> channels(static_cast<size_t>(group_.channels));
    for (size_t k = 0; k < columns.size(); ++k) {
      float& to = channels[static_cast<size_t>(group_.channel[k])];
      to = std::max(to, static_cast<float>(columns[k]));
    }
    return channels;
  }

  // Of all rows, not of the sample: what is largest decides.
  std::vector<float> largest_weights() const {
    std::vector<float> largest(static_cast<size_t>(cols_)), row(largest.size());
    for (const FoldMatrix& matrix : group_.readers) {
      for (int64_t r = 0; r < matrix.weight.rows; ++r) {
        matrix.weight.decode_row(r, row.data());
        for (size_t k = 0; k < row.size(); ++k) largest[k] = std::max(largest[k], std::abs(row[k]));
      }
    }
    return by_channel(largest);
  }

  Candidate candidate(std::vector<float> scales, bool rounds_x) const {
    Candidate made{.scales = std::move(scales), .columns = {}, .x = {}};
    for (const int32_t c : group_.channel) made.columns.push_back(made.scales[static_cast<size_t>(c)]);
    if (!rounds_x) return made;
    const std::span<const float> rows = input_.sample.rows();
    std::vector<float> x(rows.begin(), rows.end());
    for (size_t i = 0; i < x.size(); ++i) x[i] /= made.columns[i % made.columns.size()];
    round_rows_int8(x, input_.sample.count(), cols_);
    made.x = turned(x, input_.sample.count(), cols_);
    return made;
  }

  std::vector<double> errors_of(const std::vector<Candidate>& candidates, ThreadPool& pool) const {
    const std::vector<float> x = turned(input_.sample.rows(), input_.sample.count(), cols_);
    std::vector<std::vector<double>> of_rows(rows_.size(), std::vector<double>(candidates.size()));
    pool.run(static_cast<int64_t>(rows_.size()), [&](int64_t i, int) {
      const WeightRow& row = rows_[static_cast<size_t>(i)];
      std::vector<float> w(static_cast<size_t>(cols_));
      row.matrix->weight.decode_row(row.row, w.data());
      for (size_t c = 0; c < candidates.size(); ++c)
        of_rows[static_cast<size_t>(i)][c] = row_error(row, w, candidates[c], x);
    });
    // In the order of rows, whatever threads there were.
    std::vector<double> errors(candidates.size());
    for (const std::vector<double>& row : of_rows)
      for (size_t c = 0; c < row.size(); ++c) errors[c] += row[c];
    return errors;
  }

  double row_error(const WeightRow& row, std::span<const float> w, const Candidate& candidate,
                   std::span<const float> x) const {
    std::vector<float> scaled(w.begin(), w.end()), importance = squares_, decoded(w.size());
    for (size_t k = 0; k < scaled.size(); ++k) {
      scaled[k] *= candidate.columns[k];
      importance[k] /= candidate.columns[k] * candidate.columns[k];
    }
    TensorJob job;
    job.format = row.to.format;
    job.rows = 1;
    job.cols = cols_;
    job.values = scaled;
    job.importance = importance.data();
    job.group = row.to.group;
    std::vector<std::byte> encoded(static_cast<size_t>(job.row_bytes()));
    nearest_->round(job, encoded);
    const int64_t segment = job.segment(), bytes = format_row_bytes(job.format, segment);
    for (int64_t k = 0; k < cols_; k += segment)
      format_decode(job.format, encoded.data() + k / segment * bytes, decoded.data() + k, segment);
    std::vector<float> difference(static_cast<size_t>(input_.sample.count()));
    if (candidate.x.empty()) {
      for (size_t k = 0; k < decoded.size(); ++k) decoded[k] = decoded[k] / candidate.columns[k] - w[k];
      add_products(decoded, x, difference);
    } else {
      for (size_t k = 0; k < scaled.size(); ++k) scaled[k] = -w[k];
      add_products(decoded, candidate.x, difference);
      add_products(scaled, x, difference);
    }
    double error = 0;
    for (const float d : difference) error += static_cast<double>(d) * static_cast<double>(d);
    return error;
  }

  const ScaleGroup& group_;
  const Input& input_;
  const int64_t cols_;
  std::vector<float> squares_;  // [cols] means
  std::vector<WeightRow> rows_;
  const std::unique_ptr<Rounder> nearest_ = nearest_rounder();
};

using ByName = std::map<std::pair<std::string, int>, std::vector<float>>;

class Searcher {
 public:
  Searcher(ScaleMethod method, const Model& model, const PlannedFormats& formats, ThreadPool& pool)
      : method_(method), model_(model), formats_(formats), pool_(pool) {
    for (ScaleGroup& group : find_scale_groups(model, method == ScaleMethod::kAwq ? "awq" : "smooth")) {
      const std::string key = key_of(group.readers[0].names[0]);
      groups_.emplace(key, std::move(group));
    }
    result_.groups = static_cast<int>(groups_.size());
  }

  void open(const std::vector<LayerInput>& inputs) {
    inputs_.clear();
    for (const LayerInput& input : inputs) inputs_.emplace_back(input.cols);
  }

  void tap(size_t input, const float* x, int64_t rows, int64_t stride) {
    Input& to = inputs_[input];
    to.sums.add(x, rows, stride, pool_);
    to.sample.add(x, rows, stride, static_cast<int64_t>(to.sums.squares.size()));
  }

  void pass(const std::vector<LayerInput>& inputs) {
    std::map<std::string, std::vector<float>> columns;  // factors of this layer's matrices
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ScaleGroup* group = group_of(inputs[i]);
      if (group == nullptr) continue;
      std::vector<float> scales = GroupSearch(*group, inputs_[i], formats_).search(method_, pool_);
      if (scales.empty()) continue;
      fold_scales(*group, model_, scales, *fold_);
      ++result_.scaled;
      for (const FoldMatrix& reader : group->readers) {
        std::vector<float>& factors = columns[key_of(reader.names[0])];
        factors.clear();
        for (const int32_t c : group->channel) factors.push_back(scales[static_cast<size_t>(c)]);
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i) count_rows(inputs[i], inputs_[i].sums.rows, counts_);
    for (size_t i = 0; i < inputs.size(); ++i) keep_importances(inputs[i], inputs_[i].sums, columns);
  }

  ScaledModel take() {
    result_.fold = fold_;
    result_.hardly_met = counts_.hardly_met();
    result_.importances = [kept = kept_](std::string_view name, int expert) -> std::span<const float> {
      const auto known = kept->find(std::pair(std::string(name), expert));
      return known == kept->end() ? std::span<const float>{} : known->second;
    };
    return std::move(result_);
  }

 private:
  static std::string key_of(const MatrixName& name) { return name.tensor + "#" + std::to_string(name.expert); }

  const ScaleGroup* group_of(const LayerInput& input) const {
    for (const MatrixName& name : input.matrices)
      if (const auto known = groups_.find(key_of(name)); known != groups_.end()) return &known->second;
    return nullptr;
  }

  // What a matrix reads is divided by its columns' factors.
  void keep_importances(const LayerInput& input, const InputSums& sums,
                        const std::map<std::string, std::vector<float>>& columns) {
    if (sums.rows == 0) return;
    const std::vector<float>* factors = nullptr;
    for (const MatrixName& name : input.matrices)
      if (const auto known = columns.find(key_of(name)); known != columns.end()) factors = &known->second;
    std::vector<float> means;
    for (size_t k = 0; k < sums.squares.size(); ++k) {
      const auto f = factors != nullptr ? static_cast<double>((*factors)[k]) : 1.0;
      means.push_back(static_cast<float>(sums.squares[k] / sums.rows / (f * f)));
    }
    for (const MatrixName& name : input.matrices) kept_->emplace(std::pair(name.tensor, name.expert), means);
  }

  const ScaleMethod method_;
  const Model& model_;
  const PlannedFormats& formats_;
  ThreadPool& pool_;
  std::map<std::string, ScaleGroup> groups_;  // by their first reader
  std::vector<Input> inputs_;                 // of the open layer
  const std::shared_ptr<Fold> fold_ = std::make_shared<Fold>();
  const std::shared_ptr<ByName> kept_ = std::make_shared<ByName>();
  Stats counts_;  // of rows alone
  ScaledModel result_;
};

}  // namespace

ScaledModel search_scales(ScaleMethod method, const CalibrateOptions& options, const CalibrationText& text,
                          const PlannedFormats& formats) {
  const Model model = Model::load(options.model, layer_options(static_cast<int>(text.chunk_rows)));
  ThreadPool pool(options.threads);
  Searcher searcher(method, model, formats, pool);
  const LayerVisitor visitor{
      .opened = [&](const std::vector<LayerInput>& inputs) { searcher.open(inputs); },
      .tap = [&](size_t input, const float* x, int64_t rows, int64_t stride) { searcher.tap(input, x, rows, stride); },
      .passed = [&](const std::vector<LayerInput>& inputs) { searcher.pass(inputs); },
  };
  pass_layers(model, options, text, pool, visitor);
  return searcher.take();
}

}  // namespace ingot
