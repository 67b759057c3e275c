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
    // Those that satisfy `match` come first, of the first `end`.
    template <class Match>
    void partition(size_t end, const Match& match) {
      std::stable_partition(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(end),
                            [&](const std::unique_ptr<Node>& node) { return match(*node); });
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

// The next node after `i` that is an Op of type T and satisfies `match`, looking at most `reach` nodes ahead and not
// across the border of the head.
template <class T, class Match>
std::optional<size_t> find_after(Work& graph, size_t i, size_t reach, Match&& match) {
  const size_t border = i < graph.head_begin ? graph.head_begin : graph.nodes.size();
  for (size_t j = i + 1; j < std::min(border, i + 1 + reach); ++j) {
    if (T* op = std::get_if<T>(&graph.nodes[j].op); op && match(*op)) return j;
  }
  return {};
}

// Linears of one input become one node: x is read once, and one parallel region replaces two or three.
int share_input(Work& graph) {
  int fired = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Linear* first = std::get_if<Linear>(&graph.nodes[i].op);
    if (!first || !plain_linear(*first)) continue;
    while (first->n_parts < 3) {
      const auto j = find_after<Linear>(graph, i, 2, [&](const Linear& other) {
        return plain_linear(other) && other.n_parts == 1 && same_tensor(other.x, first->x);
      });
      if (!j) break;
      first->parts[static_cast<size_t>(first->n_parts++)] = std::get<Linear>(graph.nodes[*j].op).parts[0];
      graph.nodes[i].label += " + " + graph.nodes[*j].label.substr(graph.nodes[*j].label.rfind('.') + 1);
      absorb(graph, i, *j, "share_input");
      first = &std::get<Linear>(graph.nodes[i].op);
      ++fired;
    }
  }
  return fired;
}

// f(gate) · up inside the node that makes gate and up.
int glu_epilogue(Work& graph) {
  int fired = 0;
  const std::vector<int> readers = count_readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Linear* linear = std::get_if<Linear>(&graph.nodes[i].op);
    if (!linear || !plain_linear(*linear) || linear->n_parts != 2) continue;
    const Tensor gate = linear->parts[0].out, up = linear->parts[1].out;
    if (readers[static_cast<size_t>(gate.value)] != 1 || readers[static_cast<size_t>(up.value)] != 1) continue;
    const auto j = find_after<Glu>(
        graph, i, 1, [&](const Glu& glu) { return same_tensor(glu.gate, gate) && same_tensor(glu.up, up); });
    if (!j) continue;
    const Glu& glu = std::get<Glu>(graph.nodes[*j].op);
    linear->glu = glu.kind;
    linear->parts[0].out = glu.out;
    absorb(graph, i, *j, "glu_epilogue");
    ++fired;
  }
  return fired;
}

// x + linear(y) inside the linear.
int residual_epilogue(Work& graph) {
  int fired = 0;
  const std::vector<int> readers = count_readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Linear* linear = std::get_if<Linear>(&graph.nodes[i].op);
    if (!linear || !plain_linear(*linear) || linear->n_parts != 1) continue;
    const Tensor out = linear->parts[0].out;
    if (readers[static_cast<size_t>(out.value)] != 1) continue;
    const auto j = find_after<Add>(graph, i, 1,
                                   [&](const Add& add) { return same_tensor(add.a, out) != same_tensor(add.b, out); });
    if (!j) continue;
    const Add& add = std::get<Add>(graph.nodes[*j].op);
    linear->residual = same_tensor(add.b, out) ? add.a : add.b;
    linear->parts[0].out = add.out;
    absorb(graph, i, *j, "residual_epilogue");
    ++fired;
  }
  return fired;
}

// The residual sum and the norm that reads it.
int add_norm(Work& graph) {
  int fired = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Add* add = std::get_if<Add>(&graph.nodes[i].op);
    if (!add) continue;
    const auto j = find_after<RmsNorm>(
        graph, i, 1, [&](const RmsNorm& norm) { return same_tensor(norm.x, add->out) && norm.width == norm.x.cols; });
    if (!j) continue;
    const RmsNorm& norm = std::get<RmsNorm>(graph.nodes[*j].op);
    AddRmsNorm fused{
        .a = add->a, .b = add->b, .weight = norm.weight, .sum = add->out, .out = norm.out, .eps = norm.eps};
    graph.nodes[i].label += " + " + graph.nodes[*j].label;
    graph.nodes[i].op = std::move(fused);
    absorb(graph, i, *j, "add_norm");
    ++fired;
  }
  return fired;
}

