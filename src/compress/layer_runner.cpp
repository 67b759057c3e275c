#include "compress/layer_runner.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "compress/gguf_target.h"
#include "graph/traits.h"

namespace ingot {
namespace {

constexpr int kPageRows = 64;

// The values that a node reads and writes.
struct Touched : TensorVisitor {
  std::vector<Tensor> read, written;
  explicit Touched(Op op) { each_tensor(op, *this); }
  void in(Tensor& t) { read.push_back(t); }
  void out(Tensor& t) { written.push_back(t); }
  void inout(Tensor& t) { read.push_back(t); }
  bool writes(int32_t value) const {
    return std::ranges::any_of(written, [=](const Tensor& t) { return t.value == value; });
  }
};

size_t writer_of(const Graph& graph, int32_t value) {
  for (size_t n = 0; n < graph.head_begin; ++n) {
    if (Touched(graph.nodes[n].op).writes(value)) return n;
  }
  throw Error("[compress] no op of the body writes value {}", value);
}

StepLimits limits_of(int chunk_rows) {
  const int logits = std::min(chunk_rows, LayerRunner::kHeadRows);
  return {.rows = chunk_rows, .seqs = 1, .logits = logits, .context = chunk_rows, .page_rows = kPageRows};
}

// "a.weight[3]" is expert 3 of the stack "a.weight".
MatrixName split_expert(const std::string& name) {
  if (!name.ends_with(']')) return {.tensor = name};
  const size_t at = name.rfind('[');
  return {.tensor = name.substr(0, at), .expert = std::atoi(name.c_str() + at + 1)};
}

}  // namespace

std::vector<MatrixName> matrix_names(const std::string& weight) {
  std::vector<MatrixName> names = {split_expert(weight)};
  const std::string& own = names[0].tensor;
  const size_t at = own.find(".experts.");
  if (at == std::string::npos || names[0].expert >= 0) return names;
  const size_t begin = at + 9, end = own.find_first_not_of("0123456789", begin);
  if (end == std::string::npos || end == begin || own[end] != '.') return names;
  constexpr std::array<std::array<std::string_view, 2>, 3> kParts = {
      {{"w1.weight", "gate_proj.weight"}, {"w3.weight", "up_proj.weight"}, {"w2.weight", "down_proj.weight"}}};
  std::string part = own.substr(end + 1);
  for (const auto& [other, usual] : kParts)
    if (part == other) part = usual;
  names.push_back({.tensor = own.substr(0, begin) + part, .expert = std::atoi(own.c_str() + begin)});
  return names;
}

ModelOptions layer_options(int chunk_rows) {
  return {.context = chunk_rows, .keep_hidden = true, .kv = DType::kF32, .fuse_off = {"all"}};
}

namespace {

// The names of a matrix of a layer's experts: where several parts are one tensor, or without ".weight", also the one
// that its part has alone.
std::vector<MatrixName> expert_names(const Weight& weight, std::string_view part) {
  std::vector<MatrixName> names = matrix_names(weight.name);
  std::string_view tensor = names[0].tensor;
  if (names[0].expert < 0) return names;
  if (tensor.ends_with(".weight")) tensor.remove_suffix(7);
  for (const std::string_view stored : {".gate_up_proj", ".input_linear", ".down_proj", ".output_linear"}) {
    if (!tensor.ends_with(stored)) continue;
    const std::string own = fmt::format("{}.{}_proj.weight", tensor.substr(0, tensor.size() - stored.size()), part);
    if (own != names[0].tensor) names.push_back({.tensor = own, .expert = names[0].expert});
    break;
  }
  return names;
}

std::string_view part_of(const ExpertLinear& experts, size_t p) {
  return experts.out ? "down" : p == 0 ? "gate" : "up";
}

}  // namespace

LayerRunner::LayerRunner(const Model& model, int chunk_rows, ThreadPool& pool)
    : model_(model),
      pool_(pool),
      limits_(limits_of(chunk_rows)),
      batch_(limits_, static_cast<int>(model.graph.kv_groups.size())) {
  find_borders();
}

void LayerRunner::find_borders() {
  const Graph& graph = model_.graph;
  const int layers = model_.hp.layers;
  const auto hidden = [&](int i) { return graph.outputs.at("hidden." + std::to_string(i)); };
  width_ = hidden(0).cols;
  embed_end_ = writer_of(graph, hidden(0).value) + 1;
  size_t begin = embed_end_;
  for (int i = 0; i < layers; ++i) {
    Border border{.begin = begin, .end = 0, .in = hidden(i), .out = hidden(i + 1)};
    const size_t writer = writer_of(graph, border.out.value);
    border.end = writer + 1;
    if (i + 1 == layers) {  // the last state is that after the final norm, whose node is no part of the layer
      const Touched norm(graph.nodes[writer].op);
      border.end = writer;
      border.out = norm.read.at(0);
    }
    if (border.end <= begin || border.out.cols != width_)
      throw Error("[compress] layer {} of '{}' cannot be run alone", i, model_.arch->name);
    borders_.push_back(border);
    begin = border.end;
  }
}

// A part of the model without nodes yet but one that stands for whoever wrote the input, so that it has a place; never
// run.
Graph LayerRunner::part(const Tensor& in, const Tensor& out) const {
  Graph graph;
  graph.values = model_.graph.values;
  for (Value& value : graph.values) value.keep = false;
  graph.values[static_cast<size_t>(out.value)].keep = true;
  graph.kv_groups = model_.graph.kv_groups;
  graph.outputs = {{"in", in}, {"out", out}};
  Embedding placeholder;
  placeholder.out = in;
  graph.nodes.push_back({.op = placeholder, .label = "input", .made_by = {}});
  return graph;
}

// The layer's nodes behind those before it that make what it reads beside the layer's input: tables of rope.
Graph LayerRunner::cut(const Border& border, size_t& first) const {
  const Graph& all = model_.graph;
  std::set<size_t> before;
  std::vector<size_t> waiting;
  for (size_t n = border.begin; n < border.end; ++n) waiting.push_back(n);
  std::set<int32_t> known{border.in.value};
  for (size_t n = border.begin; n < border.end; ++n)
    for (const Tensor& t : Touched(all.nodes[n].op).written) known.insert(t.value);
  while (!waiting.empty()) {
    const Touched touched(all.nodes[waiting.back()].op);
    waiting.pop_back();
    for (const Tensor& t : touched.read) {
      if (!known.insert(t.value).second) continue;
      const size_t writer = writer_of(all, t.value);
      if (has_matrix(all.nodes[writer].op))
        throw Error("[compress] layers of '{}' read more than the layer before them", model_.arch->name);
      before.insert(writer);
      waiting.push_back(writer);
    }
  }
  Graph graph = part(border.in, border.out);
  for (const size_t n : before) graph.nodes.push_back(all.nodes[n]);
  first = graph.nodes.size();
  for (size_t n = border.begin; n < border.end; ++n) graph.nodes.push_back(all.nodes[n]);
  graph.head_begin = graph.nodes.size();
  return graph;
}

void LayerRunner::compile_part(const Graph& graph) {
  program_ = Program();  // its packed weights go first
  program_ = compile(graph, {.limits = limits_});
  arena_ = Memory(program_.arena_bytes);
  bind_arena(program_, arena_.data());
  Prepare prepare{.limits = limits_, .threads = pool_.threads(), .pool = &pool_};
  prepare.packed = program_.packed->of(kShortCols).get();
  for (Node& node : program_.nodes) std::visit([&](auto& op) { cpu::prepare(op, prepare); }, node.op);
  scratch_bytes_ = prepare.scratch_bytes;
  scratch_ = Memory(scratch_bytes_ * pool_.threads());
  shared_ = Memory(prepare.shared_bytes);
  bind_kv();
}

void LayerRunner::open_embedding(const MatrixLookup& encoded) {
  Graph graph = part(borders_[0].in, borders_[0].in);
  graph.nodes.assign(model_.graph.nodes.begin(), model_.graph.nodes.begin() + static_cast<std::ptrdiff_t>(embed_end_));
  graph.head_begin = graph.nodes.size();
  inputs_.clear();
  taps_.clear();
  first_ = 0;
  program_ = Program();
  replace_all(graph, encoded);
  compile_part(graph);
}

void LayerRunner::embed(std::span<const int32_t> tokens, float* hidden) {
  if (program_.nodes.empty() || first_ != 0) open_embedding();
  const auto rows = static_cast<int64_t>(tokens.size());
  std::ranges::copy(tokens, batch_.token.begin());
  batch_.n_logits = 0;
  run_nodes(0, program_.nodes.size(), rows, {});
  const Tensor& out = program_.outputs.at("out");
  for (int64_t r = 0; r < rows; ++r) std::copy_n(out.f32(r), width_, hidden + r * width_);
}

// The first name is the published one. Gate and up of an MLP that every row meets may be one matrix.
std::vector<MatrixName> LayerRunner::linear_names(const Weight& weight) const {
  MatrixName own{.tensor = weight.name};
  std::string alone = shared_part(weight.name);
  if (alone == weight.name) {
    own.gguf = gguf_or_own(alone);
    return {own};
  }
  const StoredWeight* stored = model_.weights->source().find(weight.name, {});
  if (stored != nullptr && weight.data != stored->data && alone.ends_with(".gate_proj.weight"))
    alone.replace(alone.size() - 16, 16, "up_proj.weight");
  own.gguf = gguf_or_own(alone);
  return {own, {.tensor = alone}};
}

std::string LayerRunner::gguf_or_own(const std::string& name) const {
  try {
    return gguf_from_canonical(name, model_.arch->names);
  } catch (const Error&) {
    return name;  // known to no other program
  }
}

void LayerRunner::replace(Weight& weight, const std::vector<MatrixName>& names, const MatrixLookup& encoded) {
  EncodedMatrix found;
  for (const MatrixName& name : names)
    if (found.bytes.empty()) found = encoded(name.tensor, name.expert);
  if (found.bytes.empty()) return;
  CHECK(found.cols == weight.cols, "{}: {} columns encoded as {}", weight.name, weight.cols, found.cols);
  const int64_t row_bytes = format_row_bytes(found.format, found.cols);
  // Of a stored tensor a matrix may be some rows: q of a fused qkv, an expert's gate of gate and up.
  int64_t first = 0;
  const StoredWeight* stored = model_.weights->source().find(names[0].tensor, {});
  if (stored != nullptr && found.rows != weight.rows) {
    first = (weight.data - stored->data) / weight.row_bytes;
    if (names[0].expert >= 0) first -= names[0].expert * found.rows;
  }
  CHECK(first >= 0 && first + weight.rows <= found.rows, "{}: rows {} + {} of {}", weight.name, first, weight.rows,
        found.rows);
  weight.format = found.format;
  weight.row_bytes = row_bytes;
  weight.data = found.bytes.data() + first * row_bytes;
  weight.head_rows = found.head_rows;
  weight.mapped = false;
  weight.scale = nullptr;
  const auto address = reinterpret_cast<uintptr_t>(weight.data);
  if (format_block(found.format) == 1 && address % static_cast<uintptr_t>(format_block_bytes(found.format)) != 0) {
    aligned_.push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(weight.bytes())));
    std::memcpy(aligned_.back().get(), weight.data, static_cast<size_t>(weight.bytes()));
    weight.data = aligned_.back().get();
  }
}

