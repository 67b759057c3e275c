#include "compress/fold/rotate.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compress/fold/graph_values.h"

namespace ingot {
namespace {

class Rotator {
 public:
  Rotator(const Model& model, uint64_t seed)
      : values_(model), seed_(seed), hidden_(std::make_shared<Rotation>(model.hp.hidden, seed)) {}

  std::shared_ptr<const Fold> fold() {
    for (size_t n = 0; n < values_.nodes().size(); ++n) visit(n);
    for (Node& node : values_.nodes())
      if (auto* attention = match<Attention>(node)) turn_heads(*attention);
    return fold_;
  }

 private:
  bool turned(const Tensor& t) const { return stream_.contains(t.value); }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error("[rotate] '{}' cannot be rotated: {}", values_.model().arch->name, why);
  }

  // The stream from the embedding on: what reads it, and what is added to it.
  void visit(size_t n) {
    Node& node = values_.nodes()[n];
    if (auto* embedding = match<Embedding>(node)) {
      turn_columns(values_.matrix(embedding->table), {});
      embedding_ = embedding->table.name;
      stream_.insert(embedding->out.value);
    } else if (auto* scale = match<Scale>(node); scale != nullptr && turned(scale->x)) {
      stream_.insert(scale->out.value);
    } else if (auto* gather = match<GatherRows>(node); gather != nullptr && turned(gather->x)) {
      stream_.insert(gather->out.value);
    } else if (auto* add = match<Add>(node); add != nullptr && (turned(add->a) || turned(add->b))) {
      if (!turned(add->a)) turn_writer(add->a);
      if (!turned(add->b)) turn_writer(add->b);
      stream_.insert(add->out.value);
    } else if (auto* norm = match<RmsNorm>(node); norm != nullptr && turned(norm->x)) {
      pass_norm(*norm);
    } else if (auto* linear = match<Linear>(node); linear != nullptr && turned(linear->x)) {
      turn_columns(values_.matrix(linear->parts[0].weight), {});
    } else {
      check_untouched(n);
    }
  }

  void check_untouched(size_t n) {
    struct Reads : TensorVisitor {
      std::vector<Tensor> read;
      void in(Tensor& t) { read.push_back(t); }
      void inout(Tensor& t) { read.push_back(t); }
    } reads;
    Node& node = values_.nodes()[n];
    each_tensor(node.op, reads);
    if (std::ranges::none_of(reads.read, [&](const Tensor& t) { return turned(t); })) return;
    refuse(fmt::format("'{}' ({}) reads the residual stream", node.label, op_name(node.op)));
  }

  // A matrix whose outputs are added to the stream.
  void turn_writer(const Tensor& t) {
    const std::optional<size_t> writer = values_.writer(t);
    if (!writer) refuse("something is added to the residual stream that no matrix gives");
    Node& node = values_.nodes()[*writer];
    if (auto* linear = match<Linear>(node)) {
      turn_rows(values_.matrix(linear->parts[0].weight, linear->parts[0].bias));
    } else if (auto* experts = match<ExpertLinear>(node); experts != nullptr && experts->out) {
      if (experts->parts[0].bias) refuse("its experts have biases");
      for (const Weight& weight : experts->parts[0].weights) turn_rows(values_.matrix(weight));
    } else if (auto* scale = match<Scale>(node)) {
      turn_writer(scale->x);
    } else if (auto* glu = match<Glu>(node); glu != nullptr && glu->gate.cols == 1) {
      turn_writer(glu->up);
    } else if (auto* add = match<Add>(node)) {
      turn_writer(add->a);
      turn_writer(add->b);
    } else {
      refuse(fmt::format("'{}' ({}) lies between a matrix and the residual stream", node.label, op_name(node.op)));
    }
  }

  // Its weights go into the columns of all that read it.
  void pass_norm(const RmsNorm& norm) {
    if (norm.width != norm.x.cols) refuse(fmt::format("'{}' norms parts of the residual stream", norm.weight.name));
    std::vector<float> factors(static_cast<size_t>(norm.width));
    norm.weight.decode_row(0, factors.data());
    if (values_.stored(norm.weight)) {
      TensorFold& fold = fold_->of({{.tensor = norm.weight.name}});
      fold.ones = true;
      fold.offset = values_.model().hp.norm_offset;
    }
    read_norm(norm.out, factors);
  }

