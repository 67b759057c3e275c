#include "graph/fuse.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "graph/tail_rows.h"

namespace ingot {
namespace {

// The graph while rules work on it, its nodes behind pointers: rules take out hundreds of them, and to move each node
// behind every time was 5 ms of loading SmolLM2-135M.
class Work {
 public:
  class Nodes {
   public:
    explicit Nodes(std::vector<Node>& from) {
      for (Node& node : from) list_.push_back(std::make_unique<Node>(std::move(node)));
    }
    size_t size() const { return list_.size(); }
    Node& operator[](size_t i) { return *list_[i]; }
    void erase(size_t i) { list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(i)); }
    // Those that satisfy `first` come first, of the first `end`.
    template <class First>
    void partition(size_t end, const First& first) {
      std::stable_partition(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(end),
                            [&](const std::unique_ptr<Node>& node) { return first(*node); });
    }

   private:
    std::vector<std::unique_ptr<Node>> list_;
  };

  explicit Work(Graph& graph) : nodes(graph.nodes), head_begin(graph.head_begin), values(graph.values), graph_(graph) {}
  // Gives the nodes back to the graph.
  void finish() {
    graph_.nodes.clear();
    for (size_t i = 0; i < nodes.size(); ++i) graph_.nodes.push_back(std::move(nodes[i]));
  }

  Nodes nodes;
  size_t& head_begin;
  const std::vector<Value>& values;

 private:
  Graph& graph_;
};

// How many nodes read each value; a named output counts as one more.
std::vector<int> count_readers(Work& graph) {
  struct Counter : TensorVisitor {
    std::vector<int>& n;
    explicit Counter(std::vector<int>& counts) : n(counts) {}
    void in(Tensor& t) { ++n[static_cast<size_t>(t.value)]; }
    void inout(Tensor& t) { ++n[static_cast<size_t>(t.value)]; }
  };
  std::vector<int> counts(graph.values.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) each_tensor(graph.nodes[i].op, Counter(counts));
  for (size_t v = 0; v < counts.size(); ++v) counts[v] += graph.values[v].keep ? 1 : 0;
  return counts;
}

// Takes nodes out of the list, keeping where the head begins.
void erase_node(Work& graph, size_t i) {
  graph.nodes.erase(i);
  if (i < graph.head_begin) --graph.head_begin;
}

// Node `from` becomes part of node `into`, by `rule`.
void absorb(Work& graph, size_t into, size_t from, std::string_view rule) {
  std::vector<std::string_view>& rules = graph.nodes[into].made_by;
  for (const std::string_view made : graph.nodes[from].made_by) rules.push_back(made);
  if (std::ranges::find(rules, rule) == rules.end()) rules.push_back(rule);
  erase_node(graph, from);
}

bool plain_linear(const Linear& op) { return !op.is_glu() && !op.residual; }

// A node that a rule looked for.
template <class T>
struct Found {
  size_t at = 0;
  T* op = nullptr;

  explicit operator bool() const { return op != nullptr; }
  T* operator->() const { return op; }
};

// Node i, where it is a T.
template <class T>
Found<T> find_at(Work& graph, size_t i) {
  if (i >= graph.nodes.size()) return {};
  return {i, match<T>(graph.nodes[i])};
}

// The next node after `i` that is a T and satisfies `is_it`, looking at most `reach` nodes ahead and not across the
// border of the head.
template <class T, class Is>
Found<T> find_after(Work& graph, size_t i, size_t reach, Is&& is_it) {
  const size_t border = i < graph.head_begin ? graph.head_begin : graph.nodes.size();
  for (size_t j = i + 1; j < std::min(border, i + 1 + reach); ++j) {
    if (const Found<T> found = find_at<T>(graph, j); found && is_it(*found.op)) return found;
  }
  return {};
}

// Tries `rule` at each node that is a T, and adds up what it returns: how often it fired, or whether. It may take out
// nodes behind this one.
template <class T, class Rule>
int at_each(Work& graph, Rule&& rule) {
  int fired = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (T* op = match<T>(graph.nodes[i])) fired += rule(i, *op);
  }
  return fired;
}

// Linears of one input become one node: x is read once, and one parallel region replaces two or three.
int share_input(Work& graph) {
  return at_each<Linear>(graph, [&](size_t i, Linear& first) {
    int fired = 0;
    while (plain_linear(first) && first.n_parts < 3) {
      const auto next = find_after<Linear>(graph, i, 2, [&](const Linear& other) {
        return plain_linear(other) && other.n_parts == 1 && same_tensor(other.x, first.x);
      });
      if (!next) break;
      first.parts[static_cast<size_t>(first.n_parts++)] = next->parts[0];
      const std::string& label = graph.nodes[next.at].label;
      graph.nodes[i].label += " + " + label.substr(label.rfind('.') + 1);
      absorb(graph, i, next.at, "share_input");
      ++fired;
    }
    return fired;
  });
}

