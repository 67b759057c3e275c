// ingot devices plan: how a model can be cut over the devices, by arithmetic.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/bench/shapes.h"
#include "cli/devices/devices.h"
#include "cli/engine_options.h"
#include "cli/session.h"
#include "devices/fit.h"

namespace ingot {
namespace {

struct Options : DevicesOptions {
  std::string model;
  std::string shape;
  std::string format = "bf16";
  OpenOptions open = {.kv = "f16"};
  FitOptions fit;
  int tp = 0, pp = 0;  // 0: any
};

JsonObject layout_json(const Layout& layout, const std::vector<Device>& devices) {
  JsonArray ranks;
  for (size_t r = 0; r < layout.ranks.size(); ++r) {
    const RankBytes& rank = layout.ranks[r];
    ranks.push_back(JsonObject{{"rank", r},
                               {"stage", r / static_cast<size_t>(layout.tp)},
                               {"device", devices[r].name},
                               {"weight_bytes", rank.weights},
                               {"kv_bytes", rank.kv},
                               {"activation_bytes", rank.activations},
                               {"reserve_bytes", rank.reserve},
                               {"total_bytes", rank.total()},
                               {"free_bytes", devices[r].free_bytes}});
  }
  return {{"tp", layout.tp},
          {"pp", layout.pp},
          {"fits", layout.fits()},
          {"refusal", layout.fits() ? Json(nullptr) : Json(layout.refusal)},
          {"links", layout.links},
          {"step_ms_on_paper", layout.step_ms},
          {"replicas", layout.replicas},
          {"ranks", std::move(ranks)}};
}

const RankBytes& largest_rank(const Layout& layout) {
  return *std::ranges::max_element(layout.ranks, {}, [](const RankBytes& rank) { return rank.total(); });
}

void say_layouts(DevicesOutput& out, const std::vector<Layout>& layouts) {
  out.say(fmt::format("{:<9} {:>12} {:>10} {:>10} {:>12} {:>13}  {}", "tp x pp", "largest rank", "weights", "KV",
                      "activations", "ms on paper", "fits"));
  JsonArray rows;
  for (const Layout& layout : layouts) {
    const RankBytes& rank = largest_rank(layout);
    const std::string name = fmt::format("{} x {}", layout.tp, layout.pp);
    const std::string fits =
        layout.fits() ? fmt::format("yes{}{}", layout.replicas > 1 ? fmt::format(", {} times", layout.replicas) : "",
                                    layout.links.empty() ? "" : fmt::format(" ({})", layout.links))
                      : fmt::format("no: {} missing", gigabytes(layout.missing));
    out.say(fmt::format("{:<9} {:>12} {:>10} {:>10} {:>12} {:13.2f}  {}", name, gigabytes(rank.total()),
                        gigabytes(rank.weights), gigabytes(rank.kv), gigabytes(rank.activations), layout.step_ms,
                        fits));
    rows.push_back(JsonArray{name, static_cast<double>(rank.total()) / 1e9, static_cast<double>(rank.weights) / 1e9,
                             static_cast<double>(rank.kv) / 1e9, layout.step_ms, fits});
  }
  out.table("Cuts", {"tp x pp", "largest rank GB", "weights GB", "KV GB", "ms on paper", "fits"}, std::move(rows));
}

void say_best(DevicesOutput& out, const Layout& best, const std::vector<Device>& devices) {
  out.say(fmt::format(
      "best: --tp {} --pp {}{}: {:.2f} ms a token of one seq, on paper (weights at the memory's published "
      "speed, and what meetings of ranks are assumed to cost)",
      best.tp, best.pp, best.replicas > 1 ? fmt::format(", {} replicas", best.replicas) : "", best.step_ms));
  for (size_t r = 0; r < best.ranks.size(); ++r) {
    const RankBytes& rank = best.ranks[r];
    out.say(fmt::format("rank {:<3} {:<10} {:>10} of {:>10}: {} of weights, {} of KV cache, {} of activations", r,
                        devices[r].name, gigabytes(rank.total()), gigabytes(devices[r].free_bytes),
                        gigabytes(rank.weights), gigabytes(rank.kv), gigabytes(rank.activations)));
  }
}

int run(const Options& options) {
  if (options.shape.empty() == options.model.empty())
    throw CLI::ValidationError(options.shape.empty() ? "MODEL or --shape is required"
                                                     : "--shape and MODEL exclude each other");
  DevicesOutput out(options);
  const Machine machine = read_machine();
  const std::vector<Device> devices = list_devices(machine, options.devices);
  FitOptions fit = options.fit;
  fit.kv = parse_kv(options.open.kv);
  SizedModel model = [&] {
    if (options.shape.empty()) return SizedModel::of_files(resolve_model(options.model), fit);
    const Hparams hp = shape_by_name(options.shape);
    return SizedModel::of_shape(hp, formats_by_name(options.format, hp), fit);
  }();
  const bool named = options.tp > 0 || options.pp > 0;
  const std::vector<Layout> layouts =
      named ? std::vector{make_layout(model, machine, devices, fit, std::max(options.tp, 1), std::max(options.pp, 1))}
            : find_layouts(model, machine, devices, fit);
  const Layout* best = best_layout(layouts);
  if (best == nullptr) {
    const auto near = std::ranges::min_element(layouts, {}, &Layout::missing);
    throw Error("[plan] {}: --tp {} --pp {} comes nearest, and {}", named ? "it does not fit" : "no cut fits", near->tp,
                near->pp, near->refusal);
  }
  const std::string name = options.shape.empty() ? options.model : fmt::format("{} {}", options.shape, options.format);
  out.say(fmt::format("{}: {} of weights; {} seqs of {} tokens, KV cache in {}; steps of {} rows; {} devices", name,
                      gigabytes(model.weight_bytes()), fit.seqs, model.context(), options.open.kv, fit.step_rows,
                      devices.size()));
  say_layouts(out, layouts);
  say_best(out, *best, devices);
  JsonArray all;
  for (const Layout& layout : layouts) all.push_back(layout_json(layout, devices));
  const std::vector<std::string> names = names_of(devices);
  out.finish("How " + name + " fits", {{"model", name},
                                       {"weight_bytes", model.weight_bytes()},
                                       {"context", model.context()},
                                       {"seqs", fit.seqs},
                                       {"devices", JsonArray(names.begin(), names.end())},
                                       {"best", layout_json(*best, devices)},
                                       {"layouts", std::move(all)}});
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  const auto range = [](int low, int high) { return CLI::Range(low, high).description(""); };
  app.add_option("MODEL", options->model, "A GGUF file, a Hugging Face directory or a cached name");
  app.add_option("--shape", options->shape, "A published shape in place of a model, as of ingot bench")
      ->type_name("NAME");
  app.add_option("--format", options->format, "Of its weights (bf16)")->type_name("FORMAT");
  add_devices_option(app, *options, "Such as cuda:0,cuda:1 (default: all GPUs, else all nodes)");
  app.add_option("--tp", options->tp, "Only so many ranks that share each layer")
      ->check(range(1, 1024))
      ->type_name("N");
  app.add_option("--pp", options->pp, "Only so many stages")->check(range(1, 1024))->type_name("N");
  app.add_option("--ctx", options->fit.context, "Tokens of a seq (default: the model's)")
      ->check(range(1, 1 << 30))
      ->type_name("N");
  app.add_option("--seqs", options->fit.seqs, "At once, each with its whole context (1)")
      ->check(range(1, 4096))
      ->type_name("N");
  app.add_option("--step-rows", options->fit.step_rows, "Rows of the largest step (512)")
      ->check(range(1, 1 << 16))
      ->type_name("N");
  add_engine_option(app, "--kv", options->open, "KV cache in f32, f16, bf16, fp8 or q8_0 (f16)");
  add_page_options(app, *options);
  return [options] { return run(*options); };
}

}  // namespace

const Command kDevicesPlan = {"plan", "What of a model fits where, and the best tp x pp, by arithmetic",
                              "ingot devices plan model.gguf --ctx 8192 --seqs 16\n"
                              "  ingot devices plan --shape llama-3.1-70b --format fp8",
                              setup};

}  // namespace ingot
