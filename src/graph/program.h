// A graph compiled for one target: nodes of its own, whose types, places and pointers are set once. A graph may have
// several programs at a time, on one device or on several, that know nothing of each other. It need not outlive them,
// but the weights in their published form must.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "ops/batch.h"

namespace ingot {

// What a program is for.
struct Target {
  StepLimits limits;             // of the largest step
  std::optional<DType> kv = {};  // of the KV cache; none: as the graph says
  bool bf16 = false;             // what ops round to bf16 anyway is stored so (lower.h)
};

// A graph whose nodes are bound to memory by those who own it: activations by bind_arena(), the KV cache by
// KvStore::bind(), weights on a device by DeviceWeights; packed copies of weights by prepare() of each op.
struct Program : Graph {
  StepLimits limits;
  std::vector<int64_t> offsets;  // of each value, in bytes into the arena; -1 for one that nothing uses
  int64_t arena_bytes = 0;
};

// Types and places of the graph's own copy. Reads no weight and takes no memory for activations.
Program compile(const Graph& graph, const Target& target);

// Points every tensor of every node, and the named outputs, into the arena.
void bind_arena(Program& program, std::byte* arena);

}  // namespace ingot
