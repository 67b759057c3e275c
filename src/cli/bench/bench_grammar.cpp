// ingot bench grammar TOKENIZER --schemas PATH: what it costs to hold answers to schemas, and whether they are held.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "cli/bench/bench.h"
#include "cli/bench/grammar_cases.h"
#include "cli/bench/spread.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "grammar/matcher.h"
#include "grammar/vocabulary.h"

namespace ingot {
namespace {

struct Options {
  std::string tokenizer, schemas;
  int passes = 2;
  bool strict = false;
  CommonOptions common;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// One of the masks that cost most.
struct DearMask {
  double us = 0;
  std::string schema, after;  // the end of the text before it
};

struct Figures {
  std::vector<double> compile_ms, mask_us;
  std::vector<DearMask> dear;
  std::map<std::string, int> refused_by;  // keyword of the place: schemas
  int schemas = 0, taken = 0;
  int valid = 0, invalid = 0;
  std::vector<std::string> valid_refused, invalid_accepted, failed;  // names
};

// What a refusal is about: the last word of its place, or what it says.
std::string keyword_of(const grammar::GrammarError& error) {
  const std::string& place = error.place();
  const size_t slash = place.rfind('/');
  return slash == std::string::npos ? std::string(error.what()) : place.substr(slash + 1);
}

class Bench {
 public:
  static constexpr size_t kDear = 10;     // masks that are told of
  static constexpr double kDearUs = 200;  // what costs less is none of them
  static constexpr size_t kAfter = 40;    // bytes of text before each

  explicit Bench(const Options& options)
      : options_(options),
        tokenizer_(Tokenizer::load(tokenizer_path(resolve_model(options.tokenizer)))),
        cases_(read_grammar_cases(options.schemas)) {
    const double start = cpu_seconds();
    vocabulary_ = grammar::Vocabulary::make(*tokenizer_, tokenizer_->end_tokens());
    vocabulary_ms = 1e3 * (cpu_seconds() - start);
    words_.resize(vocabulary_->words());
  }

  Figures pass() {
    Figures figures;
    for (const GrammarCase& one : cases_) {
      throw_if_interrupted();
      measure(one, figures);
    }
    std::ranges::sort(figures.compile_ms);
    std::ranges::sort(figures.mask_us);
    std::ranges::sort(figures.dear, std::ranges::greater(), &DearMask::us);
    figures.dear.resize(std::min(figures.dear.size(), kDear));
    return figures;
  }

  double vocabulary_ms = 0;

 private:
  void measure(const GrammarCase& one, Figures& figures) {
    ++figures.schemas;
    const double start = cpu_seconds();
    std::shared_ptr<const grammar::Compiled> compiled;
    try {
      compiled = grammar::compile(
          {.language = grammar::Language::kJsonSchema, .text = one.schema, .choices = {}, .strict = options_.strict},
          vocabulary_, {}, {.masks = masks_, .account = nullptr});
      grammar::Matcher(compiled).mask(words_);
    } catch (const grammar::GrammarError& error) {
      ++figures.refused_by[keyword_of(error)];
      return;
    }
    figures.compile_ms.push_back(1e3 * (cpu_seconds() - start));
    ++figures.taken;
    for (const GrammarInstance& instance : one.instances) {
      (instance.valid ? figures.valid : figures.invalid) += 1;
      grammar::Matcher matcher(compiled);
      const bool accepted = accepts(matcher, one.name, instance.text, figures);
      if (matcher.failed()) figures.failed.push_back(one.name);
      if (accepted == instance.valid) continue;
      (instance.valid ? figures.valid_refused : figures.invalid_accepted).push_back(one.name);
    }
  }

  bool accepts(grammar::Matcher& matcher, const std::string& name, const std::string& text, Figures& figures) {
    std::string before;
    for (const Token token : tokenizer_->encode(text)) {
      const double start = cpu_seconds();
      const bool open = matcher.mask(words_);
      const double us = 1e6 * (cpu_seconds() - start);
      figures.mask_us.push_back(us);
      if (us > kDearUs)
        figures.dear.push_back({us, name, before.substr(before.size() - std::min(before.size(), kAfter))});
      before += tokenizer_->token_bytes(token);
      if (!open || (words_[static_cast<size_t>(token) / 32] >> (token % 32) & 1u) == 0 || !matcher.advance(token)) {
        return false;
      }
    }
    return matcher.may_end();
  }

