// A model's step as a flat list of ops in execution order, as build.h writes it and fuse() (fuse.h) changes it. After
// that nothing changes it: compile() (program.h) makes programs of it, which have nodes of their own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ops/kv_cache.h"
#include "ops/op_list.inc"  // every op's header, and INGOT_OPS(X): X(RmsNorm, rms_norm) …
#include "ops/packed.h"
#include "tensor/tensor.h"

namespace ingot {

namespace detail {
template <class, class... Ops>
using VariantOf = std::variant<Ops...>;
}
#define X(TYPE, NAME) , TYPE
using Op = detail::VariantOf<void INGOT_OPS(X)>;
#undef X

struct Node {
  Op op;
  std::string label;                      // what it computes in the model: "layers.3.self_attn.q_proj"
  std::vector<std::string_view> made_by;  // the fusion rules that made it, in order; empty when the model did
};

// An activation: the memory of one or more tensors.
struct Value {
  Rows rows;
  int64_t cols = 0;
  DType dtype = DType::kF32;
  bool keep = false;   // a named output: lives until the next step
  bool given = false;  // no node writes it: it is there before the body runs
};

struct Graph {
  std::vector<Node> nodes;
  // nodes[head_begin…] are the head: they read kept rows of the body and may run several times a step, for some
  // of the logit rows each.
  size_t head_begin = 0;
  std::vector<Value> values;
  std::vector<KvGroupSpec> kv_groups;
  std::map<std::string, Tensor> outputs;  // by name: "logits", "hidden.0" …
  // The weights as programs on the CPU read them, packed by the first that asks. A graph over the same weights may
  // share it.
  std::shared_ptr<PackedLayouts> packed = std::make_shared<PackedLayouts>();

  // A new activation of `rows` × `cols`.
  Tensor add_value(const Rows& rows, int64_t cols, DType dtype = DType::kF32);
};

// The name of the op's folder: "rms_norm".
std::string_view op_name(const Op& op);

// The node's op where it is a T, else null. For rules that know the op; general passes ask traits (traits.h).
template <class T>
T* match(Node& node) {
  return std::get_if<T>(&node.op);
}

// Some columns of a tensor.
Tensor columns(const Tensor& t, int64_t first, int64_t count);

// Whether both are the same view of the same value.
bool same_tensor(const Tensor& a, const Tensor& b);

// Calls f.in / f.out / f.inout / f.weight / f.alias for everything the node touches.
template <class F>
void each_tensor(Op& op, F&& f) {
  std::visit([&](auto& o) { o.each(f); }, op);
}

// A visitor for each_tensor() that ignores everything; derive and hide what is needed.
struct TensorVisitor {
  void in(Tensor&) {}
  void out(Tensor&) {}
  void inout(Tensor&) {}
  void weight(Weight&) {}
  void alias(Tensor& /*out*/, Tensor& /*in*/) {}
};

}  // namespace ingot
