#include "graph/dump.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "graph/kv_store.h"
#include "graph/traits.h"

namespace ingot {
namespace {

std::string rows_text(const Rows& rows) {
  const char* symbol = rows.kind == RowKind::kTokens ? "T" : "L";
  if (rows.kind == RowKind::kFixed) return std::to_string(rows.b);
  std::string text = rows.a == 1 ? symbol : fmt::format("{}{}", rows.a, symbol);
  if (rows.b) text += fmt::format("+{}", rows.b);
  return text;
}

// Inputs, weights and outputs of one node as text.
struct Texts : TensorVisitor {
  const Program& program;
  std::string ins, outs;
  double weight_bytes = 0;
  explicit Texts(const Program& p) : program(p) {}

  std::string text(const Tensor& t) const {
    return fmt::format(" v{}[{},{}]@{}", t.value, rows_text(t.rows), t.cols,
                       program.offsets[static_cast<size_t>(t.value)] + t.offset);
  }
  void in(Tensor& t) { ins += text(t); }
  void out(Tensor& t) { outs += text(t); }
  void inout(Tensor& t) { outs += text(t) + "*"; }
  void weight(Weight& w) {
    ins += fmt::format(" {}[{},{}]", format_name(w.format), w.rows, w.cols);
    weight_bytes += static_cast<double>(w.bytes());
  }
};

// The number behind the first ".N." of a label: "model.layers.3.mlp" is of layer 3. -1: of none.
int layer_of(const std::string& label) {
  for (size_t dot = label.find('.'); dot != std::string::npos; dot = label.find('.', dot + 1)) {
    const size_t end = label.find_first_not_of("0123456789", dot + 1);
    if (end != std::string::npos && end > dot + 1 && label[end] == '.') return std::stoi(label.substr(dot + 1));
  }
  return -1;
}

}  // namespace

std::vector<int> layer_regions(const Graph& graph) {
  std::vector<int> all;
  int layer = -1;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    // A node without a number, such as rope, is of the layer that is being made; in the head it is of none.
    const int own = layer_of(graph.nodes[n].label);
    if (own >= 0) layer = own;
    if (layer < 0 || (own < 0 && n >= graph.head_begin)) continue;
    all.resize(std::max(all.size(), static_cast<size_t>(layer) + 1));
    all[static_cast<size_t>(layer)] += regions(graph.nodes[n].op);
  }
  return all;
}

std::string dump(const Program& program) {
  std::string text =
      fmt::format("{} nodes, {} values, arena {} bytes for {} rows, {} logit rows\n", program.nodes.size(),
                  program.values.size(), program.arena_bytes, program.limits.rows, program.limits.logits);
  for (const KvGroupSpec& group : program.kv_groups) {
    text += fmt::format("kv group: {} layers, {} heads, {} {} {} {}, {}, window {}, {} bytes a token\n", group.n_layers,
                        group.kv_heads, group.latent ? "rotary" : "k", group.k_dim, group.latent ? "latent" : "v",
                        group.v_dim, dtype_name(group.dtype), group.window, kv_page_bytes(group, 1));
  }
  const Shape one{.tokens = 1, .logits = 1};
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    Node node = program.nodes[n];  // a copy: each() gives what may be changed
    if (n == program.head_begin) text += "-- head\n";
    Texts texts(program);
    each_tensor(node.op, texts);
    const Cost cost = std::visit([&](const auto& op) { return op.cost(one); }, node.op);
    text += fmt::format("{:4} {:14} {}:{} ->{}  {:.0f} B/row, {:.0f} flop/row{}\n", n, op_name(node.op), node.label,
                        texts.ins, texts.outs, cost.bytes, cost.flops,
                        node.made_by.empty() ? "" : fmt::format("  [{}]", fmt::join(node.made_by, "] [")));
  }
  text += fmt::format("parallel regions of the layers: {}\n", fmt::join(layer_regions(program), " "));
  for (const auto& [name, tensor] : program.outputs)
    text += fmt::format("output {}:{}\n", name, Texts(program).text(tensor));
  return text;
}

}  // namespace ingot
