// ingot bench: speed of the engine on a model, or on a published shape with random weights; and its subcommands.
#include "cli/bench/bench.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <optional>

#include "cli/bench/bench_limits.h"
#include "cli/bench/bench_model.h"
#include "cli/bench/bench_paper.h"
#include "cli/bench/bench_profile.h"
#include "cli/bench/bench_run.h"
#include "cli/bench/old_spellings.h"
#include "cli/bench/pages/chart_svg.h"
#include "cli/bench/pages/speed_page.h"
#include "cli/interrupt.h"
#include "files/atomic_file.h"
#include "files/json.h"

namespace ingot {
namespace {

struct Options {
  BenchWork work;
  std::vector<int> batch = {1};
  bool profile = false;
  std::string html;
  std::string svg;
  std::vector<std::string> from;
  BenchModelOptions model;
  PaperOptions paper;
};

// Prints the profiles of a batch, adds their pages and returns both as JSON.
JsonObject profile(Engine& engine, int batch, const Options& options, const BenchLimits& limits, JsonArray& pages) {
  const StepProfiles profiles = profile_work(engine, batch, options.work);
  JsonObject result{{"batch", batch}};
  const auto tell = [&](const char* name, const Profile& p, const std::string& title) {
    if (!options.model.common.json) print_profile(p, title, limits);
    result[name] = profile_json(p);
    pages.push_back(JsonObject{{"title", title}, {"profile", result[name]}});
  };
  tell("prefill", profiles.prefill, fmt::format("prefill of {} x {}", batch, options.work.prompt));
  tell("decode", profiles.decode, fmt::format("decode, batch {}", batch));
  return result;
}

JsonObject result_json(const BenchSpeed& r, const BenchWork& work, const WeightBytes& weights,
                       const BenchLimits& limits) {
  // A decode step reads every weight but an embedding's table once, of experts those that its rows meet.
  const double weights_gbs = r.decode_tps(work) / r.batch * static_cast<double>(weights.step) / 1e9;
  return {{"batch", r.batch},
          {"prompt", work.prompt},
          {"gen", work.gen},
          {"prefill_tps", r.prefill_tps(work)},
          {"decode_tps", r.decode_tps(work)},
          {"ttft_ms", r.first * 1e3},
          {"weight_bytes", weights.all},
          {"step_weight_bytes", weights.step},
          {"percent_of_bandwidth", limits.read_gbs > 0 ? 100 * weights_gbs / limits.read_gbs : 0},
          {"percent_of_multiplier", 100 * r.prefill_tps(work) * limits.token_seconds}};
}

void write_chart(const std::string& file, const BenchChart& chart) {
  AtomicFile svg(file);
  svg.write(bench_chart_svg(chart));
  svg.commit();
}

int run(const Options& options) {
  if (!options.from.empty()) {
    if (options.svg.empty()) throw CLI::ValidationError("--from needs --svg");
    write_chart(options.svg, read_bench_chart(options.from));
    return 0;
  }
  if (options.profile && !options.svg.empty()) throw CLI::ValidationError("--svg draws speeds, not a profile");
  check_bench_model(options.model);
  if (check_paper(options.paper, options.model)) {
    if (options.profile || !options.html.empty() || !options.svg.empty())
      throw CLI::ValidationError("--as-rank is on paper: without --profile, --html and --svg");
    return run_paper(options.paper, options.model, options.work, options.batch);
  }
  BenchWork work = options.work;
  work.verbose = options.model.common.verbose;
  const int seqs = *std::ranges::max_element(options.batch);
  OpenEngine opened = open_bench_model(options.model, work.prompt + work.gen, seqs, work.prompt);
  std::optional<AtomicFile> page;  // whether it can be written is known before the work
  if (!options.html.empty()) page.emplace(options.html);
  const BenchLimits limits = measure_limits(*opened.engine);
  const WeightBytes weights = weight_bytes(*opened.model);
  const InterruptGuard guard;
  JsonArray results, pages;
  if (!options.model.common.json) {
    fmt::print("{}\n", limits_line(limits, weights));
    if (!options.profile && limits.device.name.empty())
      fmt::print("% bandwidth: these {:.1f} MB once for each step of decoding, of {:.1f} GB/s\n",
                 static_cast<double>(weights.step) / 1e6, limits.read_gbs);
    if (!options.profile)
      fmt::print("{:>6} {:>7} {:>5} {:>14} {:>13} {:>10} {:>12} {:>13}\n", "batch", "prompt", "gen", "prefill tok/s",
                 "decode tok/s", "first ms", "% bandwidth", "% multiplier");
  }
  for (const int batch : options.batch) {
    if (options.profile) {
      results.push_back(profile(*opened.engine, batch, options, limits, pages));
      continue;
    }
    const WeightBytes read = weight_bytes(*opened.model, batch);
    const JsonObject json = result_json(measure_speed(*opened.engine, batch, work), work, read, limits);
    if (!options.model.common.json) {
      fmt::print("{:6} {:7} {:5} {:14.1f} {:13.1f} {:10.1f} {:12.1f} {:13.1f}\n", batch, work.prompt, work.gen,
                 json.at("prefill_tps").as_double(), json.at("decode_tps").as_double(), json.at("ttft_ms").as_double(),
                 json.at("percent_of_bandwidth").as_double(), json.at("percent_of_multiplier").as_double());
    }
    results.push_back(json);
  }
  const JsonObject machine = machine_json(limits);
  if (!options.svg.empty()) {
    const std::string device = limits.device.name.empty() ? cpu_name() : limits.device.name;
    write_chart(options.svg, {.title = fmt::format("{}, {} in, {} out", device, work.prompt, work.gen),
                              .series = {{.name = "Ingot", .results = results}}});
  }
  const JsonObject report{
      {"results", results}, {"machine", machine}, {"model", bench_model_json(options.model, *opened.model)}};
  if (page) {
    page->write(options.profile ? profile_page(pages, machine) : speed_page(report));
    page->commit();
  }
  if (options.model.common.json) fmt::print("{}\n", to_json(report));
  return 0;
}

constexpr std::array kParts = {&kBenchOps,     &kBenchLadder, &kBenchServe, &kBenchTrace,
                               &kBenchGrammar, &kBenchSchema, &kBenchComm,  &kBenchMatmul};

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  // Without a description: a range beside the name of a number would make two lines of the help.
  const auto range = [](int low, int high) { return CLI::Range(low, high).description(""); };
  app.add_option("--prompt", options->work.prompt, "Tokens of each prompt")->check(range(1, 1 << 24))->type_name("N");
  app.add_option("--gen", options->work.gen, "Tokens to make for each")->check(range(1, 1 << 24))->type_name("N");
  app.add_option("--batch", options->batch, "Sequences at once, separated by commas")
      ->delimiter(',')
      ->check([](const std::string& n) { return n.empty() ? "a number is empty" : ""; })
      ->check(range(1, 4096))
      ->type_name("N");
  app.add_option("--repeat", options->work.repeat, "Runs; the median counts")->check(range(1, 1000))->type_name("N");
  app.add_flag("--profile", options->profile, "Where the time of a step goes, by node; --html: a timeline");
  app.add_option("--html", options->html, "Also write a page with charts")->type_name("FILE");
  app.add_option("--svg", options->svg, "Also draw the results as a chart")->type_name("FILE");
  app.add_option("--from", options->from, "With --svg: draw these results of --json instead of measuring")
      ->delimiter(',')
      ->type_name("FILES");
  add_bench_model_options(app, options->model);
  add_paper_options(app, options->paper);
  return add_subcommands(app, kParts, [options] { return run(*options); });
}

}  // namespace

const Command kBenchCommand = {"bench", "Measure the engine's speed",
                               "ingot bench --batch 1,4,16\n  ingot bench --shape llama-3.2-1b --format q4_0\n"
                               "  ingot bench ops linear q4_0 --device cuda\n"
                               "  ingot bench serve http://127.0.0.1:8080 --concurrency 16\n"
                               "  ingot bench trace trace.csv --limit 200 --html trace.html",
                               setup, modernize_bench};

}  // namespace ingot
