#include "cli/bench/bench_profile.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <string_view>

#include "cli/bench/pages/chart_page.h"
#include "graph/traits.h"

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

// What a step moves and computes at the node.
Cost cost_of(const Op& op, const ProfileStep& step) {
  const Shape shape{.tokens = step.rows, .logits = step.logits};
  const CacheUse use{.rows = static_cast<double>(step.rows), .positions = step.cache_rows, .pairs = step.pairs};
  const Cost cost = std::visit([&](const auto&o) { return o.cost(shape); }, op), cache = cache_cost(op, use);
  return {cost.bytes + cache.bytes, cost.flops + cache.flops};
}

void sort_lines(Profile& profile) {
  std::vector<size_t> order(profile.lines.size()), place(profile.lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, std::greater{}, [&](size_t i) { return profile.lines[i].seconds; });
  std::vector<ProfileLine> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    sorted.push_back(std::move(profile.lines[order[i]]));
  }
  profile.lines = std::move(sorted);
  for (ProfileNode& node : profile.nodes) node.line = place[node.line];
}

constexpr std::string_view kParts = R"html(
// The nodes of a step as a timeline, and added up by what they do as a table. `m` has the limits.
function step_profile(parent, one, m) {
  const p = one.profile, figure = element(parent, "figure"), W = 1000, total = p.timeline.reduce((s, n) => s + n[1], 0) || 1;
  const hues = [210, 25, 130, 275, 350, 60, 180, 305, 95, 240];
  element(figure, "h2", {}, `${one.title}: ${p.rows} rows, ${round(p.seconds * 1e3)} ms a step`);
  const color = i => i < hues.length ? `hsl(${hues[i]} 60% 55%)` : "hsl(0 0% 60%)";
  const svg = element(figure, "svg", { viewBox: `0 0 ${W} 60`, role: "img", "aria-label": one.title, preserveAspectRatio: "none" });
  let at = 0;
  for (const [line, seconds, label] of p.timeline) {
    const bar = element(svg, "rect", { x: W * at / total, y: 4, height: 52, width: W * seconds / total, fill: color(line) });
    element(bar, "title", {}, `${label}: ${round(seconds * 1e6)} µs, from ${round(at * 1e6)} µs on`);
    at += seconds;
  }
  const products = m.product_gflops || m.measured_bf16_gflops;
  const table = element(element(figure, "div", { class: "wide" }), "table"), head = element(table, "tr");
  for (const c of ["", "µs", "%", "nodes", "GB/s", "% of reading", "GFLOP/s", "% of products", "% of the nearer limit", "node"])
    element(head, "th", {}, c);
  p.nodes.forEach((n, i) => {
    const row = element(table, "tr"), s = Math.max(n.seconds, 1e-12);
    const reading = m.measured_read_gbs ? n.bytes / s / 1e7 / m.measured_read_gbs : NaN;
    const computing = products ? n.flops / s / 1e7 / products : NaN, nearer = Math.max(reading || 0, computing || 0);
    const percent = v => isNaN(v) ? "–" : round(v);
    element(element(row, "td"), "span", { class: "key", style: `background: ${color(i)}` });
    for (const v of [round(n.seconds * 1e6), round(100 * n.seconds / p.seconds), n.nodes, round(n.bytes / s / 1e9),
      percent(reading), round(n.flops / s / 1e9), percent(computing), nearer ? round(nearer) : "–", n.node])
      element(row, "td", {}, v);
  });
}
)html";

constexpr std::string_view kScript = R"html(element(body, "h1", {}, "Where the time of a step goes");
element(body, "p", {}, `${data.machine.gpu || data.machine.cpu}: reads ${round(data.machine.measured_read_gbs)} GB/s` +
  (data.machine.measured_bf16_gflops ? `, bf16 ${round(data.machine.measured_bf16_gflops / 1000)} TFLOP/s` : ""));
for (const one of data.profiles) step_profile(body, one, data.machine);
)html";

}  // namespace

