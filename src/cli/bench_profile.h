// ingot bench --profile: where a step's time goes, by node.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "files/json.h"

namespace ingot {

// The nodes of all layers that do the same, added up.
struct ProfileLine {
  std::string node;    // "linear self_attn.q_proj + k_proj + v_proj"
  int nodes = 0;       // how many of them a step has
  double seconds = 0;  // of one step
  double bytes = 0;    // of one step, in the published formats
  double flops = 0;
};

struct Profile {
  std::vector<ProfileLine> lines;  // the slowest first
  double seconds = 0;              // of one step, sampling and bookkeeping included
  int rows = 0;                    // of one step
};

// Runs one step after the other while `next()` says so; the profile is the mean of a step of `rows` rows.
Profile profile_steps(LocalEngine& engine, int rows, const std::function<bool()>& next);

void print_profile(const Profile& profile, const std::string& title, double read_gbs);
JsonObject profile_json(const Profile& profile);

}  // namespace ingot
