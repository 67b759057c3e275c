#include "graph/build.h"

#include "base/check.h"
#include "base/error.h"
#include "weights/kv_scales.h"

namespace ingot {

Tensor Build::embedding(const Names& w, int64_t vocab, int64_t dim, Embedding::By by) {
  Embedding op;
  const TakeOptions take{.shard = by == Embedding::By::kToken ? Shard::kVocab : Shard::kNone};
  op.table = weights_.take(w.weight(), vocab, dim, take);
  op.out = graph_.add_value(kTokenRows, dim);
  op.by = by;
  const Tensor out = op.out;
  emit(std::move(op), w.path());
  return out;
}

Tensor Build::linear(const Tensor& x, const Names& w, const LinearSpec& spec) {
  Linear op;
  op.x = x;
  op.parts[0].weight = weights_.take(w.weight(), spec.out, x.cols, spec.take);
  if (spec.bias) op.parts[0].bias = weights_.vector(w.bias(), spec.out, 0, spec.take);
  op.parts[0].out = graph_.add_value(x.rows, spec.out);
  const Tensor out = op.parts[0].out;
  emit(std::move(op), w.path());
  return out;
}

Tensor Build::linear(const Tensor& x, const Weight& weight, const std::string& label, const Weight& bias) {
  CHECK(weight.cols == x.cols, "{}: {} inputs for {} columns", label, weight.cols, x.cols);
  Linear op;
  op.x = x;
  op.parts[0].weight = weight;
  op.parts[0].bias = bias;
  op.parts[0].out = graph_.add_value(x.rows, weight.rows);
  const Tensor out = op.parts[0].out;
  emit(std::move(op), label);
  return out;
}

Tensor Build::rms_norm(const Tensor& x, const Names& w, float eps, float offset, int64_t width) {
  RmsNorm op;
  op.x = x;
  op.width = width ? width : x.cols;
  op.weight = weights_.vector(w.weight(), op.width, offset);
  op.out = like(x);
  op.eps = eps;
  const Tensor out = op.out;
  emit(std::move(op), w.path());
  return out;
}

Tensor Build::rms_norm(const Tensor& x, float eps, int64_t width, const std::string& label) {
  RmsNorm op;
  op.x = x;
  op.width = width;
  op.weight = weights_.ones(label, width);
  op.out = like(x);
  op.eps = eps;
  const Tensor out = op.out;
  emit(std::move(op), label);
  return out;
}

Tensor Build::layer_norm(const Tensor& x, const Names& w, float eps) {
  LayerNorm op;
  op.x = x;
  op.weight = weights_.vector(w.weight(), x.cols);
  op.bias = weights_.vector(w.bias(), x.cols);
  op.out = like(x);
  op.eps = eps;
  const Tensor out = op.out;
  emit(std::move(op), w.path());
  return out;
}

const Tensor& Build::rope_table(const RopeSpec& spec) {
  for (const auto& [known, table] : rope_tables_) {
    if (known == spec) return table;
  }
  const RopeFrequencies frequencies = rope_frequencies(spec, options_.context);
  RopeTable op;
  op.inv_freq = frequencies.inv_freq;
  op.magnitude = frequencies.magnitude;
  op.out = graph_.add_value(kTokenRows, spec.rotary_dim());
  const Tensor out = op.out;
  emit(std::move(op), "rope_table");
  rope_tables_.emplace_back(spec, out);
  return rope_tables_.back().second;
}

void Build::rope(const Tensor& q, const Tensor& k, const RopeSpec& spec, int q_head, int q_first) {
  const Tensor table = rope_table(spec);
  emit(Rope{.q = q,
            .k = k,
            .table = table,
            .head_dim = spec.head_dim,
            .interleaved = spec.interleaved,
            .q_head = q_head,
            .q_first = q_first},
       "rope");
}

void Build::position_scale(const Tensor& x, int period, float beta, int offset) {
  emit(PositionScale{.x = x, .period = period, .offset = offset, .beta = beta}, "position_scale");
}

Tensor Build::head_linear(const Tensor& x, const Weight& weight, int heads, int64_t tail, const std::string& label) {
  CHECK(x.cols == heads * (weight.cols + tail) && weight.rows % heads == 0, "{}: {} columns for {} heads of {} and {}",
        label, x.cols, heads, weight.cols, tail);
  HeadLinear op;
  op.x = x;
  op.weight = weight;
  op.heads = heads;
  op.tail = tail;
  op.out = graph_.add_value(x.rows, weight.rows + heads * tail);
  const Tensor out = op.out;
  emit(std::move(op), label);
  return out;
}

KvLayer Build::kv_layer(const AttentionSpec& spec, const Names& w) {
  DType dtype = options_.kv;
  const int number = layer_number(w.path());
  const KvScales::Layer* scales =
      options_.kv_scales != nullptr && !spec.latent ? options_.kv_scales->find(number, spec.kv_heads) : nullptr;
  if (scales != nullptr && scales->keep) dtype = DType::kF16;
  if (dtype == DType::kInt8 && (scales == nullptr || scales->k.empty() || scales->v.empty()))
    throw Error("[kv] layer {} has no scales for int8{}; q8_0 needs none", number,
                spec.latent ? ", its cache is a latent" : "");
  const KvGroupSpec kind{.kv_heads = spec.kv_heads,
                         .k_dim = spec.k_dim,
                         .v_dim = spec.v_dim,
                         .dtype = dtype,
                         .window = spec.window,
                         .latent = spec.latent};
  size_t g = 0;
  while (g < graph_.kv_groups.size() && !graph_.kv_groups[g].same_kind(kind)) ++g;
  if (g == graph_.kv_groups.size()) graph_.kv_groups.push_back(kind);
  KvLayer layer;
  layer.group = static_cast<int>(g);
  layer.index = graph_.kv_groups[g].n_layers++;
  layer.kv_heads = spec.kv_heads;
  layer.k_dim = spec.k_dim;
  layer.v_dim = spec.v_dim;
  layer.dtype = dtype;
  layer.latent = spec.latent;
  if (scales != nullptr && !scales->keep) {
    if (!scales->k.empty()) layer.k_scales = scales->k.data();
    if (!scales->v.empty()) layer.v_scales = scales->v.data();
  }
  return layer;
}

Tensor Build::attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& given, const Names& w) {
  AttentionSpec spec = given;
  if (spec.chunked && options_.context <= spec.window) {  // one chunk: every row sees all before it
    spec.chunked = false;
    spec.window = 0;
  }
  const KvLayer layer = kv_layer(spec, w);
  emit(KvWrite{.k = k, .v = v, .kv = layer}, w["kv_write"].path());
  Attention op;
  op.q = q;
  op.out = graph_.add_value(q.rows, static_cast<int64_t>(spec.heads) * spec.v_dim);
  op.kv = layer;
  op.heads = spec.heads;
  op.window = spec.window;
  op.chunked = spec.chunked;
  op.scale = spec.scale;
  op.softcap = spec.softcap;
  op.sinks = spec.sinks;
  const Tensor out = op.out;
  emit(std::move(op), w.path());
  return out;
}

