// What is known of a rank whose others do not exist: the bytes of its cut, and what a meeting of ranks costs here.
#pragma once

#include <cstdint>

#include "models/model.h"

namespace ingot {

// In their published formats; each is counted once, however many nodes read it.
struct CutBytes {
  int64_t cut = 0;    // of weights that the ranks of a stage share: of all ranks together what the model has of them
  int64_t whole = 0;  // that every rank of the stage has: norms, routers, the embedding

  int64_t all() const { return cut + whole; }
};
// REQUIRES: model.ranks has the rank.
CutBytes rank_bytes(const Model& model, int rank);
int64_t model_bytes(const Model& model);

// Microseconds of a collective of two threads that carries one number: the synchronization alone. 0 on one core, where
// nothing can be measured.
double measure_sync_us();

}  // namespace ingot
