// ingot bench serve URL: load on a server that speaks OpenAI's API.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/error.h"
#include "cli/bench/bench.h"
#include "cli/load/load_report.h"
#include "files/atomic_file.h"

namespace ingot {
namespace {

struct Options {
  std::string url;
  std::string endpoint = "chat";
  std::vector<std::string> fields;
  std::string slo;
  std::string html;
  int warm_up = 1;
  LoadOptions load;
  LoadTarget target;
  CommonOptions common;
};

// A range lets it through.
std::string not_nan(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? "must be a number" : "";
}

// name=json, or name=word where the word is no JSON.
void add_field(JsonObject& fields, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    throw CLI::ValidationError(fmt::format("--field: '{}' is not NAME=JSON", text));
  }
  const std::string value = text.substr(equals + 1);
  try {
    fields[text.substr(0, equals)] = parse_json(value, "--field");
  } catch (const Error&) {
    fields[text.substr(0, equals)] = value;
  }
}

// The first model that the server names.
std::string first_model(LoadClient& client) {
  const Json json = parse_json(client.get("/v1/models"), "[load] /v1/models");
  const JsonArray* models = find_array(as_object(json, "[load] /v1/models"), "data");
  if (models == nullptr || models->empty()) throw Error("[load] /v1/models names no model: give --model");
  return get_string(as_object(models->at(0), "[load] /v1/models data[0]"), "id");
}

void show_progress(const LoadProgress& now, const LoadProgress& before) {
  const double seconds = now.at - before.at;
  fmt::print(stderr, "\r{:.0f} s: {} ended, {} of them ok, {} open, {:.0f} tokens/s\x1b[K", now.at, now.ended, now.ok,
             now.open, seconds > 0 ? static_cast<double>(now.pieces - before.pieces) / seconds : 0);
  std::fflush(stderr);
}

int run(Options& options) {
  Slo slo;
  try {
    if (!options.slo.empty()) slo = parse_slo(options.slo);
  } catch (const Error& error) {
    throw CLI::ValidationError(fmt::format("--slo: {}", error.what()));
  }
  for (const std::string& field : options.fields) add_field(options.load.fields, field);
  options.load.chat = options.endpoint == "chat";
  if (options.load.prompt_ids > 0 && options.load.chat) {
    throw CLI::ValidationError("--prompt-ids needs --endpoint completions");
  }
  options.target.base = base_of(options.url);
  std::optional<AtomicFile> page;  // whether it can be written is known before the load
  if (!options.html.empty()) page.emplace(options.html);
  LoadClient client(options.target);
  if (options.load.model.empty()) options.load.model = first_model(client);
  const LoadPlan plan(options.load);
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  LoadProgress before;
  const LoadRun result = run_load(client, plan, options.warm_up, [&](const LoadProgress& now) {
    if (terminal) show_progress(now, before);
    before = now;
  });
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  const LoadReport report = make_load_report(
      result, {.url = options.target.base, .options = options.load, .mode = plan.mode_name(), .slo = slo});
  if (page) {
    page->write(load_page(report));
    page->commit();
  }
  fmt::print("{}", options.common.json ? to_json(load_json(report)) + "\n" : load_table(report));
  if (report.ok + report.cancelled > 0) return 0;
  throw Error("[load] no request was answered: {}",
              report.problems.empty() ? "none was sent" : report.problems[0].first);
}

void add_arrivals(CLI::App& app, LoadOptions& load) {
  const auto range = [](auto low, auto high) { return CLI::Range(low, high).description(""); };
  const auto add = [&](const char* name, const char* type, auto& value, const char* text) {
    return app.add_option(name, value, text)->type_name(type)->group("Arrivals");
  };
  CLI::Option* closed = add("--concurrency", "N", load.concurrency, "So many clients, each waits for its answer (1)")
                            ->check(range(1, 20000));
  CLI::Option* open =
      add("--rate", "R", load.rate, "Requests a second, as a Poisson process")->check(range(1e-3, 1e6))->check(not_nan);
  CLI::Option* trace = add("--trace", "FILE", load.trace, "Azure CSV or Mooncake JSON lines: arrivals and lengths");
  closed->excludes(open)->excludes(trace);
  open->excludes(trace);
  add("--length-divisor", "N", load.scale.length, "Of a trace: lengths are divided by this (16)")
      ->check(range(1, 1 << 20))
      ->needs(trace);
  add("--time-divisor", "X", load.scale.time, "Of a trace: it runs so many times faster (6)")
      ->check(range(1e-3, 1e9))
      ->check(not_nan)
      ->needs(trace);
  add("--requests", "N", load.requests, "Requests to send")->check(range(1, 1 << 24));
  add("--rest", "S", load.rest, "Of a client that was rejected (as Retry-After says)")
      ->check(range(0.0, 3600.0))
      ->check(not_nan);
  add("--duration", "S", load.duration, "Seconds in which requests are sent")->check(range(1e-3, 1e7))->check(not_nan);
}

void add_requests(CLI::App& app, Options& options) {
  LoadOptions& load = options.load;
  const auto range = [](auto low, auto high) { return CLI::Range(low, high).description(""); };
  const auto add = [&](const char* name, const char* type, auto& value, const char* text) {
    return app.add_option(name, value, text)->type_name(type)->group("Requests");
  };
  add("--model", "NAME", load.model, "As the server names it (the first of /v1/models)");
  add("--endpoint", "KIND", options.endpoint, "chat or completions (chat)")
      ->check(CLI::IsMember({"chat", "completions"}).description(""));
  add("--prompt-tokens", "N", load.prompt_tokens, "Words of each prompt (100)")->check(range(1, 1 << 20));
  add("--shared-words", "N", load.shared_words, "Further ones before them, the same in all")->check(range(0, 1 << 20));
  add("--prompt-ids", "V", load.prompt_ids, "Prompts as token ids below V")->check(range(1, 1 << 24));
  add("--gen-tokens", "N", load.gen_tokens, "max_tokens (64)")->check(range(1, 1 << 20));
  app.add_flag("--ignore-eos", load.ignore_eos, "Ask for all of them")->group("Requests");
  add("--field", "NAME=JSON", options.fields, "A further field of the body")->take_all()->expected(1);
  add("--cancel", "PERCENT", load.cancel_percent, "So many are cut by the client")
      ->check(range(0.0, 100.0))
      ->check(not_nan);
  add("--seed", "N", load.seed, "Of prompts, arrivals and cancels (1)");
  add("--api-key", "KEY", options.target.key, "Sent as Bearer; better in INGOT_API_KEY")->envname("INGOT_API_KEY");
  add("--timeout", "S", options.target.timeout, "Of one request (600)")->check(range(0.01, 1e6))->check(not_nan);
  add("--warm-up", "N", options.warm_up, "Requests before the clock starts (1)")->check(range(0, 1000));
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("URL", options->url, "The server, such as http://127.0.0.1:8080")->required()->type_name("");
  add_arrivals(app, options->load);
  add_requests(app, *options);
  app.add_option("--slo", options->slo, "Goodput within ttft=MS,itl=MS,e2e=MS")->type_name("LIMITS");
  app.add_option("--html", options->html, "Also write a page with charts")->type_name("FILE");
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

const Command kBenchServe = {
    "serve", "Load on a server that speaks OpenAI's API",
    "ingot bench serve http://127.0.0.1:8080 --concurrency 16 --requests 160 --slo ttft=500,itl=50\n"
    "  ingot bench serve http://127.0.0.1:8080 --trace trace.csv --html load.html",
    setup};

}  // namespace ingot
