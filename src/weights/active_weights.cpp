#include "weights/active_weights.h"

#include <cmath>

#include "weights/model_files.h"
#include "weights/stored_tensors.h"

namespace ingot {

ActiveWeights active_weights(const ModelFiles& files, const Hparams& hp, int rows) {
  const double used = static_cast<double>(hp.experts.used) / hp.experts.count;
  const double touched = 1 - std::pow(1 - used, rows);
  ActiveWeights active;
  for (const StoredTensor& tensor : stored_tensors(files)) {
    double values = 1;
    for (const int64_t d : tensor.shape) values *= static_cast<double>(d);
    const bool expert =
        tensor.name.find(".experts.") != std::string::npos || tensor.name.find("_exps.") != std::string::npos;
    const bool table =
        !hp.tied && (tensor.name.find("embed_tokens") != std::string::npos || tensor.name == "token_embd.weight");
    active.parameters += values * (expert ? used : 1);
    active.step_bytes += static_cast<double>(tensor.bytes) * (expert ? touched : table ? 0 : 1);
  }
  return active;
}

}  // namespace ingot