void LayerRunner::open(int layer, const MatrixLookup& encoded) {
  Graph graph = cut(borders_.at(static_cast<size_t>(layer)), first_);
  program_ = Program();
  replace_all(graph, encoded);
  compile_part(graph);
  add_inputs(layer, first_);
}

void LayerRunner::replace_all(Graph& graph, const MatrixLookup& encoded) {
  aligned_.clear();
  if (!encoded) return;
  for (Node& node : graph.nodes) {
    if (auto* linear = match<Linear>(node))
      replace(linear->parts[0].weight, linear_names(linear->parts[0].weight), encoded);
    if (auto* table = match<Embedding>(node); table != nullptr && table->table)
      replace(table->table, matrix_names(table->table.name), encoded);
    if (auto* experts = match<ExpertLinear>(node)) {
      for (size_t p = 0; p < static_cast<size_t>(experts->n_parts); ++p)
        for (Weight& weight : experts->parts[p].weights)
          replace(weight, expert_names(weight, part_of(*experts, p)), encoded);
    }
  }
}

void LayerRunner::add_inputs(int layer, size_t first) {
  inputs_.clear();
  taps_.clear();
  for (size_t n = first; n < program_.nodes.size(); ++n) {
    if (auto* linear = match<Linear>(program_.nodes[n])) {
      const std::vector<MatrixName> names = linear_names(linear->parts[0].weight);
      const auto same = std::ranges::find_if(taps_, [&](const Tapped& tapped) {
        auto* other = match<Linear>(program_.nodes[tapped.node]);
        return other != nullptr && same_tensor(other->x, linear->x);
      });
      if (same != taps_.end()) {
        std::vector<MatrixName>& met = inputs_[same->first].matrices;
        met.insert(met.end(), names.begin(), names.end());
        continue;
      }
      taps_.push_back({.node = n, .first = inputs_.size()});
      inputs_.push_back({.matrices = names, .cols = linear->x.cols});
    } else if (auto* experts = match<ExpertLinear>(program_.nodes[n])) {
      taps_.push_back({.node = n, .first = inputs_.size()});
      for (size_t e = 0; e < static_cast<size_t>(experts->count()); ++e) {
        LayerInput input{.matrices = {}, .cols = experts->cols_in(), .experts = static_cast<int>(experts->count())};
        for (size_t p = 0; p < static_cast<size_t>(experts->n_parts); ++p) {
          const std::string_view part = part_of(*experts, p);
          std::vector<MatrixName> names = expert_names(experts->parts[p].weights[e], part);
          names[0].gguf = fmt::format("blk.{}.ffn_{}_exps.weight", layer, part);
          names[0].gguf_expert = static_cast<int>(e);
          input.matrices.insert(input.matrices.end(), names.begin(), names.end());
        }
        inputs_.push_back(std::move(input));
      }
    }
  }
}

