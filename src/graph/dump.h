// The node list for people: shapes, bytes, places in the arena, and which rule made what.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/batch.h"

namespace ingot {

// One line for each node. REQUIRES: plan() has run with these limits.
std::string dump(Graph& graph, const StepLimits& limits);

// The parallel regions of each layer: every node is one, but for those that are no work to share.
std::vector<int> layer_regions(const Graph& graph);

}  // namespace ingot
