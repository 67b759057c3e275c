#include "cli/report/model_steps.h"

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "cli/bench/bench_limits.h"
#include "cli/bench/bench_run.h"
#include "cli/interrupt.h"
#include "cli/strings.h"
#include "graph/traits.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Variant {
  const char* name;
  const char* what;
  bool on_gpu, on_cpu;
  void (*apply)(OpenOptions&);
};

// The first is as it serves. The reference is the CPU's.
constexpr Variant kVariants[] = {
    {"all", "as it serves", true, true, [](OpenOptions&) {}},
    {"no overlap", "a kernel waits for the one before it", true, false,
     [](OpenOptions& o) { o.engine.device.overlap = false; }},
    {"no step ahead", "a step is launched when the one before it has ended", true, false,
     [](OpenOptions& o) { o.engine.device.ahead = false; }},
    {"no recording", "every kernel is launched by itself", true, false,
     [](OpenOptions& o) { o.engine.device.graphs = false; }},
    {"no fusion", "every node of the graph is a kernel of its own", true, true,
     [](OpenOptions& o) { o.model.fuse_off = {"all"}; }},
    {"reference", "plain float32 kernels", false, true, [](OpenOptions& o) { o.ref = true; }},
};

double matrix_elements(const Model& model) {
  double elements = 0;
  for (const Node& node : model.graph.nodes) {
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight*) {
      elements += static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
    });
  }
  return elements;
}

JsonObject step_json(const Variant& variant, const BenchSpeed& speed, const BenchWork& work) {
  return {{"name", variant.name},
          {"what", variant.what},
          {"batch", speed.batch},
          {"prompt", work.prompt},
          {"gen", work.gen},
          {"prefill_tps", speed.prefill_tps(work)},
          {"decode_tps", speed.decode_tps(work)}};
}

// What a report has of one variant.
struct Measuring {
  const BenchModelOptions& options;
  const BenchWork work;
  const std::vector<int> batches;
  JsonObject model = {};
  JsonArray steps = {}, profiles = {};  // the fastest first
  double elements = 0;                  // of the weights that are multiplied

  void run(const Variant& variant, const BenchWork& own_work) {
    BenchModelOptions now = options;
    variant.apply(now.open);
    OpenEngine opened = open_bench_model(now, own_work.prompt + own_work.gen, batches.back(), own_work.prompt);
    for (const int batch : batches) {
      steps.push_back(step_json(variant, measure_speed(*opened.engine, batch, own_work), own_work));
    }
    if (&variant != &kVariants[0]) return;
    model = bench_model_json(now, *opened.model);
    model["limits"] = machine_json(measure_limits(*opened.engine));
    elements = matrix_elements(*opened.model);
    for (const int batch : batches) {
      const StepProfiles both = profile_work(*opened.engine, batch, own_work);
      const auto add = [&](const std::string& title, const Profile& profile) {
        profiles.push_back(JsonObject{{"title", title}, {"profile", profile_json(profile)}});
      };
      add(fmt::format("prefill of {} × {}", batch, own_work.prompt), both.prefill);
      add(fmt::format("decode, batch {}", batch), both.decode);
    }
  }
};

}  // namespace

JsonObject measure_model(const BenchModelOptions& options, int gpu, bool quick, JsonArray& missing) {
  const InterruptGuard guard;
  const auto start = Clock::now();
  const bool on_gpu = gpu >= 0;
  const double most_seconds = quick ? 20 : 120;
  // The reference has few tokens: it makes 10 a second of a model of 135 million weights on two Neoverse-V1 cores.
  const BenchWork plain{.prompt = 16, .gen = 4, .repeat = 1};
  const double most_plain = quick ? 2e8 : 2e9;  // of weights
  Measuring measuring{.options = options,
                      .work = quick ? BenchWork{.prompt = 64, .gen = 16, .repeat = 1}
                                    : BenchWork{.prompt = on_gpu ? 512 : 256, .gen = 64, .repeat = 3},
                      .batches = on_gpu ? std::vector{1, 32} : std::vector{1}};
  double longest = 0;
  for (const Variant& variant : kVariants) {
    if (!(on_gpu ? variant.on_gpu : variant.on_cpu)) continue;
    const bool reference = std::string_view(variant.name) == "reference";
    if (seconds_since(start) + longest > most_seconds || (reference && measuring.elements > most_plain)) {
      missing.push_back(Json(fmt::format("The model with '{}': it would take too long.", variant.name)));
      continue;
    }
    const auto begin = Clock::now();
    measuring.run(variant, reference ? plain : measuring.work);
    longest = std::max(longest, seconds_since(begin));
  }
  if (on_gpu) missing.push_back("The model with reference kernels: they are the CPU's.");
  JsonArray ascending(measuring.steps.rbegin(), measuring.steps.rend());
  JsonObject model = std::move(measuring.model);
  model["name"] = options.shape.empty() ? base_name(options.model) : options.shape;
  model["steps"] = std::move(ascending);
  model["profiles"] = std::move(measuring.profiles);
  return model;
}

}  // namespace ingot