void LayerRunner::fill_batch(int64_t rows) {
  CHECK(rows > 0 && rows <= limits_.rows, "{} rows of at most {}", rows, limits_.rows);
  const auto n = static_cast<int>(rows);
  batch_.n_rows = n;
  batch_.n_seqs = 1;
  batch_.q_start = {0, n};
  batch_.kv_len = {n};
  for (int i = 0; i < n; ++i) {
    batch_.position[static_cast<size_t>(i)] = i;
    batch_.seq[static_cast<size_t>(i)] = 0;
    for (Batch::Group& group : batch_.groups) group.slot[static_cast<size_t>(i)] = i;
  }
  for (Batch::Group& group : batch_.groups)
    for (int p = 0; p < batch_.pages_per_seq; ++p) group.page_table[static_cast<size_t>(p)] = p;
}

void LayerRunner::enter(int64_t rows, const float* hidden) {
  const Tensor& in = program_.outputs.at("in");
  pool_.run(rows, [&](int64_t r, int) { std::copy_n(hidden + r * width_, width_, in.f32(r)); });
  batch_.n_logits = 0;
}

void LayerRunner::run(int64_t rows, float* hidden, const InputTap& tap) {
  enter(rows, hidden);
  run_nodes(1, program_.nodes.size(), rows, tap);
  const Tensor& out = program_.outputs.at("out");
  pool_.run(rows, [&](int64_t r, int) { std::copy_n(out.f32(r), width_, hidden + r * width_); });
}

