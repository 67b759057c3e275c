#include "cli/bench/trace/bench_trace.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "bench/machine.h"
#include "cli/bench/trace/trace_report.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "ops/kv_cache.h"

namespace ingot {
namespace {

// Options that say nothing without --trace, and options that say nothing with it.
constexpr const char* kOnlyWith[] = {"--length-divisor", "--time-divisor", "--limit",     "--gap-ms", "--seqs",
                                     "--max-waiting",    "--kv-memory",    "--page-rows", "--html"};
constexpr const char* kOnlyWithout[] = {"--prompt", "--gen", "--batch", "--repeat", "--profile"};

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

std::string whole_key_groups(const std::string& text) {
  return std::atoi(text.c_str()) % kKeyGroup != 0 ? fmt::format("must be a multiple of {}", kKeyGroup) : "";
}

void show_progress(size_t ended, size_t requests, const TraceSample& sample) {
  fmt::print(stderr, "\r{:.0f} s: {} of {} requests ended, {} running, {} waiting\x1b[K", sample.at, ended, requests,
             sample.running, sample.waiting);
}

}  // namespace

void add_trace_options(CLI::App& app, BenchTraceOptions& options) {
  const auto add = [&](const char* name, const char* type, auto& value, const char* text) {
    return app.add_option(name, value, text)->type_name(type)->group("Replay of a trace");
  };
  const auto range = [](auto low, auto high) { return CLI::Range(low, high).description(""); };
  add("--trace", "FILE", options.file, "Azure CSV or Mooncake JSON lines: arrivals and lengths");
  add("--length-divisor", "N", options.scale.length, "Lengths are divided by this (16)")->check(range(1, 1 << 20));
  add("--time-divisor", "X", options.scale.time, "The trace runs so many times faster (6)")
      ->check(range(1e-3, 1e9))
      ->check(not_nan);
  add("--limit", "N", options.limit, "Requests to take (all)")->check(range(1, 1 << 30));
  add("--gap-ms", "MS", options.gap_ms, "Target between two tokens while prompts are read")
      ->check(range(0.01, 1e6))
      ->check(not_nan);
  add("--seqs", "N", options.seqs, "Requests that run at once (16)")->check(range(1, 4096));
  add("--max-waiting", "N", options.max_waiting, "Requests that may wait; more are busy")->check(range(1, 1 << 30));
  add("--kv-memory", "BYTES", options.kv_bytes, "Of the KV cache, such as 512M (as --seqs contexts need)")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(range(uint64_t{1}, uint64_t{1} << 50));
  add("--page-rows", "N", options.page_rows, "Rows of a KV page (64)")->check(range(1, 4096))->check(whole_key_groups);
  add("--html", "FILE", options.html, "Also write a page with charts, of --profile too");
  app.callback([&app] {
    const bool trace = app.count("--trace") > 0;
    for (const char* name : kOnlyWith) {
      const bool page = std::string_view(name) == "--html" && app.count("--profile") > 0;
      if (!trace && !page && app.count(name)) throw CLI::ValidationError(fmt::format("{} needs --trace", name));
    }
    for (const char* name : kOnlyWithout) {
      if (trace && app.count(name)) throw CLI::ValidationError(fmt::format("{} does not go with --trace", name));
    }
  });
}

int bench_trace(const BenchTraceOptions& options, const CommonOptions& common, const std::string& model,
                const std::function<OpenEngine(const EngineSetup&)>& open) {
  const Trace trace = read_trace(options.file, options.limit);
  std::optional<AtomicFile> page;  // whether it can be written is known before the replay
  if (!options.html.empty()) page.emplace(options.html);
  OpenEngine opened = open({.context = context_of(trace, options.scale),
                            .seqs = options.seqs,
                            .page_rows = options.page_rows,
                            .kv_bytes = static_cast<int64_t>(options.kv_bytes),
                            .gap_ms = options.gap_ms,
                            .max_waiting = options.max_waiting});
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  TraceRun run = replay_trace(*opened.engine, trace, options.scale, [&](size_t ended, const TraceSample& sample) {
    if (terminal) show_progress(ended, trace.requests.size(), sample);
  });
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  const EngineOptions& engine = opened.engine->options();
  const TraceSetup setup{.file = options.file,
                         .model = model,
                         .machine = cpu_name(),
                         .threads = engine.threads,
                         .scale = options.scale,
                         .gap_ms = options.gap_ms};
  const TraceReport report = make_trace_report(trace, std::move(run), setup, engine);
  if (page) {
    page->write(trace_page(report));
    page->commit();
  }
  fmt::print("{}", common.json ? to_json(trace_json(report)) + "\n" : trace_table(report));
  return 0;
}

}  // namespace ingot