  void read_norm(const Tensor& out, const std::vector<float>& factors) {
    for (const GraphValues::Reading& reading : values_.readers(out)) {
      Node& node = values_.nodes()[reading.node];
      if (auto* linear = match<Linear>(node)) {
        turn_columns(values_.matrix(linear->parts[0].weight), factors);
      } else if (auto* experts = match<ExpertLinear>(node); experts != nullptr && !experts->by_place()) {
        for (size_t p = 0; p < static_cast<size_t>(experts->n_parts); ++p)
          for (const Weight& weight : experts->parts[p].weights) turn_columns(values_.matrix(weight), factors);
      } else if (auto* gather = match<GatherRows>(node)) {
        read_norm(gather->out, factors);
      } else {
        refuse(fmt::format("'{}' ({}) reads a norm", node.label, op_name(node.op)));
      }
    }
  }

  void turn_columns(FoldMatrix matrix, const std::vector<float>& factors) {
    // The head of a model that is tied gets the norm's weights, the embedding does not.
    if (matrix.names[0].tensor == embedding_) {
      matrix.names = {{.tensor = "lm_head.weight"}};
      fold_->untie(embedding_);
    }
    TensorFold& fold = fold_->of(matrix.names);
    if (fold.right) return;  // q, k and v may be one stored matrix
    fold.cols = factors;
    fold.right = hidden_;
  }

  void turn_rows(const FoldMatrix& matrix) {
    TensorFold& fold = fold_->of(matrix.names);
    fold.left = hidden_;
    fold.left_first = matrix.first;
    fold.left_rows = matrix.weight.rows;
    if (!matrix.bias) return;
    if (matrix.stored_rows != matrix.weight.rows) refuse(fmt::format("'{}' is a part", matrix.bias.name));
    fold_->of({{.tensor = matrix.bias.name}}).right = hidden_;
  }

  // Values of a head are mixed where nobody but attention sees them.
  void turn_heads(const Attention& attention) {
    const KvWrite* write = values_.write_of(attention);
    if (attention.kv.latent || write == nullptr) return;
    const std::optional<size_t> writer = values_.writer(write->v);
    const auto seen = values_.readers(write->v);
    auto* linear = writer ? match<Linear>(values_.nodes()[*writer]) : nullptr;
    if (linear == nullptr || seen.size() != 1 || !same_tensor(seen[0].tensor, write->v)) return;
    const FoldMatrix v = values_.matrix(linear->parts[0].weight, linear->parts[0].bias);
    if (v.bias && v.stored_rows != write->v.cols) return;
    std::vector<FoldMatrix> readers;
    for (const GraphValues::Reading& reading : values_.readers(attention.out)) {
      auto* out = match<Linear>(values_.nodes()[reading.node]);
      if (out == nullptr || !same_tensor(reading.tensor, attention.out)) return;
      readers.push_back(values_.matrix(out->parts[0].weight));
    }
    const auto head = std::make_shared<Rotation>(attention.kv.v_dim, seed_ + 1);
    TensorFold& fold = fold_->of(v.names);
    fold.left = head;
    fold.left_first = v.first + write->v.offset / static_cast<int64_t>(sizeof(float));
    fold.left_rows = write->v.cols;
    if (v.bias) fold_->of({{.tensor = v.bias.name}}).right = head;
    for (const FoldMatrix& reader : readers) fold_->of(reader.names).right = head;
  }

  GraphValues values_;
  const uint64_t seed_;
  const std::shared_ptr<const Rotation> hidden_;
  const std::shared_ptr<Fold> fold_ = std::make_shared<Fold>();
  std::set<int32_t> stream_;  // values of the residual stream
  std::string embedding_;
};

}  // namespace

std::shared_ptr<const Fold> rotation_fold(const Model& model, uint64_t seed) { return Rotator(model, seed).fold(); }

}  // namespace ingot
