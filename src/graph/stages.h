// Pipeline parallel: a graph in stages, each a range of its nodes with the layers of the KV cache that they read. What
// a stage computes for the next, the residual stream between two layers, is its named output kStageOut; the next stage
// reads it as kStageIn, which somebody fills before its body runs. The bits are those of the whole graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace ingot {

inline constexpr char kStageIn[] = "stage.in";
inline constexpr char kStageOut[] = "stage.out";

// `n` stages of a graph as a model wrote it, before fuse(); the bytes of their matrices are as even as layers allow,
// and the last has the head. Named outputs of the body are those of its last stage alone. Throws Error where there are
// fewer layers than stages.
std::vector<Graph> split_stages(const Graph& graph, int n);

}  // namespace ingot
