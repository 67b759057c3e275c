// ingot bench trace FILE: a trace of arrivals and lengths through the engine, without HTTP.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/error.h"
#include "bench/machine.h"
#include "cli/bench/bench.h"
#include "cli/bench/bench_model.h"
#include "cli/bench/trace/trace_report.h"
#include "cli/engine_options.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

struct Options {
  std::string file;
  TraceScale scale;
  size_t limit = 0;  // requests; 0: all
  std::string html;
  std::string slo;
  BenchModelOptions model;
};

// Of a prompt, for the rows of a step on a GPU: what the other benchmark has where nobody says otherwise.
constexpr int kPromptTokens = 512;

// A context that holds every request; the engine cuts none short.
int context_of(const Trace& trace, const TraceScale& scale) {
  int longest = 2;
  for (const TraceRequest& request : trace.requests) {
    longest = std::max(longest, scaled_tokens(request.prompt, scale) + scaled_tokens(request.output, scale));
  }
  return longest;
}

// A range lets it through.
std::string not_nan(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? "must be a number" : "";
}

void show_progress(size_t ended, size_t requests, const TraceSample& sample) {
  fmt::print(stderr, "\r{:.0f} s: {} of {} requests ended, {} running, {} waiting\x1b[K", sample.at, ended, requests,
             sample.running, sample.waiting);
}

// With the context that the trace needs, or what the model has: it refuses the requests that are too long.
OpenEngine open(const Options& options, const Trace& trace, const std::string& model) {
  int context = context_of(trace, options.scale);
  if (options.model.shape.empty()) {
    context = std::min(context, Model::read_numbers(ModelFiles::open(model)).context);
  }
  return open_bench_model(options.model, context, options.model.open.engine.max_seqs, kPromptTokens);
}

// What goodput is counted by: where nobody says, the engine's own target.
Slo slo_of(const Options& options) {
  if (options.slo.empty()) return {.ttft_ms = options.model.open.engine.ttft_target_ms};
  try {
    return parse_slo(options.slo);
  } catch (const Error& error) {
    throw CLI::ValidationError(fmt::format("--slo: {}", error.what()));
  }
}

int run(const Options& options) {
  check_bench_model(options.model);
  const Slo slo = slo_of(options);
  const std::string model = bench_model_name(options.model);
  const Trace trace = read_trace(options.file, options.limit);
  std::optional<AtomicFile> page;  // whether it can be written is known before the replay
  if (!options.html.empty()) page.emplace(options.html);
  OpenEngine opened = open(options, trace, model);
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  TraceRun replayed = replay_trace(*opened.engine, trace, options.scale, [&](size_t ended, const TraceSample& sample) {
    if (terminal) show_progress(ended, trace.requests.size(), sample);
  });
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  const TraceSetup setup{.file = options.file,
                         .model = model,
                         .machine = cpu_name(),
                         .scale = options.scale,
                         .engine = opened.engine->config(),
                         .slo = slo};
  const TraceReport report = make_trace_report(trace, std::move(replayed), setup);
  if (page) {
    page->write(trace_page(report));
    page->commit();
  }
  fmt::print("{}", options.model.common.json ? to_json(trace_json(report)) + "\n" : trace_table(report));
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  const auto add = [&](const char* name, const char* type, auto& value, const char* text) {
    return app.add_option(name, value, text)->type_name(type)->group("Replay");
  };
  const auto range = [](auto low, auto high) { return CLI::Range(low, high).description(""); };
  app.add_option("FILE", options->file, "Azure CSV or Mooncake JSON lines: arrivals and lengths")
      ->required()
      ->type_name("");
  add_bench_model_options(app, options->model);
  add("--length-divisor", "N", options->scale.length, "Lengths are divided by this (16)")->check(range(1, 1 << 20));
  add("--time-divisor", "X", options->scale.time, "The trace runs so many times faster (6)")
      ->check(range(1e-3, 1e9))
      ->check(not_nan);
  add("--limit", "N", options->limit, "Requests to take (all)")->check(range(1, 1 << 30));
  for (CLI::Option* option : add_engine_options(app, OptionsOf::kTrace, options->model.open)) option->group("Replay");
  app.get_option("--kv-memory")->description("Of the KV cache, such as 512M (as --seqs contexts need)");
  add("--slo", "LIMITS", options->slo, "Goodput within ttft=MS,itl=MS,e2e=MS (ttft: --ttft-target)");
  app.add_option("--html", options->html, "Also write a page with charts")->type_name("FILE");
  return [options] { return run(*options); };
}

}  // namespace

const Command kBenchTrace = {"trace", "Replay arrivals and lengths of a published trace through the engine",
                             "ingot bench trace trace.csv --limit 200 --html trace.html\n"
                             "  ingot bench trace trace.csv model.gguf --gap-ms 150 --json",
                             setup};

}  // namespace ingot
