#include "compress/fold/fold.h"

#include <algorithm>

#include "base/error.h"

namespace ingot {
namespace {

void check_shape(const ModelTensor& tensor, const TensorFold& fold) {
  const auto fits = [](size_t given, int64_t wanted) { return given == 0 || static_cast<int64_t>(given) == wanted; };
  const bool rotates = !fold.right || tensor.cols() % fold.right->size() == 0;
  const bool turns = !fold.left || (fold.left_rows % fold.left->size() == 0 &&
                                    fold.left_first + fold.left_rows <= tensor.expert_rows());
  if (!fits(fold.cols.size(), tensor.cols()) || !fits(fold.rows.size(), tensor.expert_rows()) || !rotates || !turns)
    throw Error("[fold] '{}' is stored in another form than the model reads it: nothing can be folded into it",
                tensor.name);
}

// Row `row` of its matrix, all but what mixes rows.
void change_row(const TensorFold& fold, int64_t row, float offset, std::span<float> x) {
  if (fold.ones) std::ranges::fill(x, 1 - offset);
  for (size_t k = 0; k < fold.cols.size(); ++k) x[k] = (x[k] + offset) * fold.cols[k] - offset;
  if (!fold.rows.empty())
    for (float& v : x) v *= fold.rows[static_cast<size_t>(row)];
  if (fold.right)
    for (size_t k = 0; k < x.size(); k += static_cast<size_t>(fold.right->size())) fold.right->row(x.data() + k);
}

struct Changed {
  std::vector<const TensorFold*> parts;  // of each expert; null: none
  int64_t rows = 0, cols = 0;            // of one
  bool offsets = false;

  void read(const RowReader& from, int64_t first, int64_t count, float* out) const {
    from.read(first, count, out);
    for (int64_t r = 0; r < count; ++r) {
      const TensorFold* fold = parts[static_cast<size_t>((first + r) / rows)];
      if (fold == nullptr) continue;
      change_row(*fold, (first + r) % rows, offsets ? fold->offset : 0.0f, {out + r * cols, static_cast<size_t>(cols)});
    }
  }

  bool mixes_rows() const {
    return std::ranges::any_of(parts, [](const TensorFold* fold) { return fold != nullptr && fold->left; });
  }

  // All of the tensor: rows that are mixed with each other must be there together.
  std::vector<float> read_all(const RowReader& from) const {
    const auto all = static_cast<int64_t>(parts.size()) * rows;
    std::vector<float> values(static_cast<size_t>(all * cols));
    read(from, 0, all, values.data());
    for (size_t e = 0; e < parts.size(); ++e) {
      const TensorFold* fold = parts[e];
      if (fold == nullptr || !fold->left) continue;
      float* begin = values.data() + (static_cast<int64_t>(e) * rows + fold->left_first) * cols;
      for (int64_t r = 0; r < fold->left_rows; r += fold->left->size())
        fold->left->columns(begin + r * cols, cols, cols);
    }
    return values;
  }
};

RowReader changed_reader(RowReader from, const std::shared_ptr<const Changed>& changed) {
  RowReader reader;
  reader.done = from.done;
  if (!changed->mixes_rows()) {
    reader.read = [from = std::move(from), changed](int64_t first, int64_t rows, float* out) {
      changed->read(from, first, rows, out);
    };
    return reader;
  }
  auto values = std::make_shared<const std::vector<float>>(changed->read_all(from));
  reader.read = [values, cols = changed->cols](int64_t first, int64_t rows, float* out) {
    std::copy_n(values->begin() + first * cols, rows * cols, out);
  };
  return reader;
}

}  // namespace

TensorFold& Fold::of(const std::vector<MatrixName>& names) {
  const auto [known, added] = index_.emplace(std::pair(names[0].tensor, names[0].expert), folds_.size());
  if (added) {
    folds_.emplace_back();
    names_.push_back(names[0].tensor);
    for (const MatrixName& name : names) index_.emplace(std::pair(name.tensor, name.expert), known->second);
  }
  return folds_[known->second];
}

void Fold::apply(std::vector<ModelTensor>& tensors, bool offsets, const std::string& head) const {
  if (unties()) {
    const auto embedding = std::ranges::find(tensors, untied_, &ModelTensor::canonical);
    if (embedding == tensors.end()) throw Error("[fold] '{}' is not in the files", untied_);
    ModelTensor copy = *embedding;
    copy.name = head;
    copy.canonical = "lm_head.weight";
    copy.stored_bytes = 0;                                                                         // the embedding's
    std::erase_if(tensors, [](const ModelTensor& t) { return t.canonical == "lm_head.weight"; });  // nobody read it
    tensors.push_back(std::move(copy));
  }
  std::vector<bool> met(folds_.size());
  for (ModelTensor& tensor : tensors) {
    auto changed = std::make_shared<Changed>();
    changed->rows = tensor.expert_rows();
    changed->cols = tensor.cols();
    changed->offsets = offsets;
    const bool stack = tensor.shape.size() > 2;
    bool any = false;
    for (int64_t e = 0; e < tensor.rows() / std::max<int64_t>(1, changed->rows); ++e) {
      const auto known = index_.find({tensor.canonical, stack ? static_cast<int>(e) : -1});
      changed->parts.push_back(known == index_.end() ? nullptr : &folds_[known->second]);
      if (known == index_.end()) continue;
      any = met[known->second] = true;
      check_shape(tensor, folds_[known->second]);
    }
    if (!any) continue;
    tensor.changed = true;
    tensor.open = [open = tensor.open, changed] { return changed_reader(open(), changed); };
  }
  for (size_t i = 0; i < met.size(); ++i)
    if (!met[i])
      throw Error("[fold] '{}' is no tensor of its own in the files: nothing can be folded into it", names_[i]);
}

}  // namespace ingot
