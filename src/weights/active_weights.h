// What a model with experts reads of its weights, from the headers of its files alone.
#pragma once

#include <cstdint>

#include "weights/hparams.h"

namespace ingot {

struct ModelFiles;

struct ActiveWeights {
  double parameters = 0;  // that a row meets
  double step_bytes = 0;  // of the weights that a step of `rows` rows is expected to read, tables of tokens left out
};

// Where each expert is as likely as the others. REQUIRES: experts.count > 0.
ActiveWeights active_weights(const ModelFiles& files, const Hparams& hp, int rows);

}  // namespace ingot
