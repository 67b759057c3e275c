// ingot bench schema: what it costs the engine to hold answers to a schema: tokens a second and gaps with so many of
// the sequences constrained, in turn with none, in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "app/constraints.h"
#include "base/error.h"
#include "cli/bench/bench.h"
#include "cli/bench/bench_model.h"
#include "cli/bench/spread.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "files/json.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

// Nothing of it ends an answer of some thousand tokens, whatever the model writes, and little of it is forced.
constexpr const char* kEndless = R"({"type": "array", "items": {"type": "string"}, "minItems": 10000})";

struct Options {
  int prompt = 128;
  int gen = 256;
  int batch = 16;
  std::vector<int> constrained = {0, 16};
  int repeat = 5;
  std::string schema, tokenizer;
  BenchModelOptions model;
};

// One run: when the tokens of each seq came.
struct Run {
  double tokens_per_second = 0;  // from when all have their first
  std::vector<double> gaps_ms;   // between two tokens of a seq, likewise
  int ended = 0;                 // seqs that ended before their time
};

class Bench {
 public:
  Bench(const Options& options, Engine& engine) : options_(options), engine_(engine) {
    const std::string& from = options.tokenizer.empty() ? options.model.model : options.tokenizer;
    tokenizer_ = Tokenizer::load(tokenizer_path(resolve_model(from)));
    constraints_ = std::make_unique<Constraints>(*tokenizer_, tokenizer_->end_tokens(), engine.model().hp.vocab);
    const std::string text = options.schema.empty() ? kEndless : to_json(read_json_file(options.schema));
    constraint_ = constraints_->make("", {.language = grammar::Language::kJsonSchema, .text = text}, Preface::kNone);
  }

  Run run(int constrained) {
    const auto seqs = static_cast<size_t>(options_.batch);
    std::vector<std::vector<double>> times(seqs);
    for (auto& list : times) list.reserve(static_cast<size_t>(options_.gen));
    std::mutex mutex;
    std::condition_variable ended;
    int open = options_.batch;
    const auto start = Clock::now();
    // Between two steps: so all of them begin together.
    engine_.call([&](LocalEngine&) {
      for (size_t s = 0; s < seqs; ++s) {
        const Submitted submitted = engine_.submit(request(s, constrained), [&, s](const Event& event) {
          const double now = std::chrono::duration<double>(Clock::now() - start).count();
          if (event.sample.token >= 0) times[s].push_back(now);
          if (event.finish == FinishReason::kNone) return;
          const std::lock_guard lock(mutex);
          if (--open == 0) ended.notify_one();
        });
        if (submitted.id < 0) throw Error("[bench] {}", submitted.busy ? "the queue is full" : submitted.refused);
      }
    });
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return open == 0; });
    throw_if_interrupted();
    return summary(times);
  }

  EngineStats stats() const { return engine_.stats(); }

 private:
  Request request(size_t seq, int constrained) const {
    Request r;
    const auto vocab = static_cast<uint64_t>(engine_.model().hp.vocab);
    for (int i = 0; i < options_.prompt; ++i) {
      const uint64_t mixed = (seq * 7919 + static_cast<uint64_t>(i) * 104729 + 13) * 2654435761u;
      r.prompt.push_back(static_cast<int32_t>((mixed >> 16) % vocab));
    }
    r.max_tokens = options_.gen;
    r.sampling.seed = seq;
    r.reuse_prefix = false;
    // Spread over the batch.
    const auto n = static_cast<size_t>(constrained), of = static_cast<size_t>(options_.batch);
    if ((seq + 1) * n / of != seq * n / of) r.constraint = constraint_;
    return r;
  }

  Run summary(const std::vector<std::vector<double>>& times) const {
    double first = 0, last = 0;
    for (const auto& list : times) {
      if (list.empty()) throw Error("[bench] a sequence made no token");
      first = std::max(first, list.front());
      last = std::max(last, list.back());
    }
    Run run;
    int64_t tokens = 0;
    for (const auto& list : times) {
      run.ended += list.size() < static_cast<size_t>(options_.gen);
      tokens += std::ranges::count_if(list, [&](double t) { return t > first; });
      for (size_t i = 1; i < list.size(); ++i) {
        if (list[i - 1] >= first) run.gaps_ms.push_back(1e3 * (list[i] - list[i - 1]));
      }
    }
    run.tokens_per_second = last > first ? static_cast<double>(tokens) / (last - first) : 0;
    std::ranges::sort(run.gaps_ms);
    return run;
  }

  const Options& options_;
  Engine& engine_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Constraints> constraints_;
  std::shared_ptr<const TokenConstraint> constraint_;
};

// Of several runs with so many constrained seqs.
struct Figures {
  std::vector<double> rates, p50, p99;
  int ended = 0;

  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return quantile(values, 0.5);
  }
};

