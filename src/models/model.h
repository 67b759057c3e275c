// An architecture is one file in this folder that defines `const Architecture arch_<file name>`; the list of all is
// written by CMake. A loaded model is its graph, its weights and its numbers.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/build.h"
#include "graph/fuse.h"
#include "graph/graph.h"
#include "graph/shard.h"
#include "weights/hparams.h"
#include "weights/weights.h"

namespace ingot {

class Config;
struct KvScales;
struct ModelFiles;

struct Architecture {
  const char* name;
  std::vector<std::string> hf_types;    // model_type of config.json
  std::vector<std::string> gguf_types;  // general.architecture of GGUF
  ArchNames names;
  // Adds what this architecture reads from the configuration beside the common numbers.
  void (*configure)(Hparams& hp, const Config& config);
  // Writes the graph.
  void (*build)(Build& b, const Hparams& hp);
};

const std::vector<const Architecture*>& architectures();

// The architecture of a model's files. Throws Error that lists the known ones.
const Architecture& find_architecture(const Config& config);

struct ModelOptions {
  int context = 0;           // 0: what the model was made for
  bool keep_hidden = false;  // of every layer
  bool keep_last = false;    // of the last one alone, which is what embeddings are made of
  DType kv = DType::kF32;
  std::set<std::string> fuse_off = {};  // rules that stay off; "all"
  int tp = 1;                           // ranks that share each layer of a stage (Model::ranks)
  int ep = 1;                           // the same, each with whole experts; tp is 1 or as many
  ShardForm tp_form = ShardForm::kGather;
  int own_rank = -1;  // ranks of all stages are processes, and this is this one's; -1: they are threads of this one
  // Figures on paper: own_rank alone exists, and leads. Of random matrices its own rows have values, others none.
  bool on_paper = false;
  // For ep: how often each expert of each layer was chosen; the busiest are repeated. Empty: nothing is known.
  std::vector<std::vector<int64_t>> expert_uses = {};
  int pp = 1;                     // stages, each with some of the layers
  bool random_on_device = false;  // random weights are left to the device that computes with them

  int ranks() const { return ep > tp ? ep : tp; }
};

struct Model {
  const Architecture* arch = nullptr;
  Hparams hp;
  int context = 0;                    // of the engine, at most hp.context
  std::shared_ptr<ModelFiles> files;  // null for random weights
  std::unique_ptr<Weights> weights;
  std::shared_ptr<const KvScales> kv_scales;  // null: the files have none
  Graph graph;
  // Each rank's part of it, where there are several (graph/shard.h, graph/stages.h): those of the last stage first.
  // Where ranks are processes, those of the others are empty: their weights are not this one's to read.
  std::vector<Graph> ranks;
  int stages = 1;
  std::map<std::string_view, int> fused;  // how often each rule fired

  // The numbers alone; reads no weight.
  static Hparams read_numbers(const ModelFiles& files);
  static Model load(const std::string& path, const ModelOptions& options);
  // Random weights for these numbers; hp.arch names the architecture.
  static Model random(const Hparams& hp, FormatChoice format, const ModelOptions& options);
};

}  // namespace ingot
