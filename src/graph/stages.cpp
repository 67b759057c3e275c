#include "graph/stages.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "graph/traits.h"

namespace ingot {
namespace {

// The nodes that write a value first and read it last.
struct Use {
  size_t first = 0, last = 0;
  bool written = false;
};

struct Uses : TensorVisitor {
  std::vector<Use>& uses;
  size_t node = 0;
  bool reads = false;  // the node reads an activation
  explicit Uses(std::vector<Use>& u) : uses(u) {}

  void in(Tensor& t) {
    reads = true;
    uses[static_cast<size_t>(t.value)].last = node;
  }
  void out(Tensor& t) {
    Use& use = uses[static_cast<size_t>(t.value)];
    if (!use.written) use = {node, node, true};
    use.last = node;
  }
  void inout(Tensor& t) {
    in(t);
    out(t);
  }
};

int64_t matrix_bytes(const Op& op) {
  int64_t bytes = 0;
  each_matrix(op, [&](const Weight& weight, const PackedWeight*) { bytes += weight.bytes(); });
  return bytes;
}

class Splitter {
 public:
  explicit Splitter(const Graph& graph) : whole_(graph), nodes_(graph.nodes), uses_(graph.values.size()) { look(); }

  std::vector<Graph> run(int n);

 private:
  void look();
  std::vector<int32_t> crossing(size_t border) const;
  std::vector<size_t> borders(int n) const;
  Graph stage(size_t begin, size_t end);
  void place_kv(Graph& graph) const;

  const Graph& whole_;
  std::vector<Node> nodes_;
  std::vector<Use> uses_;
  // Nodes that read nothing but the step itself, as tables of angles: every stage that needs one has its own.
  std::vector<char> repeated_;
  std::vector<char> by_all_;  // values that such nodes write
};

void Splitter::look() {
  repeated_.assign(nodes_.size(), 0);
  by_all_.assign(uses_.size(), 0);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Uses uses(uses_);
    uses.node = n;
    each_tensor(nodes_[n].op, uses);
    bool has_weight = has_matrix(nodes_[n].op);
    each_table(nodes_[n].op, [&](const Weight&) { has_weight = true; });
    if (uses.reads || has_weight) continue;
    repeated_[n] = 1;
    struct Writes : TensorVisitor {
      std::vector<char>& values;
      explicit Writes(std::vector<char>& v) : values(v) {}
      void out(Tensor& t) { values[static_cast<size_t>(t.value)] = 1; }
    };
    each_tensor(nodes_[n].op, Writes(by_all_));
  }
}

// The values that are written before the node and read from it on.
std::vector<int32_t> Splitter::crossing(size_t border) const {
  std::vector<int32_t> values;
  for (size_t v = 0; v < uses_.size(); ++v) {
    const Use& use = uses_[v];
    if (use.written && !by_all_[v] && use.first < border && use.last >= border)
      values.push_back(static_cast<int32_t>(v));
  }
  return values;
}

// Where stages begin: between nodes where one value crosses, closest to an even share of the matrices.
std::vector<size_t> Splitter::borders(int n) const {
  std::vector<int64_t> before(nodes_.size() + 1, 0);  // bytes
  for (size_t i = 0; i < nodes_.size(); ++i) before[i + 1] = before[i] + matrix_bytes(nodes_[i].op);
  std::vector<size_t> places;
  int64_t last = 0;
  for (size_t i = 1; i < whole_.head_begin; ++i) {
    // Two with the same matrices before them are one place: the first.
    if (before[i] == last || crossing(i).size() != 1) continue;
    places.push_back(i);
    last = before[i];
  }
  std::vector<size_t> found{0};
  size_t next = 0;
  for (int s = 1; s < n; ++s) {
    const int64_t share = before.back() / n * s;
    const auto off = [&](size_t p) { return std::abs(before[places[p]] - share); };
    const size_t left = static_cast<size_t>(n - s);  // borders that are still to come
    if (next + left > places.size())
      throw Error("[pp] {} stages for a model that can be cut into {}", n, places.size() + 1);
    while (next + left < places.size() && off(next + 1) <= off(next)) ++next;
    found.push_back(places[next++]);
  }
  found.push_back(nodes_.size());
  return found;
}

// The layers of the cache that are left, numbered anew.
void Splitter::place_kv(Graph& graph) const {
  std::map<std::pair<int, int>, int> places;
  for (KvGroupSpec& group : graph.kv_groups) group.n_layers = 0;
  for (Node& node : graph.nodes) {
    each_kv(node.op, [&](KvLayer& layer) {
      const auto [place, fresh] = places.try_emplace({layer.group, layer.index}, 0);
      if (fresh) place->second = graph.kv_groups[static_cast<size_t>(layer.group)].n_layers++;
      layer.index = place->second;
    });
  }
}

Graph Splitter::stage(size_t begin, size_t end) {
  Graph graph;
  graph.values = whole_.values;
  graph.kv_groups = whole_.kv_groups;
  for (size_t n = 0; n < end; ++n) {
    if (n == whole_.head_begin) graph.head_begin = graph.nodes.size();
    if (n >= begin || repeated_[n]) graph.nodes.push_back(whole_.nodes[n]);
  }
  if (end <= whole_.head_begin) graph.head_begin = graph.nodes.size();
  const auto name = [&](const char* output, size_t border) {
    const int32_t value = crossing(border).front();
    Value& v = graph.values[static_cast<size_t>(value)];
    Tensor& t = graph.outputs[output];
    t.value = value;
    t.rows = v.rows;
    t.cols = t.stride = v.cols;
    t.dtype = v.dtype;
    return &v;
  };
  if (begin > 0) name(kStageIn, begin)->given = true;
  if (end < nodes_.size()) name(kStageOut, end)->keep = true;
  if (end == nodes_.size()) {
    for (const auto& [output, t] : whole_.outputs)
      if (uses_[static_cast<size_t>(t.value)].last >= begin) graph.outputs[output] = t;
  }
  place_kv(graph);
  return graph;
}

std::vector<Graph> Splitter::run(int n) {
  const std::vector<size_t> begins = borders(n);
  std::vector<Graph> stages;
  for (size_t s = 0; s + 1 < begins.size(); ++s) stages.push_back(stage(begins[s], begins[s + 1]));
  return stages;
}

}  // namespace

std::vector<Graph> split_stages(const Graph& graph, int n) {
  CHECK(n > 1, "{} stages", n);
  return Splitter(graph).run(n);
}

}  // namespace ingot
