// ingot quantize MODEL OUT with --format, --bits or --size: a smaller model, as GGUF for llama.cpp or a directory for
// vLLM.
#include "compress/quantize.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iterator>

#include "base/error.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/compress/method_options.h"
#include "cli/compress/progress_line.h"
#include "cli/compress/search_options.h"
#include "cli/eval/compare_run.h"
#include "cli/hub/progress.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "compress/calibration_text.h"
#include "compress/compare.h"
#include "compress/stats.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

struct Options {
  QuantizeOptions quantize;
  MethodOptions method;
  SizeOptions size;
  std::vector<std::string> tensors;
  int threads = 0;
  bool dry_run = false;
  CompareOptions compare;  // of the report
  CommonOptions common;
};

// Of the work itself. With gptq two thirds are its passes over the text, which come between the rounding of layers.
struct WorkShare {
  bool passes_count = false;
  double passes = 0, rounded = 0;

  double done() const { return passes_count ? (2 * passes + rounded) / 3 : rounded; }
};

// What the report asks for is looked at before the work, not behind it. Throws Error.
void check_report(const Options& options) {
  const CompareOptions& compare = options.compare;
  if (compare.text.empty()) return;
  const std::string hash = sha256_file(compare.text);
  if (!options.method.text.empty() && sha256_file(options.method.text) == hash)
    throw Error("[quantize] --report-text is the text of --text: what it says of the model would be too good");
  const std::string& statistics = options.method.statistics;
  if (!statistics.empty() && Stats::read(statistics).text_hash == hash)
    throw Error("[quantize] --report-text is the text that '{}' was gathered from: give another", statistics);
  check_other_text(options.quantize.model, compare.text);
  scored_text(*Tokenizer::load(options.quantize.model), read_text_file(compare.text), compare.chunk_tokens, 1);
  if (!options.dry_run) const AtomicFile page(compare.html);  // goes again
}

