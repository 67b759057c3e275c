#include "cli/bench_profile.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace ingot {
namespace {

// "layers.3.self_attn.q_proj" is the same node in every layer.
std::string without_layer(const std::string& label) {
  std::string out;
  for (size_t i = 0; i < label.size();) {
    const bool number = std::isdigit(static_cast<unsigned char>(label[i])) && i > 0 && label[i - 1] == '.';
    size_t end = i;
    while (number && end < label.size() && std::isdigit(static_cast<unsigned char>(label[end]))) ++end;
    if (number && (end == label.size() || label[end] == '.')) {
      out += "*";
      i = end;
    } else {
      out += label[i++];
    }
  }
  return out;
}

}  // namespace

Profile profile_steps(LocalEngine& engine, int rows, const std::function<bool()>& next) {
  using Clock = std::chrono::steady_clock;
  Runner& runner = engine.runner();
  runner.profile(true);
  int steps = 0;
  const auto start = Clock::now();
  while (next()) ++steps;
  Profile profile;
  profile.rows = rows;
  if (steps == 0) return profile;
  profile.seconds = std::chrono::duration<double>(Clock::now() - start).count() / steps;

  const Graph& graph = engine.model().graph;
  const Shape shape{.tokens = rows, .logits = 1};
  std::map<std::string, ProfileLine> lines;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const std::string name = std::string(op_name(node.op)) + " " + without_layer(node.label);
    ProfileLine& line = lines[name];
    const Cost cost = std::visit([&](const auto& op) { return op.cost(shape); }, node.op);
    line.node = name;
    line.nodes++;
    line.seconds += runner.node_seconds()[n] / steps;
    line.bytes += cost.bytes;
    line.flops += cost.flops;
  }
  runner.profile(false);
  for (auto& [name, line] : lines) profile.lines.push_back(std::move(line));
  std::ranges::sort(profile.lines, std::greater{}, &ProfileLine::seconds);
  return profile;
}

void print_profile(const Profile& profile, const std::string& title, double read_gbs) {
  fmt::print("{}: {} rows, {:.3f} ms a step\n", title, profile.rows, profile.seconds * 1e3);
  fmt::print("{:>9} {:>6} {:>6} {:>8} {:>8} {:>9}  {}\n", "ms", "%", "nodes", "GB/s", "% read", "GFLOP/s", "node");
  double left = profile.seconds;
  for (const ProfileLine& line : profile.lines) {
    const double seconds = std::max(line.seconds, 1e-12);
    const double gbs = line.bytes / seconds / 1e9;
    fmt::print("{:9.3f} {:6.1f} {:6} {:8.1f} {:8.1f} {:9.1f}  {}\n", line.seconds * 1e3,
               100 * line.seconds / profile.seconds, line.nodes, gbs, 100 * gbs / read_gbs, line.flops / seconds / 1e9,
               line.node);
    left -= line.seconds;
  }
  fmt::print("{:9.3f} {:6.1f} {:6} {:>8} {:>8} {:>9}  between nodes: scheduling, sampling\n", left * 1e3,
             100 * left / profile.seconds, "", "", "", "");
}

JsonObject profile_json(const Profile& profile) {
  JsonArray nodes;
  for (const ProfileLine& line : profile.lines) {
    nodes.push_back(JsonObject{{"node", line.node},
                               {"nodes", line.nodes},
                               {"seconds", line.seconds},
                               {"bytes", line.bytes},
                               {"flops", line.flops}});
  }
  return {{"rows", profile.rows}, {"seconds", profile.seconds}, {"nodes", nodes}};
}

}  // namespace ingot