int run(const Options& options) {
  check_bench_model(options.model);
  if (!options.model.shape.empty() && options.tokenizer.empty()) {
    throw CLI::ValidationError("--shape needs --tokenizer");
  }
  for (const int n : options.constrained) {
    if (n > options.batch) throw CLI::ValidationError("--constrained: more than --batch");
  }
  OpenEngine opened = open_bench_model(options.model, options.prompt + options.gen, options.batch, options.prompt);
  const InterruptGuard guard;
  Bench bench(options, *opened.engine);
  std::vector<Figures> figures(options.constrained.size());
  for (int round = -1; round < options.repeat; ++round) {  // the first one touches weights, pages and masks
    for (size_t i = 0; i < figures.size(); ++i) {
      const Run one = bench.run(options.constrained[i]);
      if (round < 0) continue;
      figures[i].rates.push_back(one.tokens_per_second);
      figures[i].p50.push_back(quantile(one.gaps_ms, 0.5));
      figures[i].p99.push_back(quantile(one.gaps_ms, 0.99));
      figures[i].ended += one.ended;
    }
  }
  JsonArray results;
  const double rate = Figures::median(figures[0].rates), gap = Figures::median(figures[0].p99);
  if (!options.model.common.json) {
    fmt::print("{:>6} {:>11} {:>9} {:>6} {:>8} {:>8} {:>6} {:>6}\n", "batch", "constrained", "tok/s", "ratio",
               "gap p50", "gap p99", "ratio", "ended");
  }
  for (size_t i = 0; i < figures.size(); ++i) {
    const Figures& f = figures[i];
    const double mine = Figures::median(f.rates), p50 = Figures::median(f.p50), p99 = Figures::median(f.p99);
    results.push_back(JsonObject{{"batch", options.batch},
                                 {"constrained", options.constrained[i]},
                                 {"decode_tps", mine},
                                 {"decode_ratio", rate > 0 ? mine / rate : 0},
                                 {"gap_p50_ms", p50},
                                 {"gap_p99_ms", p99},
                                 {"gap_p99_ratio", gap > 0 ? p99 / gap : 0},
                                 {"ended_early", f.ended}});
    if (options.model.common.json) continue;
    fmt::print("{:6} {:11} {:9.1f} {:6.3f} {:8.2f} {:8.2f} {:6.3f} {:6}\n", options.batch, options.constrained[i], mine,
               rate > 0 ? mine / rate : 0, p50, p99, gap > 0 ? p99 / gap : 0, f.ended);
  }
  const EngineStats stats = bench.stats();
  const JsonObject steps{{"steps", stats.steps},
                         {"ahead", stats.ahead},
                         {"put_off", stats.put_off},
                         {"drafted", stats.drafted},
                         {"accepted", stats.accepted}};
  if (options.model.common.json) {
    fmt::print("{}\n", to_json(JsonObject{{"results", results},
                                          {"engine", steps},
                                          {"model", bench_model_json(options.model, *opened.model)}}));
  } else {
    fmt::print("steps {}, launched ahead {}; masks late {}; guesses {}, right {}\n", stats.steps, stats.ahead,
               stats.put_off, stats.drafted, stats.accepted);
  }
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  const auto range = [](int low, int high) { return CLI::Range(low, high).description(""); };
  app.add_option("--schema", options->schema, "A JSON Schema (an array of strings without end)")->type_name("FILE");
  app.add_option("--tokenizer", options->tokenizer, "With --shape: a model or a file that holds a tokenizer")
      ->type_name("PATH");
  app.add_option("--batch", options->batch, "Sequences at once (16)")->check(range(1, 4096))->type_name("N");
  app.add_option("--constrained", options->constrained, "Of them held to the schema, in turn; the first is compared to")
      ->delimiter(',')
      ->check(range(0, 4096))
      ->type_name("N");
  app.add_option("--prompt", options->prompt, "Tokens of each prompt (128)")->check(range(1, 1 << 24))->type_name("N");
  app.add_option("--gen", options->gen, "Tokens to make for each (256)")->check(range(2, 1 << 24))->type_name("N");
  app.add_option("--repeat", options->repeat, "Runs of each; the median counts (5)")
      ->check(range(1, 1000))
      ->type_name("N");
  add_bench_model_options(app, options->model);
  return [options] { return run(*options); };
}

}  // namespace

const Command kBenchSchema = {"schema", "What it costs the engine to hold answers to a schema",
                              "ingot bench schema --batch 16 --constrained 0,1,16\n"
                              "  ingot bench schema --shape llama-3.1-8b --format bf16 --tokenizer tokenizer.json\n\n"
                              "Runs with so many constrained sequences take turns. Ratios are to the first of them.",
                              setup};

}  // namespace ingot