std::pair<std::string, std::string> tensor_option(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw CLI::ValidationError("--tensor", "'" + text + "' is not PATTERN=FORMAT");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

JsonObject summary_json(const QuantizeSummary& summary, const Options& options) {
  JsonArray classes, notes;
  for (const QuantizeSummary::Class& one : summary.classes) {
    classes.push_back(JsonObject{{"name", one.name},
                                 {"format", one.format},
                                 {"tensors", one.tensors},
                                 {"parameters", one.values},
                                 {"bytes", one.bytes}});
  }
  for (const std::string& note : summary.notes) notes.push_back(Json(note));
  return {{"out", options.quantize.out},
          {"format", options.quantize.format},
          {"method", options.quantize.method},
          {"dry_run", options.dry_run},
          {"resumed", summary.resumed},
          {"parameters", summary.values},
          {"bytes", summary.bytes},
          {"source_bytes", summary.source_bytes},
          {"bits", summary.bits()},
          {"fallbacks", summary.fallbacks},
          {"seconds", summary.seconds},
          {"notes", notes},
          {"classes", classes}};
}

void print_text(const QuantizeSummary& summary, const Options& options) {
  if (options.dry_run || options.common.verbose) {
    for (const QuantizeSummary::Class& one : summary.classes) {
      fmt::print("{:40} {:10} {:5} tensors {:>9}\n", one.name, one.format, one.tensors,
                 format_bytes(static_cast<uint64_t>(one.bytes)));
    }
  }
  fmt::print("{} {}: {} of tensors, {:.2f} bits a parameter, from {}{}; {} {:.1f} s\n",
             options.dry_run ? "would write" : "wrote", options.quantize.out,
             format_bytes(static_cast<uint64_t>(summary.bytes)), summary.bits(),
             format_bytes(static_cast<uint64_t>(summary.source_bytes)), summary.resumed ? ", went on" : "",
             options.dry_run ? "about" : "took", summary.seconds);
  if (summary.fallbacks > 0)
    fmt::print("{} matrices have rows that are no whole blocks of the format: they have the next that fits\n",
               summary.fallbacks);
}

// The method, and the formats where a size was named.
SearchedMethod open_with_formats(Options& options) {
  if (!options.size.asked()) return {open_method(options.method, options.quantize, options.dry_run), {}};
  return search_method(options.size, options.method, options.quantize, options.dry_run);
}

void print_found(const SearchResult& found) {
  const SearchResult::Candidate& best = found.candidates[found.best];
  fmt::print("formats by a search: KLD {:.5f} over {} tokens that nothing was fitted to, foreseen {:.5f}; best of {}\n",
             best.measured, found.scored, best.predicted, found.candidates.size());
}

int run(Options options) {
  QuantizeOptions& quantized = options.quantize;
  for (const std::string& text : options.tensors) quantized.tensors.push_back(tensor_option(text));
  quantized.model = resolve_model(quantized.model);
  quantized.threads = options.threads > 0 ? options.threads : available_cores();
  if (quantized.format.empty() && !options.size.asked())
    throw CLI::ValidationError("one of --format, --bits and --size is needed");
  CompareOptions& compare = options.compare;
  if (compare.html.empty() != compare.text.empty())
    throw CLI::ValidationError("--report and --report-text go together");
  // A limit on the size of files is an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  compare.chunks = 40;
  check_report(options);
  ProgressLine line;
  WorkShare share{.passes_count = quantized.method == "gptq"};
  options.method.progress = [&](std::string_view stage, double done) {
    const bool passes = stage == kWorkStage;
    if (passes) share.passes = done;
    line.show(stage, passes ? share.done() : done);
    throw_if_interrupted();
  };
  std::vector<std::string> notes = open_kv(options.method, quantized, options.dry_run);
  const SearchedMethod opened = open_with_formats(options);
  const std::unique_ptr<Rounder>& rounder = opened.method.rounder;
  QuantizeSummary summary;
  if (options.dry_run) {
    summary = plan_quantize(quantized, *rounder);
    summary.seconds += opened.method.seconds;
  } else {
    const InterruptGuard guard;
    quantized.progress = [&](int64_t done, int64_t total, int64_t) {
      share.rounded = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1));
      line.show(kWorkStage, share.done());
      return !interrupted();
    };
    summary = quantize(quantized, *rounder);
  }
  line.end();
  if (summary.stopped) throw Interrupted{};
  notes.insert(notes.end(), opened.method.notes.begin(), opened.method.notes.end());
  if (opened.method.notes_behind) std::ranges::copy(opened.method.notes_behind(), std::back_inserter(notes));
  summary.notes.insert(summary.notes.end(), notes.begin(), notes.end());
  for (const std::string& note : summary.notes) fmt::print(stderr, "note: {}\n", note);
  JsonObject json = summary_json(summary, options);
  const bool searched = options.size.asked();
  JsonObject formats;
  if (searched) {
    json["search"] = opened.found.json();
    for (const auto& [name, chosen] : opened.found.tensors) formats[name] = chosen;
    json["tensors"] = formats;
  }
  if (!options.common.json) print_text(summary, options);
  if (!options.common.json && searched) print_found(opened.found);
  if (!compare.html.empty() && !options.dry_run) {
    compare.teacher = quantized.model;
    compare.models = {quantized.out};
    compare.open.engine.threads = quantized.threads;
    compare.table = !options.common.json;
    compare.verbose = options.common.verbose;
    if (searched) compare.search = opened.found.json();
    json["report"] = run_compare(compare);
  }
  if (options.common.json) fmt::print("{}\n", to_json(json));
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  QuantizeOptions& quantized = options->quantize;
  app.add_option("MODEL", quantized.model, "A GGUF file, a Hugging Face directory or a cached name")->required();
  app.add_option("OUT", quantized.out, "A .gguf file, or a directory of safetensors")->required();
  CLI::Option* format = app.add_option("--format", quantized.format,
                                       "q4_k_m, q8_0, iq4_xs, f16 … for .gguf; int4, int8, fp8, bf16 … else");
  add_size_options(app, format, options->size);
  add_method_options(app, options->method, quantized);
  app.add_option("--tensor", options->tensors, "PATTERN=FORMAT for the tensors whose name fits ('*': anything)")
      ->type_name("PATTERN=FORMAT")
      ->allow_extra_args(false);
  app.add_flag("--pure", quantized.pure, "Every matrix in the format itself, without the mix's exceptions");
  app.add_flag("--requantize", quantized.requantize, "Round matrices of less than 8 bits again");
  app.add_flag("--dry-run", options->dry_run, "Say sizes and time, write nothing");
  app.add_option("--report", options->compare.html, "At the end, a page of what it cost: see `eval compare`")
      ->type_name("FILE");
  app.add_option("--report-text", options->compare.text, "The text for the report")->type_name("FILE");
  app.add_option("--threads", options->threads, "Threads (default: the cores it may use)")->check(CLI::Range(1, 1024));
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

const Command kQuantizeCommand = {"quantize", "Make a model smaller",
                                  "ingot quantize model-dir model.gguf --format q4_k_m\n"
                                  "  ingot quantize model-dir out-dir --format int4\n"
                                  "A killed run goes on with the same command.",
                                  setup};

}  // namespace ingot
