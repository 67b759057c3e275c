// What a model has of weights and what a step reads of them, from the headers of its files alone.
#pragma once

#include <cstdint>

#include "weights/hparams.h"

namespace ingot {

struct ModelFiles;

// Layers behind the last, which predict further tokens, are not counted: no graph reads them.
struct ActiveWeights {
  int64_t parameters = 0;  // in all
  double active = 0;       // of them, that a row meets
  double step_bytes = 0;   // of the weights that a step of `rows` rows is expected to read, tables of tokens left out
};

// Where each expert is as likely as the others.
ActiveWeights active_weights(const ModelFiles& files, const Hparams& hp, int rows);

}  // namespace ingot
