#include "compress/fold/graph_values.h"

#include <algorithm>

#include "base/error.h"

namespace ingot {
namespace {

struct Visitor : TensorVisitor {
  std::vector<Tensor> read, written;
  void in(Tensor& t) { read.push_back(t); }
  void out(Tensor& t) { written.push_back(t); }
  void inout(Tensor& t) { read.push_back(t); }
};

int64_t first_column(const Tensor& t) { return t.offset / static_cast<int64_t>(sizeof(float)); }

bool overlap(const Tensor& a, const Tensor& b) {
  return first_column(a) < first_column(b) + b.cols && first_column(b) < first_column(a) + a.cols;
}

bool same_cache(const KvLayer& a, const KvLayer& b) { return a.group == b.group && a.index == b.index; }

}  // namespace

GraphValues::GraphValues(const Model& model)
    : model_(model), nodes_(model.graph.nodes), readers_(model.graph.values.size()), writers_(readers_.size()) {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Visitor visitor;
    each_tensor(nodes_[n].op, visitor);
    for (const Tensor& t : visitor.read) readers_[static_cast<size_t>(t.value)].push_back({n, t});
    for (const Tensor& t : visitor.written) writers_[static_cast<size_t>(t.value)] = n;
  }
}

std::optional<size_t> GraphValues::writer(const Tensor& t) const { return writers_[static_cast<size_t>(t.value)]; }

std::vector<GraphValues::Reading> GraphValues::readers(const Tensor& t) const {
  std::vector<Reading> found;
  for (const Reading& reading : readers_[static_cast<size_t>(t.value)])
    if (overlap(reading.tensor, t)) found.push_back(reading);
  return found;
}

bool GraphValues::only_reader(const Tensor& t, size_t node) const {
  return std::ranges::all_of(readers(t), [&](const Reading& r) { return r.node == node && same_tensor(r.tensor, t); });
}

KvWrite* GraphValues::write_of(const Attention& attention) {
  for (Node& node : nodes_)
    if (auto* op = match<KvWrite>(node); op != nullptr && same_cache(op->kv, attention.kv)) return op;
  return nullptr;
}

FoldMatrix GraphValues::matrix(const Weight& weight, const Weight& bias) const {
  FoldMatrix matrix{.names = matrix_names(weight.name), .weight = weight, .bias = bias, .stored_rows = weight.rows};
  const MatrixName& name = matrix.names[0];
  const StoredWeight* stored = model_.weights->source().find(name.tensor, {});
  if (stored == nullptr || stored->shape.size() != (name.expert < 0 ? 2u : 3u))
    throw Error("[fold] '{}' is no matrix of its own in the files: nothing can be folded into it", weight.name);
  const int64_t rows = stored->shape[stored->shape.size() - 2], cols = stored->shape.back();
  if (rows == weight.rows || (cols == weight.rows && name.expert < 0)) return matrix;  // all, perhaps transposed
  const int64_t at = weight.data - stored->data - std::max(name.expert, 0) * rows * weight.row_bytes;
  matrix.stored_rows = rows;
  matrix.first = at / weight.row_bytes;
  if (at < 0 || at % weight.row_bytes != 0 || matrix.first + weight.rows > rows || cols != weight.cols)
    throw Error("[fold] '{}': its rows do not lie together in the files", weight.name);
  return matrix;
}

}  // namespace ingot
