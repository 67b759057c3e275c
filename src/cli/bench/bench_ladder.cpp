// ingot bench ladder [OPERATOR…]: every step of an operator's kernels, from plain to the one that serves.
#include "cli/bench/bench_ladder.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "app/device.h"
#include "bench/machine.h"
#include "cli/bench/bench.h"
#include "cli/engine_options.h"
#include "cli/interrupt.h"
#include "files/json.h"
#include "ladder/ladder.h"
#include "matmul/cpu/kernels.h"

namespace ingot {
namespace {

using ladder::LadderTimes;
using ladder::Limits;

JsonObject rival_json(const LadderTimes& times, const ladder::RivalTime& rival) {
  JsonObject result{{"name", rival.name}};
  if (!rival.absent.empty()) {
    result["absent"] = rival.absent;
  } else {
    result["seconds"] = rival.seconds;
    result["figure"] = times.figure(rival.seconds);
  }
  return result;
}

JsonArray steps_json(const LadderTimes& times, double limit) {
  JsonArray steps;
  double before = 0;
  for (const ladder::StepTime& t : times.steps) {
    const bool timed = t.seconds > 0;
    steps.push_back(JsonObject{{"order", t.step->order},
                               {"name", t.step->name},
                               {"reason", t.step->reason},
                               {"source", t.step->source},
                               {"hash", t.step->hash},
                               {"seconds", t.seconds},
                               {"figure", times.figure(t.seconds)},
                               {"percent_of_limit", timed ? 100 * limit / t.seconds : 0},
                               {"gain", timed && before > 0 ? Json(before / t.seconds) : Json(nullptr)}});
    before = t.seconds;
  }
  return steps;
}

// Best rival's time / the last step's, which is what serves where something does; null where one is missing.
Json ratio_json(const LadderTimes& times) {
  const double ours = times.steps.empty() ? 0 : times.steps.back().seconds;
  double theirs = 0;
  for (const ladder::RivalTime& t : times.rivals)
    if (t.seconds > 0 && (theirs == 0 || t.seconds < theirs)) theirs = t.seconds;
  return ours > 0 && theirs > 0 ? Json(theirs / ours) : Json(nullptr);
}

JsonObject ladder_json(const LadderTimes& times, const Limits& limits, bool cuda) {
  JsonArray size, rivals;
  for (const int64_t n : times.size) size.push_back(n);
  for (const ladder::RivalTime& rival : times.rivals) rivals.push_back(rival_json(times, rival));
  const double limit = limits.seconds(times);
  return {{"op", times.op},         {"device", cuda ? "cuda" : "cpu"},
          {"shape", times.shape()}, {"size", size},
          {"dtype", times.dtype},   {"variant", times.variant},
          {"bytes", times.bytes},   {"flops", times.flops},
          {"unit", times.unit},     {"limit", limits.name(times)},
          {"limit_seconds", limit}, {"steps", steps_json(times, limit)},
          {"rivals", rivals},       {"ratio_to_best_rival", ratio_json(times)}};
}

void print_ladder(const LadderTimes& times, const Limits& limits) {
  const double limit = limits.seconds(times);
  fmt::print("\n{}, {}: at least {:.1f} us ({})\n", times.op, times.shape(), limit * 1e6, limits.name(times));
  fmt::print("{:<24} {:>11} {:>10} {:>6} {:>7}\n", "step", "us", times.unit, "%", "gain");
  const auto line = [&](const std::string& name, double seconds, double before) {
    fmt::print("{:<24} {:11.1f} {:10.1f} {:6.1f} {:>7}\n", name, seconds * 1e6, times.figure(seconds),
               seconds > 0 ? 100 * limit / seconds : 0,
               seconds > 0 && before > 0 ? fmt::format("{:.2f}", before / seconds) : "");
  };
  double before = 0;
  for (const ladder::StepTime& t : times.steps) {
    line(fmt::format("{} {}", t.step->order, t.step->name), t.seconds, before);
    before = t.seconds;
  }
  for (const ladder::RivalTime& rival : times.rivals) {
    if (rival.absent.empty()) {
      line(rival.name, rival.seconds, 0);
    } else {
      fmt::print("{:<24} {}\n", rival.name, rival.absent);
    }
  }
  std::fflush(stdout);
}

struct Options {
  std::vector<std::string> names;
  std::string rivals = "tools/rivals.py";
  OpenOptions open;  // of it the device and the threads count
  CommonOptions common;
};

int run(const Options& options) {
  LadderOptions ladder{.names = options.names,
                       .rivals = options.rivals,
                       .device = cuda_index(options.open.device) >= 0 ? choose_one_device(options.open.device) : -1,
                       .threads = options.open.engine.threads,
                       .print = !options.common.json};
  const JsonObject report = bench_ladder(ladder);
  if (options.common.json) fmt::print("{}\n", to_json(report));
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("OPERATOR", options->names, "Operators, such as softmax transpose (default: all)")->type_name("");
  app.add_option("--rivals", options->rivals, "Other libraries, by this program where it is there (- : none)")
      ->type_name("FILE");
  for (const char* name : {"--threads", "--device"}) add_engine_option(app, name, options->open);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

JsonObject bench_ladder(const LadderOptions& options) {
  struct Enough {};
  const InterruptGuard guard;
  const auto start = std::chrono::steady_clock::now();
  const bool cuda = options.device >= 0;
  JsonObject machine{{"cpu", cpu_name()}, {"gpu", nullptr}};
  JsonArray ladders, missing;
  std::unique_ptr<ladder::Rivals> rivals;
  if (options.rivals != "-" && std::filesystem::exists(options.rivals)) {
    rivals = std::make_unique<ladder::Rivals>(options.rivals);
  } else {
    missing.push_back(Json(fmt::format("rivals: there is no {}", options.rivals)));
  }
  Limits limits;
  ladder::Listener listener;
  listener.begin = [&](const std::string& device, const Limits& measured) {
    limits = measured;
    if (cuda) machine["gpu"] = device;
    if (!options.print) return;
    fmt::print("{}: reads {:.1f} GB/s, copies {:.1f}, float32 {:.0f} and bf16 {:.0f} GFLOP/s\n", device,
               limits.read_gbs, limits.copy_gbs, limits.f32_gflops, limits.bf16_gflops);
    fmt::print("%: of the nearer limit; gain: over the step before\n");
  };
  listener.each = [&](const LadderTimes& times) {
    if (interrupted()) throw Interrupted();
    ladders.push_back(ladder_json(times, limits, cuda));
    if (options.print) print_ladder(times, limits);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (options.most_seconds > 0 && seconds > options.most_seconds) throw Enough();
  };
  try {
    if (cuda) {
      ladder::bench_cuda_ladders(options.device, options.names, rivals.get(), listener);
    } else {
      ThreadPool pool(options.threads ? options.threads : available_cores());
      machine["threads"] = pool.threads();
      machine["set"] = cpu::kernels().name;
      ladder::bench_ladders(pool, options.names, rivals.get(), listener);
    }
  } catch (const Enough&) {
    missing.push_back("Further ladders: their time was spent (ingot bench ladder measures all).");
  }
  return {{"machine", machine},
          {"limits", JsonObject{{"read_gbs", limits.read_gbs},
                                {"copy_gbs", limits.copy_gbs},
                                {"f32_gflops", limits.f32_gflops},
                                {"bf16_gflops", limits.bf16_gflops},
                                {"fp8_gflops", limits.fp8_gflops},
                                {"int8_gops", limits.int8_gops}}},
          {"ladders", ladders},
          {"not_measured", missing}};
}

const Command kBenchLadder = {"ladder", "Every kernel from plain to the one that serves, step by step",
                              "ingot bench ladder softmax\n  ingot bench ladder --device cuda --json", setup};

}  // namespace ingot