Tensor Build::glu(const Tensor& gate, const Tensor& up, ActivationKind kind) {
  const Tensor out = like(up);
  emit(Glu{.gate = gate, .up = up, .out = out, .kind = kind}, "glu");
  return out;
}

Tensor Build::activation(const Tensor& x, ActivationKind kind) {
  const Tensor out = like(x);
  emit(Activation{.x = x, .out = out, .kind = kind}, std::string(activation_name(kind)));
  return out;
}

Routed Build::route(const Tensor& logits, const RouterSpec& spec, int used, const Weight& bias, const Names& w) {
  RouterTopk op;
  op.logits = logits;
  op.bias = bias;
  op.experts = graph_.add_value(logits.rows, used, DType::kI32);
  op.weights = graph_.add_value(logits.rows, used);
  op.spec = spec;
  const Routed routed{op.experts, op.weights};
  emit(std::move(op), w["topk"].path());
  return routed;
}

Tensor Build::experts_glu(const Tensor& x, const Routed& routed, const Names& w, const ExpertsSpec& spec,
                          ActivationKind kind, bool scaled) {
  ExpertLinear op;
  op.x = x;
  op.experts = routed.experts;
  op.n_parts = 2;
  for (const ExpertPart part : {ExpertPart::kGate, ExpertPart::kUp}) {
    ExpertLinear::Part& to = op.parts[static_cast<size_t>(part)];
    to.weights = weights_.experts(w.path(), part, spec.count, spec.out, x.cols, spec.form);
    if (spec.bias) to.bias = weights_.expert_bias(w.path(), part, spec.count, spec.out, spec.form);
  }
  op.glu = kind;
  op.scale = scaled;
  if (scaled) op.weights = routed.weights;
  op.places = graph_.add_value(x.rows, routed.experts.cols * spec.out);
  const Tensor out = op.places;
  emit(std::move(op), w["gate_proj + up_proj"].path());
  return out;
}

Tensor Build::experts_down(const Tensor& x, const Routed& routed, const Names& w, const ExpertsSpec& spec,
                           bool scaled) {
  ExpertLinear op;
  op.x = x;
  op.experts = routed.experts;
  const int64_t cols = x.cols / routed.experts.cols;
  op.parts[0].weights = weights_.experts(w.path(), ExpertPart::kDown, spec.count, spec.out, cols, spec.form);
  if (spec.bias) op.parts[0].bias = weights_.expert_bias(w.path(), ExpertPart::kDown, spec.count, spec.out, spec.form);
  if (!scaled) op.weights = routed.weights;
  op.places = graph_.add_value(x.rows, routed.experts.cols * spec.out);
  op.out = graph_.add_value(x.rows, spec.out);
  const Tensor out = op.out;
  emit(std::move(op), w["down_proj"].path());
  return out;
}

Tensor Build::add(const Tensor& a, const Tensor& b) {
  const Tensor out = like(a);
  emit(Add{.a = a, .b = b, .out = out}, "add");
  return out;
}

Tensor Build::scale(const Tensor& x, float factor) {
  if (factor == 1) return x;
  const Tensor out = like(x);
  emit(Scale{.x = x, .out = out, .factor = factor}, "scale");
  return out;
}

Tensor Build::softcap(const Tensor& x, float cap) {
  if (cap == 0) return x;
  const Tensor out = like(x);
  emit(Softcap{.x = x, .out = out, .cap = cap}, "softcap");
  return out;
}

Tensor Build::gather_logit_rows(const Tensor& x) {
  graph_.head_begin = graph_.nodes.size();
  const Tensor out = graph_.add_value(kLogitRows, x.cols, x.dtype);
  emit(GatherRows{.x = x, .out = out}, "gather_logit_rows");
  return out;
}

void Build::output(const std::string& name, const Tensor& t) {
  graph_.values[static_cast<size_t>(t.value)].keep = true;
  graph_.outputs[name] = t;
}

void Build::hidden(int i, const Tensor& t) {
  if (options_.keep_hidden) output("hidden." + std::to_string(i), t);
}

}  // namespace ingot
