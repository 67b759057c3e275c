// Fusion: a table of named rules over the node list. Each replaces ops by one op that gives the same bits; the first
// (tail_rows.h) gives them fewer rows.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ingot {

// The rules' names, in the order in which they run.
std::vector<std::string_view> fusion_rules();

// Applies every rule that is not in `off` ("all" switches all off). Returns how often each fired.
// Throws Error for a name in `off` that no rule has.
std::map<std::string_view, int> fuse(Graph& graph, const std::set<std::string>& off = {});

}  // namespace ingot