// f(gate) · up inside the node that makes gate and up.
int glu_epilogue(Work& graph) {
  const std::vector<int> readers = count_readers(graph);
  return at_each<Linear>(graph, [&](size_t i, Linear& linear) {
    if (!plain_linear(linear) || linear.n_parts != 2) return false;
    const Tensor gate = linear.parts[0].out, up = linear.parts[1].out;
    if (readers[static_cast<size_t>(gate.value)] != 1 || readers[static_cast<size_t>(up.value)] != 1) return false;
    const auto glu = find_after<Glu>(
        graph, i, 1, [&](const Glu& op) { return same_tensor(op.gate, gate) && same_tensor(op.up, up); });
    if (!glu) return false;
    linear.glu = glu->kind;
    linear.parts[0].out = glu->out;
    absorb(graph, i, glu.at, "glu_epilogue");
    return true;
  });
}

// x + linear(y) inside the linear.
int residual_epilogue(Work& graph) {
  const std::vector<int> readers = count_readers(graph);
  return at_each<Linear>(graph, [&](size_t i, Linear& linear) {
    if (!plain_linear(linear) || linear.n_parts != 1) return false;
    const Tensor out = linear.parts[0].out;
    if (readers[static_cast<size_t>(out.value)] != 1) return false;
    const auto add =
        find_after<Add>(graph, i, 1, [&](const Add& op) { return same_tensor(op.a, out) != same_tensor(op.b, out); });
    if (!add) return false;
    linear.residual = same_tensor(add->b, out) ? add->a : add->b;
    linear.parts[0].out = add->out;
    absorb(graph, i, add.at, "residual_epilogue");
    return true;
  });
}

// The residual sum and the norm that reads it.
int add_norm(Work& graph) {
  return at_each<Add>(graph, [&](size_t i, const Add& add) {
    const auto norm = find_after<RmsNorm>(
        graph, i, 1, [&](const RmsNorm& op) { return same_tensor(op.x, add.out) && op.width == op.x.cols; });
    if (!norm) return false;
    AddRmsNorm fused{
        .a = add.a, .b = add.b, .weight = norm->weight, .sum = add.out, .out = norm->out, .eps = norm->eps};
    graph.nodes[i].label += " + " + graph.nodes[norm.at].label;
    graph.nodes[i].op = std::move(fused);
    absorb(graph, i, norm.at, "add_norm");
    return true;
  });
}

// The sum over ranks, the residual sum that reads it alone, and the norm.
int all_reduce_add_norm(Work& graph) {
  const std::vector<int> readers = count_readers(graph);
  return at_each<AllReduce>(graph, [&](size_t i, const AllReduce& reduce) {
    if (readers[static_cast<size_t>(reduce.out.value)] != 1) return false;
    const auto norm = find_after<AddRmsNorm>(graph, i, 1, [&](const AddRmsNorm& op) {
      return same_tensor(op.a, reduce.out) != same_tensor(op.b, reduce.out);
    });
    if (!norm) return false;
    AllReduceAddNorm fused{.x = reduce.x,
                           .residual = same_tensor(norm->b, reduce.out) ? norm->a : norm->b,
                           .weight = norm->weight,
                           .sum = norm->sum,
                           .out = norm->out,
                           .eps = norm->eps};
    graph.nodes[i].label = graph.nodes[norm.at].label;
    graph.nodes[i].op = std::move(fused);
    absorb(graph, i, norm.at, "all_reduce_add_norm");
    return true;
  });
}

// Rope of k on its way into the cache. k itself stays unrotated, so nobody else may read it.
int rope_kv_write(Work& graph) {
  const std::vector<int> readers = count_readers(graph);
  return at_each<Rope>(graph, [&](size_t i, const Rope& rope) {
    if (readers[static_cast<size_t>(rope.k.value)] != 2 || rope.q_head > 0) return false;
    const auto write = find_after<KvWrite>(
        graph, i, 1, [&](const KvWrite& op) { return same_tensor(op.k, rope.k) && op.kv.k_dim == rope.head_dim; });
    if (!write) return false;
    RopeKvWrite fused{.q = rope.q,
                      .k = rope.k,
                      .v = write->v,
                      .table = rope.table,
                      .kv = write->kv,
                      .head_dim = rope.head_dim,
                      .interleaved = rope.interleaved};
    graph.nodes[i].op = std::move(fused);
    absorb(graph, i, write.at, "rope_kv_write");
    return true;
  });
}

// What a linear may do to its input in place of another node.
struct Prologue {
  Tensor x, out;
  InputNorm input;
};

// Node i as a prologue: a norm of whole rows, or a sum and its norm.
std::optional<Prologue> prologue_at(Work& graph, size_t i) {
  Prologue prologue;
  if (const auto norm = find_at<RmsNorm>(graph, i); norm && norm->width == norm->x.cols) {
    prologue.x = norm->x;
    prologue.out = norm->out;
    prologue.input.weight = norm->weight;
    prologue.input.eps = norm->eps;
    return prologue;
  }
  if (const auto add = find_at<AddRmsNorm>(graph, i)) {
    prologue.x = add->a;
    prologue.out = add->out;
    prologue.input.weight = add->weight;
    prologue.input.eps = add->eps;
    prologue.input.add = add->b;
    prologue.input.sum = add->sum;
    return prologue;
  }
  return {};
}

