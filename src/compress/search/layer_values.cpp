#include "compress/search/layer_values.h"

#include <algorithm>

#include "base/check.h"

namespace ingot {
namespace {

constexpr int64_t kSlabValues = int64_t{1} << 16;
// Values of a tensor by which its error is known: of 96 k squares the sum is off by a hundredth or two.
constexpr int64_t kSampleValues = 96 * 1024;

// Rows of one matrix rounded in place.
void round_rows(const ModelTensor& tensor, Format format, const Importances& importances, const Rounder& rounder,
                int64_t first, std::span<float> values) {
  TensorJob job;
  job.name = tensor.canonical;
  job.layer = tensor.layer;
  job.expert = tensor.shape.size() > 2 ? static_cast<int>(first / tensor.expert_rows()) : -1;
  job.format = format;
  job.first_row = first % tensor.expert_rows();
  job.cols = tensor.cols();
  job.rows = static_cast<int64_t>(values.size()) / job.cols;
  job.values = values;
  if (importances) {
    const std::span<const float> found = importances(job.name, job.expert);
    if (static_cast<int64_t>(found.size()) == job.cols) job.importance = found.data();
  }
  std::vector<std::byte> codes(static_cast<size_t>(job.rows * job.row_bytes()));
  rounder.round(job, codes);
  for (int64_t r = 0; r < job.rows; ++r)
    format_decode(format, codes.data() + r * job.row_bytes(), values.data() + r * job.cols, job.cols);
}

}  // namespace

LayerValues::LayerValues(const Model& model, const Importances& importances, ThreadPool& pool)
    : model_(model), importances_(importances), pool_(pool) {}

void LayerValues::load(const std::vector<const ModelTensor*>& tensors) {
  tensors_ = tensors;
  values_.clear();
  for (const ModelTensor* tensor : tensors_) {
    if (tensor->rows() * tensor->cols() <= kOwnValues) values_[{tensor, {}}] = read(*tensor);
  }
}

std::vector<float> LayerValues::read(const ModelTensor& tensor) const {
  const RowReader reader = tensor.open();
  const int64_t rows = tensor.rows(), cols = tensor.cols(), slab = std::max<int64_t>(1, kSlabValues / cols);
  std::vector<float> values(static_cast<size_t>(rows * cols));
  pool_.run((rows + slab - 1) / slab, [&](int64_t task, int) {
    const int64_t first = task * slab;
    reader.read(first, std::min(slab, rows - first), values.data() + first * cols);
  });
  if (reader.done) reader.done();
  return values;
}

std::vector<float> LayerValues::rounded(const ModelTensor& tensor, Format format) const {
  const auto own = values_.find({&tensor, {}});
  std::vector<float> values = own != values_.end() ? own->second : read(tensor);
  const int64_t rows = tensor.rows(), cols = tensor.cols(), each = tensor.expert_rows();
  const int64_t slab = std::clamp<int64_t>(kSlabValues / cols, 1, each), slabs = (each + slab - 1) / slab;
  pool_.run(rows / each * slabs, [&](int64_t task, int) {
    const int64_t in_expert = task % slabs * slab, first = task / slabs * each + in_expert;
    const auto count = static_cast<size_t>(std::min(slab, each - in_expert) * cols);
    round_rows(tensor, format, importances_, *nearest_, first, {values.data() + first * cols, count});
  });
  return values;
}

EncodedMatrix LayerValues::matrix(const ModelTensor& tensor, const std::vector<float>& values, int expert) const {
  EncodedMatrix result{.format = Format::kF32, .rows = tensor.expert_rows(), .cols = tensor.cols(), .bytes = {}};
  const auto count = static_cast<size_t>(result.rows * result.cols);
  result.bytes = std::as_bytes(std::span(values).subspan(static_cast<size_t>(std::max(expert, 0)) * count, count));
  if (model_.arch->names.gguf_permuted_qk) {
    if (tensor.canonical.ends_with(".q_proj.weight")) result.head_rows = result.rows / model_.hp.heads;
    if (tensor.canonical.ends_with(".k_proj.weight")) result.head_rows = result.rows / model_.hp.kv_heads;
  }
  return result;
}

MatrixLookup LayerValues::lookup(const TensorFormats& formats) {
  std::map<std::string, std::pair<const ModelTensor*, const std::vector<float>*>> by_name;
  std::erase_if(values_, [&](const auto& entry) {
    const auto& [tensor, format] = entry.first;
    if (!format) return false;
    const auto wanted = formats.find(tensor);
    return wanted == formats.end() || wanted->second != *format;
  });
  for (const ModelTensor* tensor : tensors_) {
    Key key{tensor, {}};
    if (const auto wanted = formats.find(tensor); wanted != formats.end()) {
      key.second = wanted->second;
      if (!values_.contains(key)) values_[key] = rounded(*tensor, wanted->second);
    }
    if (const auto found = values_.find(key); found != values_.end())
      by_name[tensor->canonical] = {tensor, &found->second};
  }
  return [this, by_name = std::move(by_name)](const std::string& name, int expert) -> EncodedMatrix {
    const auto found = by_name.find(name);
    return found == by_name.end() ? EncodedMatrix{} : matrix(*found->second.first, *found->second.second, expert);
  };
}

double sampled_error(const ModelTensor& tensor, const RowReader& reader, Format format,
                     const Importances& importances) {
  const int64_t rows = tensor.rows(), cols = tensor.cols();
  const int64_t taken = std::clamp<int64_t>(kSampleValues / cols, 1, rows);
  const std::unique_ptr<Rounder> nearest = nearest_rounder();
  std::vector<float> own(static_cast<size_t>(cols)), left(static_cast<size_t>(cols));
  double sum = 0;
  for (int64_t i = 0; i < taken; ++i) {
    const int64_t row = i * rows / taken;
    reader.read(row, 1, own.data());
    left = own;
    round_rows(tensor, format, importances, *nearest, row, left);
    const int expert = tensor.shape.size() > 2 ? static_cast<int>(row / tensor.expert_rows()) : -1;
    std::span<const float> weights;
    if (importances) weights = importances(tensor.canonical, expert);
    const bool weighted = static_cast<int64_t>(weights.size()) == cols;
    for (size_t k = 0; k < own.size(); ++k) {
      const double error = static_cast<double>(left[k]) - static_cast<double>(own[k]);
      sum += error * error * (weighted ? static_cast<double>(weights[k]) : 1.0);
    }
  }
  return sum * static_cast<double>(rows) / static_cast<double>(taken);
}

}  // namespace ingot
