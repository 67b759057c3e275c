#include "graph/lower.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/traits.h"

namespace ingot {
namespace {

// Whether each value may be bf16: every use of it says yes.
class Uses : public TensorVisitor {
 public:
  explicit Uses(const std::vector<Value>& values) : used_(values.size(), 0) {
    for (const Value& value : values) may_.push_back(!value.keep && value.dtype == DType::kF32);
  }

  void look(Op& op) {
    yes_.clear();
    each_bf16(op, *this);
    each_tensor(op, *this);
  }
  void may(const Tensor& t) { yes_.push_back(t.value); }
  void may_with(const Tensor& x, const Tensor& out) {
    may(x);
    pairs_.emplace_back(x.value, out.value);
  }
  void in(Tensor& t) { use(t); }
  void out(Tensor& t) { use(t); }
  void inout(Tensor& t) { use(t); }
  void finish() {
    for (bool again = true; again;) {  // what one may not, another that goes with it may not
      again = false;
      for (const auto& [x, out] : pairs_) {
        if (!may_[static_cast<size_t>(x)] || may_[static_cast<size_t>(out)]) continue;
        may_[static_cast<size_t>(x)] = 0;
        again = true;
      }
    }
  }
  bool result(size_t value) const { return may_[value] && used_[value]; }

 private:
  void use(const Tensor& t) {
    const auto value = static_cast<size_t>(t.value);
    may_[value] = static_cast<char>(may_[value] && std::ranges::find(yes_, t.value) != yes_.end());
    used_[value] = 1;
  }

  std::vector<char> may_, used_;
  std::vector<int32_t> yes_;  // of the op that is looked at
  std::vector<std::pair<int32_t, int32_t>> pairs_;
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

}  // namespace

void lower(Program& program) {
  Uses uses(program.values);
  for (Node& node : program.nodes) uses.look(node.op);
  uses.finish();
  for (size_t v = 0; v < program.values.size(); ++v) {
    Value& value = program.values[v];
    if (uses.result(v)) value.dtype = DType::kBF16;
  }
  Setter setter(program.values);
  for (Node& node : program.nodes) each_tensor(node.op, setter);
}

}  // namespace ingot
