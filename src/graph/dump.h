// The node list for people: shapes, bytes, places in the arena, and which rule made what.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"

namespace ingot {

// One line for each node.
std::string dump(const Program& program);

// The parallel regions of each layer: every node is one, but for those that are no work to share.
std::vector<int> layer_regions(const Graph& graph);

}  // namespace ingot