// Rope of k on its way into the cache. k itself stays unrotated, so nobody else may read it.
int rope_kv_write(Work& graph) {
  int fired = 0;
  const std::vector<int> readers = count_readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Rope* rope = std::get_if<Rope>(&graph.nodes[i].op);
    if (!rope || readers[static_cast<size_t>(rope->k.value)] != 2) continue;
    const auto j =
        find_after<KvWrite>(graph, i, 1, [&](const KvWrite& write) { return same_tensor(write.k, rope->k); });
    if (!j) continue;
    const KvWrite& write = std::get<KvWrite>(graph.nodes[*j].op);
    if (write.kv.k_dim != rope->head_dim) continue;
    RopeKvWrite fused{.q = rope->q,
                      .k = rope->k,
                      .v = write.v,
                      .table = rope->table,
                      .kv = write.kv,
                      .head_dim = rope->head_dim,
                      .interleaved = rope->interleaved};
    graph.nodes[i].op = std::move(fused);
    absorb(graph, i, *j, "rope_kv_write");
    ++fired;
  }
  return fired;
}

// Where two norms in a row end in a sum, the first of them goes along: x + norm(y) of Gemma. Says whether it did: then
// the linear is node i - 1.
bool fold_add_norm(Work& graph, size_t i, const std::vector<int>& readers) {
  InputNorm& input = std::get<Linear>(graph.nodes[i].op).input;
  if (!input.add || i == 0 || i == graph.head_begin) return false;
  const RmsNorm* norm = std::get_if<RmsNorm>(&graph.nodes[i - 1].op);
  if (!norm || norm->width != norm->x.cols || readers[static_cast<size_t>(norm->out.value)] != 1) return false;
  Tensor& x = std::get<Linear>(graph.nodes[i].op).x;
  if (same_tensor(norm->out, x)) std::swap(x, input.add);  // a + b is b + a, bit for bit
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
    const RmsNorm* norm = std::get_if<RmsNorm>(&graph.nodes[i].op);
    const AddRmsNorm* add = std::get_if<AddRmsNorm>(&graph.nodes[i].op);
    if (!add && (!norm || norm->width != norm->x.cols)) continue;
    const Tensor out = add ? add->out : norm->out;
    if (readers[static_cast<size_t>(out.value)] != 1) continue;
    const auto j = find_after<Linear>(graph, i, 1, [&](const Linear& l) { return same_tensor(l.x, out) && !l.input; });
    if (!j) continue;
    Linear& linear = std::get<Linear>(graph.nodes[*j].op);
    linear.x = add ? add->a : norm->x;
    linear.input.weight = add ? add->weight : norm->weight;
    linear.input.eps = add ? add->eps : norm->eps;
    if (add) {
      linear.input.add = add->b;
      linear.input.sum = add->sum;
    }
    absorb(graph, *j, i, "norm_prologue");
    if (fold_add_norm(graph, i, readers)) --i;
    ++fired;
  }
  return fired;
}

// The norm of the heads of `x`, if node i is that and nothing else reads x.
const RmsNorm* heads_norm(Work& graph, size_t i, const Tensor& x, const std::vector<int>& readers) {
  if (i >= graph.nodes.size() || readers[static_cast<size_t>(x.value)] != 1) return nullptr;
  const RmsNorm* norm = std::get_if<RmsNorm>(&graph.nodes[i].op);
  return norm && same_tensor(norm->x, x) ? norm : nullptr;
}

// Tables of angles read no value, so they may come first: the first layer's would lie between q, k, v and their rope.
void tables_first(Work& graph) {
  graph.nodes.partition(graph.head_begin, [](const Node& node) { return std::holds_alternative<RopeTable>(node.op); });
}

// Norms of q's and k's heads, rope and KV write, inside the node that makes q, k and v.
int heads_epilogue(Work& graph) {
  int fired = 0;
  tables_first(graph);
  const std::vector<int> readers = count_readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Linear* linear = std::get_if<Linear>(&graph.nodes[i].op);
    if (!linear || !plain_linear(*linear) || linear->n_parts != 3) continue;
    HeadsOutput heads;
    Tensor q = linear->parts[0].out, k = linear->parts[1].out;
    size_t j = i + 1;
    if (const RmsNorm* norm = heads_norm(graph, j, q, readers)) {
      heads.q_norm = {.weight = norm->weight, .width = norm->width, .eps = norm->eps};
      q = norm->out;
      ++j;
    }
    if (const RmsNorm* norm = heads_norm(graph, j, k, readers)) {
      heads.k_norm = {.weight = norm->weight, .width = norm->width, .eps = norm->eps};
      k = norm->out;
      ++j;
    }
    const RopeKvWrite* rope = j < graph.nodes.size() ? std::get_if<RopeKvWrite>(&graph.nodes[j].op) : nullptr;
    if (!rope || !same_tensor(rope->q, q) || !same_tensor(rope->k, k)) continue;
    if (!same_tensor(rope->v, linear->parts[2].out)) continue;
    heads.rope = *rope;
    linear->parts[0].out = q;
    linear->parts[1].out = k;
    linear->heads = std::move(heads);
    for (; j > i; --j) absorb(graph, i, j, "heads_epilogue");
    ++fired;
  }
  return fired;
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
