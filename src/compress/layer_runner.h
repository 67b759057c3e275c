// A model run layer by layer on the CPU: the rows of a chunk of text enter a layer and leave it, and what its matrices
// read on the way is shown to whoever asks. One layer is compiled at a time, so its packed weights are all that lies in
// memory beside the mapped file. Every architecture whose layers read nothing but the layer before them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/kv_store.h"
#include "graph/program.h"
#include "models/model.h"
#include "tensor/memory.h"

namespace ingot {

// A matrix by its canonical name; `expert` of a tensor that stacks experts, else -1.
struct MatrixName {
  std::string tensor;
  int expert = -1;
  std::string gguf = {};  // what llama.cpp calls the tensor; a layer's experts are one tensor there
  int gguf_expert = -1;
};

// The names of a graph's matrix: its own, and where each expert is a tensor of its own that which a stack of all would
// have. Without those of GGUF.
std::vector<MatrixName> matrix_names(const std::string& weight);

// A matrix that was encoded, or no bytes where it was not. `head_rows` as Weight has it.
struct EncodedMatrix {
  Format format = Format::kF32;
  int64_t rows = 0, cols = 0;
  std::span<const std::byte> bytes;
  int64_t head_rows = 0;
};
// By name and expert, as MatrixName has them.
using MatrixLookup = std::function<EncodedMatrix(const std::string& tensor, int expert)>;

// What some matrices of a layer read: the same rows.
struct LayerInput {
  std::vector<MatrixName> matrices;
  int64_t cols = 0;
  int experts = 0;  // of the layer, where these are an expert's; else 0
};

// Called with rows that an input had, `stride` values apart; several times for a chunk, or never.
using InputTap = std::function<void(size_t input, const float* x, int64_t rows, int64_t stride)>;

// Called with the rows of keys and values that a layer puts into its cache.
using KvTap = std::function<void(const KvLayer& kv, const Tensor& k, const Tensor& v, int64_t rows)>;

// How a model is loaded to be run so.
ModelOptions layer_options(int chunk_rows);

class LayerRunner {
 public:
  // `model` was loaded with layer_options() and outlives the runner; chunks have at most `chunk_rows` rows. Throws
  // Error where the architecture's layers cannot be run one by one.
  LayerRunner(const Model& model, int chunk_rows, ThreadPool& pool);

  int layers() const { return static_cast<int>(borders_.size()); }
  int64_t width() const { return width_; }
  int64_t vocab() const { return model_.graph.outputs.at("logits").cols; }
  int chunk_rows() const { return limits_.rows; }

  // The hidden state of each token before the first layer, [tokens, width].
  void embed(std::span<const int32_t> tokens, float* hidden);
  // Compiles the embedding, in place of a layer: for embed() with another table than the model's own.
  void open_embedding(const MatrixLookup& encoded = {});

  // Compiles a layer, in place of the one before. `encoded`: matrices that it reads in place of the model's own.
  void open(int layer, const MatrixLookup& encoded = {});
  const std::vector<LayerInput>& inputs() const { return inputs_; }
  // Takes a chunk through the open layer, in place: hidden is [rows, width].
  void run(int64_t rows, float* hidden, const InputTap& tap = {});
  // Shows a chunk's inputs alone: what the layer makes of the last of them is not computed.
  void read_inputs(int64_t rows, const float* hidden, const InputTap& tap);
  // Whom run() shows what goes into the caches; empty: nobody.
  void watch_kv(KvTap tap) { kv_tap_ = std::move(tap); }
  // The open layer's caches have another type and these scales, [kv heads], until the next open(). They must outlive
  // it.
  void set_kv(DType dtype, const float* k_scales, const float* v_scales);
  // Gives back the memory of the open layer. inputs() stay.
  void close();

  // Compiles the final norm and the head, in place of a layer.
  void open_head(const MatrixLookup& encoded = {});
  // Shows what the head's matrix reads for each row of such a chunk, some rows at a time. REQUIRES: the head is open.
  void read_head_inputs(int64_t rows, const float* hidden, const InputTap& tap);
  // Logits of some rows of a chunk that has passed all layers, [which, vocab]; they stand until the next call.
  // REQUIRES: the head is open, and `which` are at most kHeadRows.
  static constexpr int kHeadRows = 64;
  const Tensor& logits(int64_t rows, const float* hidden, std::span<const int32_t> which);

 private:
  struct Border {
    size_t begin, end;  // of its nodes
    Tensor in, out;
  };
  struct Tapped {  // where inputs are met
    size_t node;
    size_t first;  // of inputs_; of experts the first one's
  };

  void find_borders();
  Graph cut(const Border& border, size_t& first) const;
  Graph part(const Tensor& in, const Tensor& out) const;
  void compile_part(const Graph& graph);
  void add_inputs(int layer, size_t first);
  std::vector<MatrixName> linear_names(const Weight& weight) const;
  std::string gguf_or_own(const std::string& name) const;
  void replace(Weight& weight, const std::vector<MatrixName>& names, const MatrixLookup& encoded);
  void replace_all(Graph& graph, const MatrixLookup& encoded);
  void fill_batch(int64_t rows);
  void enter(int64_t rows, const float* hidden);
  void enter_head(int64_t rows, const float* hidden, std::span<const int32_t> which);
  int page_rows() const { return limits_.page_rows; }
  void run_nodes(size_t begin, size_t end, int64_t rows, const InputTap& tap);
  void bind_kv();
  void show(const Tapped& tapped, Ctx& ctx, const InputTap& tap);
  void show_experts(const ExpertLinear& op, size_t first, Ctx& ctx, const InputTap& tap);

  const Model& model_;
  ThreadPool& pool_;
  const StepLimits limits_;
  int64_t width_ = 0;
  std::vector<Border> borders_;
  size_t embed_end_ = 0;  // of the nodes before the first layer

  Batch batch_;
  Program program_;
  size_t first_ = 0;  // of the layer's own nodes in program_
  Memory arena_, scratch_, shared_;
  int64_t scratch_bytes_ = 0;
  std::unique_ptr<KvStore> kv_;
  std::vector<LayerInput> inputs_;
  std::vector<Tapped> taps_;
  std::vector<std::unique_ptr<std::byte[]>> aligned_;  // copies of encoded rows that lie at no whole address
  std::vector<float> gathered_;                        // rows of one expert
  KvTap kv_tap_;
};

}  // namespace ingot
