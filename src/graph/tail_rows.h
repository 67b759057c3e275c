// The end of the last layer, for the rows whose logits are wanted.
#pragma once

#include "graph/graph.h"

namespace ingot {

// Moves what follows the last attention, and works row by row, from the body into the head: its inputs are gathered
// instead of its result, so a prompt of 512 tokens passes the last MLP with one row. Gives the same bits, as every
// row's sums are its own. Nothing moves where a value on the way is a named output, such as the last hidden state.
// Returns how many nodes moved. REQUIRES: nothing is fused yet.
int tail_rows(Graph& graph);

}  // namespace ingot