void LayerRunner::read_inputs(int64_t rows, const float* hidden, const InputTap& tap) {
  enter(rows, hidden);
  // Of a Llama's layer this leaves out `down`, a quarter of its products.
  run_nodes(1, taps_.back().node, rows, tap);
}

void LayerRunner::close() {
  program_ = Program();
  arena_ = Memory();
  scratch_ = Memory();
  shared_ = Memory();
  kv_.reset();
  taps_.clear();
}

void LayerRunner::run_nodes(size_t begin, size_t end, int64_t rows, const InputTap& tap) {
  fill_batch(rows);
  Ctx ctx{.batch = batch_,
          .pool = pool_,
          .shape = {.tokens = rows, .logits = batch_.n_logits},
          .scratch = scratch_.data(),
          .scratch_bytes = scratch_bytes_,
          .shared = shared_.data()};
  auto next = taps_.begin();
  for (size_t n = begin; n < end; ++n) {
    if (tap && next != taps_.end() && next->node == n) show(*next++, ctx, tap);
    if (const auto* write = match<KvWrite>(program_.nodes[n]); write != nullptr && kv_tap_)
      kv_tap_(write->kv, write->k, write->v, rows);
    std::visit([&](auto& op) { cpu::run(op, ctx); }, program_.nodes[n].op);
  }
  if (tap && next != taps_.end()) show(*next, ctx, tap);
}

void LayerRunner::show(const Tapped& tapped, Ctx& ctx, const InputTap& tap) {
  if (auto* experts = match<ExpertLinear>(program_.nodes[tapped.node])) {
    show_experts(*experts, tapped.first, ctx, tap);
    return;
  }
  const Tensor& x = match<Linear>(program_.nodes[tapped.node])->x;
  tap(tapped.first, x.f32(0), ctx.rows(x), x.stride);
}

void LayerRunner::show_experts(const ExpertLinear& op, size_t first, Ctx& ctx, const InputTap& tap) {
  const int64_t rows = ctx.rows(op.x), used = op.used(), cols = op.cols_in();
  for (int64_t e = 0; e < op.count(); ++e) {
    gathered_.clear();
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < used; ++j) {
        if (op.experts.row<int32_t>(t)[j] != e) continue;
        const float* x = op.x.f32(t) + (op.by_place() ? j * cols : 0);
        const float scale = op.scale ? op.weights.f32(t)[j] : 1.0f;
        for (int64_t k = 0; k < cols; ++k) gathered_.push_back(x[k] * scale);
      }
    }
    const auto met = static_cast<int64_t>(gathered_.size()) / cols;
    if (met > 0) tap(first + static_cast<size_t>(e), gathered_.data(), met, cols);
  }
}

}  // namespace ingot