Profile profile_steps(LocalEngine& engine, const ProfileStep& step, const std::function<bool()>& next) {
  using Clock = std::chrono::steady_clock;
  DeviceModel& device = engine.device();
  device.profile(true);
  const ExpertUse before = device.expert_use();
  int steps = 0;
  const auto start = Clock::now();
  while (next()) ++steps;
  Profile profile;
  profile.rows = step.rows;
  if (steps == 0) return profile;
  const ExpertUse after = device.expert_use();
  profile.experts = {.layers = after.layers - before.layers,
                     .touched = after.touched - before.touched,
                     .busiest = after.busiest - before.busiest};
  const double own = device.profiled_seconds();
  profile.seconds = (own > 0 ? own : std::chrono::duration<double>(Clock::now() - start).count()) / steps;

  const Program& program = device.program();
  std::map<std::string, size_t> index;
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    const std::string name = std::string(op_name(node.op)) + " " + without_layer(node.label);
    const auto [known, first] = index.emplace(name, profile.lines.size());
    if (first) profile.lines.push_back({.node = name});
    ProfileLine& line = profile.lines[known->second];
    const Cost cost = cost_of(node.op, step);
    const double seconds = device.node_seconds()[n] / steps;
    line.nodes++;
    line.seconds += seconds;
    line.bytes += cost.bytes;
    line.flops += cost.flops;
    profile.nodes.push_back({.line = known->second, .label = node.label, .seconds = seconds});
  }
  device.profile(false);
  sort_lines(profile);
  return profile;
}

void print_profile(const Profile& profile, const std::string& title, const BenchLimits& limits) {
  const auto percent = [](double value, double of) { return of > 0 ? fmt::format("{:.1f}", 100 * value / of) : "-"; };
  fmt::print("{}: {} rows, {:.3f} ms a step\n", title, profile.rows, profile.seconds * 1e3);
  fmt::print("{:>9} {:>6} {:>6} {:>8} {:>8} {:>9} {:>9}  {}\n", "ms", "%", "nodes", "GB/s", "% read", "GFLOP/s",
             "% product", "node");
  double left = profile.seconds;
  for (const ProfileLine& line : profile.lines) {
    const double seconds = std::max(line.seconds, 1e-12);
    const double gbs = line.bytes / seconds / 1e9, gflops = line.flops / seconds / 1e9;
    fmt::print("{:9.3f} {:6.1f} {:6} {:8.1f} {:>8} {:9.1f} {:>9}  {}\n", line.seconds * 1e3,
               100 * line.seconds / profile.seconds, line.nodes, gbs, percent(gbs, limits.read_gbs), gflops,
               percent(gflops, limits.product_gflops), line.node);
    left -= line.seconds;
  }
  fmt::print("{:9.3f} {:6.1f} {:6} {:>8} {:>8} {:>9} {:>9}  between nodes: scheduling, sampling\n", left * 1e3,
             100 * left / profile.seconds, "", "", "", "", "");
  if (const ExpertUse& use = profile.experts; use.layers > 0) {
    const double layers = static_cast<double>(use.layers);
    fmt::print("experts: a layer's rows met {:.1f} different ones, the busiest had {:.1f} rows (means of {} layers)\n",
               static_cast<double>(use.touched) / layers, static_cast<double>(use.busiest) / layers, use.layers);
  }
}

JsonObject profile_json(const Profile& profile) {
  JsonArray nodes, timeline;
  for (const ProfileLine& line : profile.lines) {
    nodes.push_back(JsonObject{{"node", line.node},
                               {"nodes", line.nodes},
                               {"seconds", line.seconds},
                               {"bytes", line.bytes},
                               {"flops", line.flops}});
  }
  for (const ProfileNode& node : profile.nodes) {
    timeline.push_back(JsonArray{node.line, node.seconds, node.label});
  }
  JsonObject json{{"rows", profile.rows}, {"seconds", profile.seconds}, {"nodes", nodes}, {"timeline", timeline}};
  if (const ExpertUse& use = profile.experts; use.layers > 0) {
    json["experts"] = JsonObject{{"layers", use.layers}, {"touched", use.touched}, {"busiest_rows", use.busiest}};
  }
  return json;
}

std::string_view profile_script() { return kParts; }

std::string profile_page(const JsonArray& profiles, const JsonObject& machine) {
  return chart_page("where the time of a step goes", {{"profiles", profiles}, {"machine", machine}},
                    std::string(profile_script()).append(kScript));
}

}  // namespace ingot
