// Which cuts of a model fit the devices, by arithmetic: tensor-parallel ranks from the real cut of the graph
// (graph/shard.h), stages as ranges of layers. No weight is read and no device is used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "devices/device_list.h"
#include "graph/graph.h"
#include "models/model.h"

namespace ingot {

struct FitOptions {
  int context = 0;      // of each seq
  int seqs = 1;         // at once, each with its whole context
  int step_rows = 512;  // of the largest step
  DType kv = DType::kF16;
};

// Bytes that one rank keeps.
struct RankBytes {
  int64_t weights = 0;
  int64_t kv = 0;           // pages of all seqs
  int64_t activations = 0;  // at most: stages of several have a part of them
  int64_t reserve = 0;      // the device's own: contexts, kernels, scratch

  int64_t total() const { return weights + kv + activations + reserve; }
};

// tp ranks share each layer, pp stages follow each other.
struct Layout {
  int tp = 1, pp = 1;
  std::vector<RankBytes> ranks = {};  // [pp · tp]: the ranks of the first stage, of the second …
  std::string refusal = {};           // why it does not work here: the rank that lacks most; empty: it fits
  int64_t missing = 0;                // bytes that this one lacks
  std::string links = {};             // what the ranks of a stage speak by; empty: there is one
  // A token of one seq, on paper: weights over the memory's published speed and `carry_us` for each time that ranks
  // meet.
  double step_ms = 0;
  int replicas = 0;  // that the devices hold

  bool fits() const { return refusal.empty(); }
};

// A model that nobody loads: its graph, with weights that have sizes and no values.
class SizedModel {
 public:
  // Of a file or directory, or of the numbers of a published shape.
  static SizedModel of_files(const std::string& path, const FitOptions& options);
  static SizedModel of_shape(const Hparams& hp, FormatChoice format, const FitOptions& options);

  const Hparams& numbers() const { return model_.hp; }
  int context() const { return model_.context; }
  int64_t weight_bytes() const;
  // Every rank's graph, before it is fused. Throws Error where so many cannot share it.
  std::vector<Graph> cut(int tp);

 private:
  Model model_;
};

// Every tp and pp whose product is at most the number of devices, tp below the heads and pp below the layers. Devices
// are taken in their order: the first tp of them are the first stage.
std::vector<Layout> find_layouts(SizedModel& model, const Machine& machine, const std::vector<Device>& devices,
                                 const FitOptions& options);
// One of them. Throws Error where the counts do not go with model or devices.
Layout make_layout(SizedModel& model, const Machine& machine, const std::vector<Device>& devices,
                   const FitOptions& options, int tp, int pp);
// The one of those that fit whose step is shortest, of equal ones with the fewest devices; null: none fits.
const Layout* best_layout(const std::vector<Layout>& layouts);

}  // namespace ingot
