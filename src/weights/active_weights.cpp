#include "weights/active_weights.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "weights/model_files.h"
#include "weights/stored_tensors.h"

namespace ingot {
namespace {

bool contains(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// One of the experts that a router chooses among, or all of them.
bool of_experts(const std::string& name) {
  return contains(name, ".experts.") || contains(name, "_exps.") || contains(name, "block_sparse_moe.input_linear") ||
         contains(name, "block_sparse_moe.output_linear");
}

bool behind_the_last(const std::string& name, int layers) {
  if (contains(name, "model.mtp")) return true;
  for (const std::string prefix : {"layers.", "blk."}) {
    const size_t at = name.find(prefix);
    if (at != std::string::npos) return std::atoi(name.c_str() + at + prefix.size()) >= layers;
  }
  return false;
}

}  // namespace

ActiveWeights active_weights(const ModelFiles& files, const Hparams& hp, int rows) {
  const double used = hp.experts.count > 0 ? static_cast<double>(hp.experts.used) / hp.experts.count : 1;
  const double touched = 1 - std::pow(1 - used, rows);
  ActiveWeights result;
  for (const StoredTensor& tensor : stored_tensors(files)) {
    if (behind_the_last(tensor.name, hp.layers)) continue;
    const bool expert = of_experts(tensor.name);
    const bool table = !hp.tied && (contains(tensor.name, "embed_tokens") || tensor.name == "token_embd.weight");
    result.parameters += tensor.parameters;
    result.active += static_cast<double>(tensor.parameters) * (expert ? used : 1);
    result.step_bytes += static_cast<double>(tensor.bytes) * (expert ? touched : table ? 0 : 1);
  }
  return result;
}

}  // namespace ingot
