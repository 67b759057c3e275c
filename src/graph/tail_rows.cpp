#include "graph/tail_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/traits.h"

namespace ingot {
namespace {

// Whether all that a node writes may have other rows: whole values of a row for each token that nobody asked for by
// name.
struct Movable : TensorVisitor {
  const Graph& graph;
  bool yes = true;
  explicit Movable(const Graph& g) : graph(g) {}
  void out(Tensor& t) {
    const Value& value = graph.values[static_cast<size_t>(t.value)];
    yes &= !value.keep && value.rows == kTokenRows;
  }
  void inout(Tensor& t) { out(t); }
};

struct Written : TensorVisitor {
  std::vector<char>& by_tail;
  explicit Written(std::vector<char>& values) : by_tail(values) {}
  void out(Tensor& t) { by_tail[static_cast<size_t>(t.value)] = 1; }
};

// Gives the tail's own values logit rows, and replaces what it reads from the body by gathered rows.
struct Narrow : TensorVisitor {
  Graph& graph;
  const std::vector<char>& by_tail;
  std::vector<GatherRows> gathers;
  Narrow(Graph& g, const std::vector<char>& values) : graph(g), by_tail(values) {}

  void out(Tensor& t) {
    t.rows = kLogitRows;
    graph.values[static_cast<size_t>(t.value)].rows = kLogitRows;
  }
  void in(Tensor& t) {
    if (static_cast<size_t>(t.value) < by_tail.size() && by_tail[static_cast<size_t>(t.value)]) {
      t.rows = kLogitRows;
    } else {
      t = gathered(t);
    }
  }
  Tensor gathered(const Tensor& x) {
    for (const GatherRows& op : gathers) {
      if (same_tensor(op.x, x)) return op.out;
    }
    gathers.push_back({.x = x, .out = graph.add_value(kLogitRows, x.cols, x.dtype)});
    return gathers.back().out;
  }
};

// Who read the gathered rows of the tail's result now reads the result.
struct Rewire : TensorVisitor {
  const Tensor &from, to;
  Rewire(const Tensor& f, const Tensor& t) : from(f), to(t) {}
  void in(Tensor& t) {
    if (same_tensor(t, from)) t = to;
  }
};

}  // namespace

int tail_rows(Graph& graph) {
  const size_t end = graph.head_begin;
  const GatherRows* gather = end < graph.nodes.size() ? match<GatherRows>(graph.nodes[end]) : nullptr;
  if (gather == nullptr) return 0;
  size_t begin = end;
  for (; begin > 0 && by_row(graph.nodes[begin - 1].op); --begin) {
    Movable movable(graph);
    each_tensor(graph.nodes[begin - 1].op, movable);
    if (!movable.yes) break;
  }
  const GatherRows old = *gather;
  std::vector<char> by_tail(graph.values.size(), 0);
  bool product = false;
  for (size_t n = begin; n < end; ++n) {
    each_tensor(graph.nodes[n].op, Written(by_tail));
    product |= has_matrix(graph.nodes[n].op);
  }
  const bool whole = old.x.offset == 0 && old.x.stride == old.x.cols && by_tail[static_cast<size_t>(old.x.value)];
  // Without a product in it the tail is not worth a second gather.
  if (!whole || !product) return 0;

  Narrow narrow(graph, by_tail);
  for (size_t n = begin; n < end; ++n) each_tensor(graph.nodes[n].op, narrow);
  Tensor result = old.x;
  result.rows = kLogitRows;
  for (size_t n = end + 1; n < graph.nodes.size(); ++n) each_tensor(graph.nodes[n].op, Rewire(old.out, result));
  std::vector<Node> gathers;
  for (const GatherRows& op : narrow.gathers)
    gathers.push_back({.op = op, .label = "gather_logit_rows", .made_by = {"tail_rows"}});
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(end));
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(begin), std::make_move_iterator(gathers.begin()),
                     std::make_move_iterator(gathers.end()));
  graph.head_begin = begin;
  return static_cast<int>(end - begin);
}

}  // namespace ingot
