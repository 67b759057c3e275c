// Which experts of a layer each rank has, where experts are spread over ranks. Every expert is on one rank or several.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

struct Graph;

using ExpertShares = std::vector<std::vector<int32_t>>;  // [ranks] experts, ascending

// `count` experts on so many ranks. Without `uses` expert e is on rank e % ranks alone: what is chosen together often
// lies together (groups of a router), and so lies apart. With uses, how often each was chosen: each rank has one expert
// more than its even share, the busiest are repeated, and each copy goes to the rank that has least to do.
// Throws Error where there are more ranks than experts.
ExpertShares share_experts(int64_t count, int ranks, std::span<const int64_t> uses = {});

// Those of each layer with experts, in order; none where the graph has none. `uses` of each layer, or empty. Throws
// Error where they are of other numbers.
std::vector<ExpertShares> share_layers(const Graph& graph, int ranks, std::span<const std::vector<int64_t>> uses);

}  // namespace ingot
