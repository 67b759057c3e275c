// Which architecture of GGUF a model becomes, and where its published names and forms are others than GGUF's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weights/weights.h"

namespace ingot {

struct GgufTarget {
  std::string_view arch;    // ours
  std::string_view gguf;    // general.architecture
  ExpertForm experts = {};  // where all of a layer are one tensor
  bool expert_biases = false;
};

// Throws Error naming the architectures that can be written.
const GgufTarget& gguf_target(std::string_view arch);

// Of a vector or matrix of a layer, which GGUF names by its own rule: a router's bias that chooses, sinks of heads.
std::optional<std::string> gguf_layer_name(std::string_view canonical, int layer);

// Of a matrix of the MLP that every row meets: the name of its part where several are one (gate of gate and up), or are
// called otherwise; `canonical` itself for all others.
std::string shared_part(const std::string& canonical);

}  // namespace ingot
