// ingot bench --profile: where a step's time goes, by node, as a table and as a timeline.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/bench_limits.h"
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

// One node of the step, in order.
struct ProfileNode {
  size_t line = 0;  // in Profile::lines
  std::string label;
  double seconds = 0;
};

struct Profile {
  std::vector<ProfileLine> lines;  // the slowest first
  std::vector<ProfileNode> nodes;
  double seconds = 0;  // of one step; on the CPU with sampling and bookkeeping
  int rows = 0;        // of one step
  ExpertUse experts;   // of all steps
};

// What a step does, for its cost: how much of the cache it reads follows from no shape.
struct ProfileStep {
  int rows = 0;
  int logits = 1;
  double cache_rows = 0;  // positions of the cache that are read, each seq's once
  double pairs = 0;       // of a row and a position that it sees
};

// Runs one step after the other while `next()` says so; the profile is the mean of a step.
Profile profile_steps(LocalEngine& engine, const ProfileStep& step, const std::function<bool()>& next);

void print_profile(const Profile& profile, const std::string& title, const BenchLimits& limits);
JsonObject profile_json(const Profile& profile);
// For a script of chart_page(): defines step_profile(parent, {title, profile}, machine), whose machine is that of
// machine_json().
std::string_view profile_script();
// `profiles` is a list of {title, profile}: the page of all of them.
std::string profile_page(const JsonArray& profiles, const JsonObject& machine);

}  // namespace ingot
