// ingot calibrate MODEL --text FILE --out STATS: what a model's matrices read, for compression.
#include "compress/calibrate.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/compress/method_options.h"
#include "cli/compress/progress_line.h"
#include "cli/session.h"
#include "files/json.h"

namespace ingot {
namespace {

struct Options {
  std::string model, text, out;
  int64_t tokens = 32768;
  int64_t chunk_tokens = 512;
  int threads = 0;
  KvOptions kv;
  CommonOptions common;
};

JsonObject kv_json(const Stats& stats) {
  const std::vector<int> kept = stats.kv->kept();
  return {{"format", dtype_name(stats.kv->format)},
          {"keep", JsonArray(kept.begin(), kept.end())},
          {"kld", JsonArray(stats.kv_divergences.begin(), stats.kv_divergences.end())}};
}

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  if (std::filesystem::exists(options.out)) throw Error("[calibrate] '{}' exists already", options.out);
  const int threads = options.threads > 0 ? options.threads : available_cores();
  const std::string path = resolve_model(options.model);
  const CalibrationText text = calibration_text({.model = path,
                                                 .text = options.text,
                                                 .chunk_rows = options.chunk_tokens,
                                                 .tokens = options.tokens,
                                                 .threads = threads});
  CalibrateOptions setup{.model = path, .scratch = options.out + ".hidden", .threads = threads};
  if (options.kv.asked()) setup.kv = options.kv.dtype();
  setup.kv_bits = options.kv.bits;
  ProgressLine line;
  int told = -1;
  setup.progress = [&](double done) {
    const int percent = static_cast<int>(100 * done);
    if (options.common.verbose && percent > told) fmt::print(stderr, "{} %\n", told = percent);
    if (!options.common.verbose) line.show("calibrating", done);
  };
  const Stats stats = calibrate(setup, text);
  line.end();
  stats.write(options.out);
  const std::vector<std::string> few = stats.hardly_met();
  for (const std::string& name : few) fmt::print(stderr, "fewer than {:.0f} rows met {}\n", kFewRows, name);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.common.json) {
    JsonObject json{{"tensors", static_cast<int64_t>(stats.tensors.size())},
                    {"tokens", static_cast<int64_t>(text.tokens.size())},
                    {"chunks", text.chunks()},
                    {"hardly_met", JsonArray(few.begin(), few.end())},
                    {"out", options.out},
                    {"seconds", seconds}};
    if (stats.kv != nullptr) json["kv"] = kv_json(stats);
    fmt::print("{}\n", to_json(json));
  } else {
    fmt::print("{}: the inputs of {} tensors over {} tokens of {}, {:.1f} s\n", options.out, stats.tensors.size(),
               text.tokens.size(), text.dataset, seconds);
    if (stats.kv != nullptr) fmt::print("scales for a KV cache in {}\n", kv_text(*stats.kv));
  }
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "A GGUF file, a Hugging Face directory or a cached name")->required();
  app.add_option("--text", options->text,
                 "A text, or .jsonl with a chat in each line; without it the model's own samples");
  app.add_option("--out", options->out, "The statistics: an importance matrix in GGUF")->required();
  app.add_option("--tokens", options->tokens, "At most so many tokens of the text (0: all)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app.add_option("--chunk-tokens", options->chunk_tokens, "Tokens that see each other")->check(CLI::Range(4, 1 << 20));
  add_kv_options(app, options->kv);
  app.add_option("--threads", options->threads, "CPU threads (0: all cores)")->check(CLI::Range(0, 4096));
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

const Command kCalibrateCommand = {"calibrate", "Gather what a model's matrices read, for compression",
                                   "ingot calibrate model.gguf --text wiki.train.raw --out stats.gguf", setup};

}  // namespace ingot