// Where two norms in a row end in a sum, the first of them goes along: x + norm(y) of Gemma. Says whether it did: then
// the linear is node i - 1.
bool fold_add_norm(Work& graph, size_t i, Linear& linear, const std::vector<int>& readers) {
  InputNorm& input = linear.input;
  if (!input.add || i == 0 || i == graph.head_begin) return false;
  const auto norm = find_at<RmsNorm>(graph, i - 1);
  if (!norm || norm->width != norm->x.cols || readers[static_cast<size_t>(norm->out.value)] != 1) return false;
  if (same_tensor(norm->out, linear.x)) std::swap(linear.x, input.add);  // a + b is b + a, bit for bit
  if (!same_tensor(norm->out, input.add)) return false;
  input.add = norm->x;
  input.add_norm = norm->weight;
  input.add_eps = norm->eps;
  absorb(graph, i, i - 1, "norm_prologue");
  return true;
}

// The norm before a linear, inside it: one region less, and the normed row is still in the cache when it is quantized.
int norm_prologue(Work& graph) {
  int fired = 0;
  const std::vector<int> readers = count_readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::optional<Prologue> norm = prologue_at(graph, i);
    if (!norm || readers[static_cast<size_t>(norm->out.value)] != 1) continue;
    const auto linear =
        find_after<Linear>(graph, i, 1, [&](const Linear& op) { return same_tensor(op.x, norm->out) && !op.input; });
    if (!linear) continue;
    linear->x = norm->x;
    linear->input = norm->input;
    absorb(graph, linear.at, i, "norm_prologue");
    if (fold_add_norm(graph, i, *linear.op, readers)) --i;
    ++fired;
  }
  return fired;
}

// Tables of angles read no value, so they may come first: the first layer's would lie between q, k, v and their rope.
void tables_first(Work& graph) {
  graph.nodes.partition(graph.head_begin, [](Node& node) { return match<RopeTable>(node) != nullptr; });
}

// Norms of q's and k's heads, rope and KV write, inside the node that makes q, k and v.
int heads_epilogue(Work& graph) {
  tables_first(graph);
  const std::vector<int> readers = count_readers(graph);
  return at_each<Linear>(graph, [&](size_t i, Linear& linear) {
    if (!plain_linear(linear) || linear.n_parts != 3) return false;
    HeadsOutput heads;
    size_t j = i + 1;
    // The norm of the heads of `x`, where node j is that and nothing else reads x.
    const auto take_norm = [&](Tensor& x, HeadsOutput::Norm& norm) {
      const auto found = find_at<RmsNorm>(graph, j);
      if (!found || !same_tensor(found->x, x) || readers[static_cast<size_t>(x.value)] != 1) return;
      norm = {.weight = found->weight, .width = found->width, .eps = found->eps};
      x = found->out;
      ++j;
    };
    Tensor q = linear.parts[0].out, k = linear.parts[1].out;
    take_norm(q, heads.q_norm);
    take_norm(k, heads.k_norm);
    const auto rope = find_at<RopeKvWrite>(graph, j);
    if (!rope || !same_tensor(rope->q, q) || !same_tensor(rope->k, k)) return false;
    if (!same_tensor(rope->v, linear.parts[2].out)) return false;
    heads.rope = *rope.op;
    linear.parts[0].out = q;
    linear.parts[1].out = k;
    linear.heads = std::move(heads);
    for (; j > i; --j) absorb(graph, i, j, "heads_epilogue");
    return true;
  });
}

struct Rule {
  std::string_view name;
  int (*apply)(Work&);
};

// Runs first, on the graph as the model made it.
constexpr std::string_view kTailRows = "tail_rows";

// Each looks for what those before it make.
constexpr Rule kRules[] = {
    {"share_input", share_input},
    {"glu_epilogue", glu_epilogue},
    {"residual_epilogue", residual_epilogue},
    {"add_norm", add_norm},
    {"all_reduce_add_norm", all_reduce_add_norm},
    {"rope_kv_write", rope_kv_write},
    {"norm_prologue", norm_prologue},
    {"heads_epilogue", heads_epilogue},
};

}  // namespace

std::vector<std::string_view> fusion_rules() {
  std::vector<std::string_view> names = {kTailRows};
  for (const Rule& rule : kRules) names.push_back(rule.name);
  return names;
}

std::map<std::string_view, int> fuse(Graph& graph, const std::set<std::string>& off) {
  const std::vector<std::string_view> names = fusion_rules();
  for (const std::string& name : off) {
    if (name != "all" && std::ranges::find(names, name) == names.end()) {
      throw Error("[fuse] there is no rule '{}'; the rules are {}", name, fmt::join(names, ", "));
    }
  }
  const auto skip = [&](std::string_view name) { return off.contains("all") || off.contains(std::string(name)); };
  std::map<std::string_view, int> fired;
  fired[kTailRows] = skip(kTailRows) ? 0 : tail_rows(graph);
  Work work(graph);
  for (const Rule& rule : kRules) fired[rule.name] = skip(rule.name) ? 0 : rule.apply(work);
  work.finish();
  return fired;
}

}  // namespace ingot