  const Options& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<GrammarCase> cases_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  std::shared_ptr<grammar::MaskStore> masks_ = std::make_shared<grammar::MaskStore>(size_t{48} << 20);
  std::vector<uint32_t> words_;
};

JsonArray names_json(const std::vector<std::string>& names) { return JsonArray(names.begin(), names.end()); }

JsonObject figures_json(const Figures& f) {
  const auto spread = [](const std::vector<double>& sorted) {
    return JsonObject{{"mean", mean(sorted)},
                      {"p50", quantile(sorted, 0.5)},
                      {"p99", quantile(sorted, 0.99)},
                      {"p99.9", quantile(sorted, 0.999)},
                      {"max", sorted.empty() ? 0.0 : sorted.back()},
                      {"count", sorted.size()}};
  };
  JsonObject refused;
  for (const auto& [keyword, count] : f.refused_by) refused[keyword] = count;
  JsonArray dear;
  for (const DearMask& mask : f.dear) {
    dear.push_back(JsonObject{{"us", mask.us}, {"schema", mask.schema}, {"after", mask.after}});
  }
  return {{"schemas", f.schemas},
          {"taken", f.taken},
          {"valid", f.valid},
          {"invalid", f.invalid},
          {"valid_refused", names_json(f.valid_refused)},
          {"invalid_accepted", names_json(f.invalid_accepted)},
          {"failed", names_json(f.failed)},
          {"refused_by", std::move(refused)},
          {"compile_ms", spread(f.compile_ms)},
          {"mask_us", spread(f.mask_us)},
          {"dear_masks", std::move(dear)}};
}

void print_pass(int number, const Figures& f) {
  fmt::print("pass {}: {} of {} schemas taken; of {} valid instances {} refused, of {} invalid {} let through\n",
             number, f.taken, f.schemas, f.valid, f.valid_refused.size(), f.invalid, f.invalid_accepted.size());
  fmt::print("  compile and first mask, ms: p50 {:.3f}  p99 {:.3f}  max {:.3f}\n", quantile(f.compile_ms, 0.5),
             quantile(f.compile_ms, 0.99), f.compile_ms.empty() ? 0 : f.compile_ms.back());
  fmt::print("  mask, µs: mean {:.1f}  p50 {:.1f}  p99 {:.1f}  p99.9 {:.1f}  ({} masks)\n", mean(f.mask_us),
             quantile(f.mask_us, 0.5), quantile(f.mask_us, 0.99), quantile(f.mask_us, 0.999), f.mask_us.size());
  for (const DearMask& mask : f.dear) {
    std::string after;
    append_json(after, mask.after);
    fmt::print("  {:.0f} µs: {}, after {}\n", mask.us, mask.schema, after);
  }
}

void print_names(const char* what, const std::vector<std::string>& names) {
  for (const std::string& name : names) fmt::print("{}: {}\n", what, name);
}

int run(const Options& options) {
  const InterruptGuard guard;
  Bench bench(options);
  JsonArray passes;
  Figures last;
  if (!options.common.json) fmt::print("vocabulary: {:.1f} ms\n", bench.vocabulary_ms);
  for (int i = 0; i < options.passes; ++i) {
    last = bench.pass();
    if (!options.common.json) print_pass(i + 1, last);
    passes.push_back(figures_json(last));
  }
  if (options.common.json) {
    fmt::print("{}\n", to_json(JsonObject{{"vocabulary_ms", bench.vocabulary_ms}, {"passes", std::move(passes)}}));
    return 0;
  }
  for (const auto& [keyword, count] : last.refused_by) fmt::print("refused by {}: {}\n", keyword, count);
  print_names("valid, refused", last.valid_refused);
  print_names("invalid, let through", last.invalid_accepted);
  print_names("beyond a limit", last.failed);
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("TOKENIZER", options->tokenizer, "A model, or a file or directory that holds a tokenizer")
      ->required()
      ->type_name("");
  app.add_option("--schemas", options->schemas, "A file of JSON, or a directory of them: schemas, or {schema, tests}")
      ->required()
      ->type_name("PATH");
  app.add_option("--passes", options->passes, "Times that all are compiled and matched")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N");
  app.add_flag("--strict", options->strict, "A keyword that is not known is a refusal");
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

const Command kBenchGrammar = {"grammar", "What it costs to hold answers to schemas",
                               "ingot bench grammar tokenizer.json --schemas maskbench/\n\n"
                               "Times are of the processor, of one thread. The tests of a schema are a list of\n"
                               "{\"data\": …, \"valid\": true}; keys of objects are tried in the schema's order.",
                               setup};

}  // namespace ingot
