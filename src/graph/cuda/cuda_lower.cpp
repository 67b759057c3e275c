#include "graph/cuda/cuda_lower.h"

#include <utility>
#include <vector>

namespace ingot::cuda {
namespace {

bool is_bf16(const Linear& op) {
  for (int p = 0; p < op.n_parts; ++p) {
    if (op.parts[static_cast<size_t>(p)].weight.format != Format::kBF16) return false;
  }
  return true;
}

// Whether each value may be bf16: every use of it says yes.
class Uses : public TensorVisitor {
 public:
  explicit Uses(size_t values) : may_(values, 1), used_(values, 0) {}

  void look(Node& node) {
    yes_.clear();
    if (auto* linear = std::get_if<Linear>(&node.op)) {
      look_at(*linear);
    } else if (auto* attention = std::get_if<Attention>(&node.op)) {
      yes_ = {attention->out.value};
      if (attention->kv.dtype == DType::kBF16) yes_.push_back(attention->q.value);
    } else if (auto* gather = std::get_if<GatherRows>(&node.op)) {
      yes_ = {gather->x.value, gather->out.value};
      gathers_.emplace_back(gather->x.value, gather->out.value);
    }
    each_tensor(node.op, *this);
  }
  void in(Tensor& t) { use(t); }
  void out(Tensor& t) { use(t); }
  void inout(Tensor& t) { use(t); }
  // What is gathered is no more exact than what it is gathered for.
  void finish() {
    for (const auto& [x, out] : gathers_) may_[static_cast<size_t>(x)] &= may_[static_cast<size_t>(out)];
  }
  bool result(size_t value) const { return may_[value] && used_[value]; }

 private:
  void look_at(const Linear& op) {
    if (!is_bf16(op)) return;
    if (!op.input) yes_.push_back(op.x.value);
    // With heads that is q alone: k and v go into the cache. A residual is of the stream, and so is what it gives.
    const bool own = op.heads || op.is_glu() || op.n_parts == 1;
    if (own && !op.residual) yes_.push_back(op.parts[0].out.value);
  }
  void use(const Tensor& t) {
    const auto value = static_cast<size_t>(t.value);
    bool yes = false;
    for (const int32_t v : yes_) yes |= v == t.value;
    may_[value] = static_cast<char>(may_[value] && yes);
    used_[value] = 1;
  }

  std::vector<char> may_, used_;
  std::vector<int32_t> yes_;
  std::vector<std::pair<int32_t, int32_t>> gathers_;
};

struct Setter : TensorVisitor {
  const std::vector<Value>& values;
  explicit Setter(const std::vector<Value>& v) : values(v) {}

  // Offsets count bytes: a view of later columns moves with the size of an element.
  void set(Tensor& t) {
    const DType dtype = values[static_cast<size_t>(t.value)].dtype;
    t.offset = t.offset / dtype_bytes(t.dtype) * dtype_bytes(dtype);
    t.dtype = dtype;
  }
  void in(Tensor& t) { set(t); }
  void out(Tensor& t) { set(t); }
  void inout(Tensor& t) { set(t); }
};

void set_all(Graph& graph) {
  Setter setter(graph.values);
  for (Node& node : graph.nodes) each_tensor(node.op, setter);
}

}  // namespace

LoweredTypes::LoweredTypes(Graph& graph) : graph_(graph) {
  Uses uses(graph.values.size());
  for (Node& node : graph.nodes) uses.look(node);
  uses.finish();
  for (size_t v = 0; v < graph.values.size(); ++v) {
    Value& value = graph.values[v];
    if (!uses.result(v) || value.keep || value.dtype != DType::kF32) continue;
    value.dtype = DType::kBF16;
    ++count_;
  }
  set_all(graph);
}

LoweredTypes::~LoweredTypes() {
  for (Value& value : graph_.values) {
    if (value.dtype == DType::kBF16) value.dtype = DType::kF32;
  }
  set_all(graph_);
}

}  // namespace ingot::cuda
