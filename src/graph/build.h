// The builder that model files write plain maths with. Every call appends one op and gives its result.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "weights/hparams.h"
#include "weights/weights.h"

namespace ingot {

struct KvScales;

struct BuildOptions {
  int context = 0;                      // of the engine: the length-dependent kinds of rope are chosen from it
  bool keep_hidden = false;             // name and keep the hidden state after the embedding and after each layer
  bool keep_last = false;               // the last of them alone, after the final norm, as kLastHidden
  DType kv = DType::kF32;               // of the KV cache
  const KvScales* kv_scales = nullptr;  // what the model's files say of 8-bit caches; null: nothing. The graph keeps it
};

// The output that holds the hidden state of every row after the final norm.
inline constexpr const char* kLastHidden = "hidden";

// A path of weight names: w["self_attn.q_proj"] is "model.layers.3.self_attn.q_proj".
class Names {
 public:
  explicit Names(std::string path) : path_(std::move(path)) {}
  Names operator[](std::string_view part) const { return Names(path_ + "." + std::string(part)); }
  const std::string& path() const { return path_; }
  std::string weight() const { return path_ + ".weight"; }
  std::string bias() const { return path_ + ".bias"; }

 private:
  std::string path_;
};

// The heads of one layer's attention.
struct AttentionSpec {
  int heads = 0, kv_heads = 0, k_dim = 0, v_dim = 0;
  int window = 0;
  bool chunked = false;  // the window is the row's own chunk (ops/attention)
  float scale = 1;
  float softcap = 0;
  Weight sinks = {};    // [heads] f32, or none
  bool latent = false;  // k is the rotary part, v the latent (ops/kv_cache.h)
};

struct LinearSpec {
  int64_t out = 0;  // N
  bool bias = false;
  TakeOptions take;
};

// The experts of each row and what they count.
struct Routed {
  Tensor experts;  // [T, k] i32
  Tensor weights;  // [T, k]
};

// The matrices of all experts of a layer.
struct ExpertsSpec {
  int64_t count = 0;  // E
  int64_t out = 0;    // N
  bool bias = false;
  ExpertForm form;
};

class Build {
 public:
  Build(Graph& graph, Weights& weights, const BuildOptions& options)
      : graph_(graph), weights_(weights), options_(options) {}

  Names names(const std::string& path, int i) const { return Names(path + "." + std::to_string(i)); }
  Weights& weights() { return weights_; }
  const BuildOptions& options() const { return options_; }

  Tensor embedding(const Names& w, int64_t vocab, int64_t dim, Embedding::By by = Embedding::By::kToken);
  Tensor linear(const Tensor& x, const Names& w, const LinearSpec& spec);
  // x · Wᵀ with a weight that is already taken (a tied head).
  Tensor linear(const Tensor& x, const Weight& weight, const std::string& label, const Weight& bias = {});
  // Over each `width` columns; 0: over the whole row. `offset` is added to the stored weights.
  Tensor rms_norm(const Tensor& x, const Names& w, float eps, float offset = 0, int64_t width = 0);
  // Without weights; `label` names it in dumps.
  Tensor rms_norm(const Tensor& x, float eps, int64_t width, const std::string& label);
  Tensor layer_norm(const Tensor& x, const Names& w, float eps);
  // Rotates q and k in place. Heads of q may have more: q_head values, the rotated ones from q_first on (0: as k's).
  void rope(const Tensor& q, const Tensor& k, const RopeSpec& spec, int q_head = 0, int q_first = 0);
  // Multiplies x in place by what grows with the position (ops/position_scale).
  void position_scale(const Tensor& x, int period, float beta, int offset = 0);
  // A product for each head with its rows of the weight; the last `tail` columns of a head of x are kept behind it.
  Tensor head_linear(const Tensor& x, const Weight& weight, int heads, int64_t tail, const std::string& label);
  // Writes k and v into the cache of a new KV layer and attends over it.
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec, const Names& w);
  // A gate of one column is of all columns.
  Tensor glu(const Tensor& gate, const Tensor& up, ActivationKind kind);
  Tensor activation(const Tensor& x, ActivationKind kind);
  // The `used` experts of each row by the router's logits. `bias` chooses, where there is one, but does not weigh.
  Routed route(const Tensor& logits, const RouterSpec& spec, int used, const Weight& bias, const Names& w);
  // f(gate) · up of each row's experts, [T, k · N], from the experts below `w`. `scaled`: rows are multiplied by their
  // experts' weights first.
  Tensor experts_glu(const Tensor& x, const Routed& routed, const Names& w, const ExpertsSpec& spec,
                     ActivationKind kind, bool scaled = false);
  // down of each of them, added with their weights; all weights 1 where rows were `scaled`. x: [T, k · K].
  Tensor experts_down(const Tensor& x, const Routed& routed, const Names& w, const ExpertsSpec& spec,
                      bool scaled = false);
  Tensor add(const Tensor& a, const Tensor& b);
  Tensor scale(const Tensor& x, float factor);  // x itself where the factor is 1
  Tensor softcap(const Tensor& x, float cap);   // x itself where the cap is 0
  // Begins the head: everything after works on the rows whose logits are wanted.
  Tensor gather_logit_rows(const Tensor& x);

  // Names a value; it lives until the next step.
  void output(const std::string& name, const Tensor& t);
  // The same for hidden states, which are kept only when asked for.
  void hidden(int i, const Tensor& t);

 private:
  Tensor like(const Tensor& x) { return graph_.add_value(x.rows, x.cols, x.dtype); }
  template <class T>
  void emit(T op, std::string label) {
    graph_.nodes.push_back({.op = std::move(op), .label = std::move(label), .made_by = {}});
  }
  const Tensor& rope_table(const RopeSpec& spec);
  KvLayer kv_layer(const AttentionSpec& spec, const Names& w);

  Graph& graph_;
  Weights& weights_;
  const BuildOptions options_;
  std::vector<std::pair<RopeSpec, Tensor>> rope_tables_;  // one for each kind of rope
};

}  // namespace ingot
