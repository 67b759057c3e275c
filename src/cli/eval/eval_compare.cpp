// ingot eval compare: models beside the one they were made of, over a text.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "cli/engine_options.h"
#include "cli/eval/compare_page.h"
#include "cli/eval/compare_run.h"
#include "cli/eval/eval.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "compress/calibration_text.h"
#include "compress/compare.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "text/tokenizer.h"
#include "weights/model_files.h"
#include "weights/stored_tensors.h"

namespace ingot {
namespace {

// One of the models, and what is known of it before it runs.
struct Subject {
  std::string path, name;
  OpenEngine open;
  std::string format;
  int64_t bytes = 0;  // of the stored tensors
  double bits = 0;    // of these for each of the model's values
  Speed speed;
};

Subject open_subject(const std::string& path, const OpenOptions& options) {
  Subject s;
  s.path = path;
  s.name = std::filesystem::path(path).filename().string();
  s.open = open_engine(path, options);
  if (s.name.empty()) s.name = std::filesystem::path(path).parent_path().filename().string();
  const ModelFiles& files = *s.open.model->files;
  s.format = format_text(bytes_of_formats(files));
  int64_t parameters = 0;
  for (const StoredTensor& t : stored_tensors(files)) {
    s.bytes += t.bytes;
    parameters += t.parameters;
  }
  s.bits = parameters > 0 ? 8.0 * static_cast<double>(s.bytes) / static_cast<double>(parameters) : 0;
  return s;
}

// The teacher first. All are opened before anything runs: what cannot be compared is known at once.
std::vector<Subject> open_all(const CompareOptions& options, const Tokenizer& tokenizer, const std::string& teacher) {
  OpenOptions setup = options.open;
  setup.model.context = options.chunk_tokens;
  std::vector<std::string> paths;
  for (const std::string& model : options.models) {
    paths.push_back(resolve_model(model));
    check_other_text(paths.back(), options.text);
    check_same_vocabulary(tokenizer, *Tokenizer::load(paths.back()), paths.back());
  }
  std::vector<Subject> subjects;
  OpenOptions plain = setup;
  if (setup.kv == "fp8" || setup.kv == "int8" || setup.kv == "q8_0") plain.kv = "f32";  // what it costs is judged, too
  subjects.push_back(open_subject(teacher, plain));
  const int vocab = subjects[0].open.model->hp.vocab;
  for (const std::string& path : paths) {
    subjects.push_back(open_subject(path, setup));
    const int other = subjects.back().open.model->hp.vocab;
    if (other != vocab) throw Error("[eval] '{}' has {} logits, the teacher {}", path, other, vocab);
  }
  return subjects;
}

// Of the first chunk: a quarter of it, at most 32 tokens, is made after the rest was read.
void measure_speeds(std::vector<Subject>& subjects, const std::vector<int32_t>& chunk) {
  const int gen = std::clamp(static_cast<int>(chunk.size()) / 4, 2, 32);
  const std::vector<int32_t> prompt(chunk.begin(), chunk.end() - gen);
  for (Subject& s : subjects) s.speed = measure_speed(*s.open.engine, prompt, gen);
}

JsonObject subject_json(const Subject& s, bool speed, double perplexity) {
  JsonObject json{{"name", s.name},   {"path", s.path}, {"format", s.format},
                  {"bytes", s.bytes}, {"bits", s.bits}, {"perplexity", perplexity}};
  if (speed) {
    json["prefill_tps"] = s.speed.prefill_tps;
    json["decode_tps"] = s.speed.decode_tps;
  }
  return json;
}

JsonObject report_json(const CompareOptions& options, const std::vector<Subject>& subjects, const Compared& compared,
                       const ScoredText& text, double seconds) {
  JsonArray models;
  for (size_t m = 0; m < compared.models.size(); ++m) {
    const Divergence& d = compared.models[m];
    JsonObject json = subject_json(subjects[m + 1], options.speed, d.perplexity);
    json["kld"] = d.kld;
    json["kld_error"] = d.kld_error;
    json["kld_median"] = d.kld_median;
    json["kld_p99"] = d.kld_p99;
    json["kld_max"] = d.kld_max;
    json["top1"] = d.top1;
    json["chunk_kld"] = JsonArray(d.chunk_kld.begin(), d.chunk_kld.end());
    // No other is at least as small and as near, and better in one of the two.
    bool front = true;
    for (size_t o = 0; o < compared.models.size(); ++o) {
      const int64_t bytes = subjects[o + 1].bytes, own = subjects[m + 1].bytes;
      const double kld = compared.models[o].kld;
      if (bytes <= own && kld <= d.kld && (bytes < own || kld < d.kld)) front = false;
    }
    json["on_front"] = front;
    if (m > 0) {
      const PairedRatio paired = paired_ratio(compared.models[0], d);
      json["ratio_to_first"] = paired.ratio;
      json["ratio_error"] = paired.error;
    }
    models.emplace_back(std::move(json));
  }
  return {{"teacher", subject_json(subjects[0], options.speed, compared.teacher_perplexity)},
          {"models", models},
          {"text", std::filesystem::path(options.text).filename().string()},
          {"chunks", static_cast<int64_t>(text.chunks.size())},
          {"chunk_tokens", options.chunk_tokens},
          {"tokens", text.scored()},
          {"seconds", seconds}};
}

void print_table(const std::vector<Subject>& subjects, const Compared& compared, bool speed) {
  size_t width = 5;
  for (const Subject& s : subjects) width = std::max(width, s.name.size());
  fmt::print("{:<{}} {:>9} {:>6} {:>11} {:>19} {:>8} {:>8} {:>7}", "", width, "MB", "bits", "perplexity", "KLD", "p99",
             "max", "top-1");
  if (speed) fmt::print(" {:>14} {:>13}", "prefill tok/s", "decode tok/s");
  fmt::print("\n");
  for (size_t i = 0; i < subjects.size(); ++i) {
    const Subject& s = subjects[i];
    const double perplexity = i == 0 ? compared.teacher_perplexity : compared.models[i - 1].perplexity;
    fmt::print("{:<{}} {:>9.2f} {:>6.2f} {:>11.4f}", s.name, width, static_cast<double>(s.bytes) / 1e6, s.bits,
               perplexity);
    if (i == 0) {
      fmt::print(" {:>19} {:>8} {:>8} {:>7}", "-", "-", "-", "-");
    } else {
      const Divergence& d = compared.models[i - 1];
      fmt::print(" {:>9.5f} ± {:.5f} {:>8.4f} {:>8.3f} {:>6.2f}%", d.kld, d.kld_error, d.kld_p99, d.kld_max,
                 100 * d.top1);
    }
    if (speed) fmt::print(" {:>14.1f} {:>13.1f}", s.speed.prefill_tps, s.speed.decode_tps);
    fmt::print("\n");
  }
}

}  // namespace

JsonObject run_compare(const CompareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::string teacher = resolve_model(options.teacher);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(teacher);
  const ScoredText text = scored_text(*tokenizer, read_text_file(options.text), options.chunk_tokens, options.chunks);
  std::optional<AtomicFile> page;  // whether it can be written is known before the work
  if (!options.html.empty()) page.emplace(options.html);
  std::vector<Subject> subjects = open_all(options, *tokenizer, teacher);
  std::vector<Engine*> engines;
  for (size_t i = 1; i < subjects.size(); ++i) engines.push_back(subjects[i].open.engine);
  const InterruptGuard guard;
  const Compared compared = compare(*subjects[0].open.engine, engines, text, [&](size_t done) {
    if (interrupted()) throw Interrupted();
    if (options.verbose) fmt::print(stderr, "chunk {} of {}\n", done, text.chunks.size());
  });
  if (options.speed) measure_speeds(subjects, text.chunks[0]);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  JsonObject report = report_json(options, subjects, compared, text, seconds);
  if (!options.search.empty()) report["search"] = options.search;
  if (page) {
    page->write(compare_page(report));
    page->commit();
  }
  if (options.table) {
    print_table(subjects, compared, options.speed);
    fmt::print("{} tokens of {} chunks, {:.1f} s\n", text.scored(), text.chunks.size(), seconds);
  }
  return report;
}

namespace {

struct Options {
  CompareOptions compare;
  CommonOptions common;
};

int run(Options& options) {
  options.compare.table = !options.common.json;
  options.compare.verbose = options.common.verbose;
  const JsonObject report = run_compare(options.compare);
  if (options.common.json) fmt::print("{}\n", to_json(report));
  return 0;
}

}  // namespace

CommandBody setup_eval_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CompareOptions& compared = options->compare;
  app.add_option("TEACHER", compared.teacher, "The model that the others were made of")->required();
  app.add_option("MODEL", compared.models, "Models of the same vocabulary")->required();
  app.add_option("--text", compared.text, "A text file, other than what the models were calibrated with")->required();
  app.add_option("--chunks", compared.chunks, "At most this many chunks (0: all)")->check(CLI::Range(0, 1 << 30));
  app.add_option("--chunk-tokens", compared.chunk_tokens, "Tokens of a chunk")->check(CLI::Range(4, 1 << 20));
  app.add_option("--html", compared.html, "Also write a page with a chart")->type_name("FILE");
  app.add_flag("!--no-speed", compared.speed, "Without prefill and decode");
  add_engine_option(app, "--kv", compared.open,
                    "KV cache: f32, f16, bf16, fp8, int8 or q8_0 (the teacher's f32 with the last three)")
      ->type_name("TEXT");
  add_engine_options(app, OptionsOf::kEngine, compared.open);
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace ingot
