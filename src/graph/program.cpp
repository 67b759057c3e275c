#include "graph/program.h"

#include "base/check.h"
#include "graph/kv_store.h"
#include "graph/lower.h"
#include "graph/plan.h"

namespace ingot {
namespace {

struct Binder : TensorVisitor {
  const std::vector<int64_t>& offsets;
  std::byte* arena;
  Binder(const std::vector<int64_t>& o, std::byte* a) : offsets(o), arena(a) {}

  void bind(Tensor& t) {
    const int64_t offset = offsets[static_cast<size_t>(t.value)];
    CHECK(offset >= 0, "value {} has no place", t.value);
    t.data = arena + offset + t.offset;
  }
  void in(Tensor& t) { bind(t); }
  void out(Tensor& t) { bind(t); }
  void inout(Tensor& t) { bind(t); }
};

}  // namespace

Program compile(const Graph& graph, const Target& target) {
  Program program;
  static_cast<Graph&>(program) = graph;
  program.limits = target.limits;
  if (target.kv) set_kv_dtype(program, *target.kv);
  if (target.bf16) lower(program);
  plan(program);
  return program;
}

void bind_arena(Program& program, std::byte* arena) {
  Binder binder(program.offsets, arena);
  for (Node& node : program.nodes) each_tensor(node.op, binder);
  for (auto& [name, tensor] : program.outputs) binder.bind(tensor);
}

}  // namespace ingot
