// ingot eval ppl: perplexity over non-overlapping chunks, the second half of each scored.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "cli/engine_options.h"
#include "cli/eval/eval.h"
#include "cli/session.h"
#include "compress/calibration_text.h"
#include "compress/scoring.h"
#include "files/json.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

struct Options {
  std::string model;
  std::string text;
  int chunks = 0;
  int chunk_tokens = 512;
  OpenOptions open = {.kv = "f32"};
  CommonOptions common;
};

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::string path = resolve_model(options.model);
  check_other_text(path, options.text);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(path);
  OpenOptions setup = options.open;
  setup.model.context = options.chunk_tokens;
  OpenEngine open = open_engine(path, setup);
  const std::vector<int32_t> ids = tokenizer->encode(read_text_file(options.text), {.add_special = true});
  const size_t size = static_cast<size_t>(options.chunk_tokens);
  const size_t available = ids.size() / size;
  if (available == 0) throw Error("[eval] the text has {} tokens, a chunk is {}", ids.size(), size);
  const size_t chunks = options.chunks ? std::min(available, static_cast<size_t>(options.chunks)) : available;

  JsonArray chunk_nll;
  double total = 0;
  for (size_t c = 0; c < chunks; ++c) {
    std::vector<int32_t> chunk(ids.begin() + static_cast<std::ptrdiff_t>(c * size),
                               ids.begin() + static_cast<std::ptrdiff_t>((c + 1) * size));
    if (tokenizer->adds_bos()) chunk[0] = *tokenizer->bos();
    // Positions from the middle on predict their next token: of 512, 256 … 510 predict 257 … 511.
    const double nll = negative_log_likelihood(*open.engine, chunk, options.chunk_tokens / 2 + 1, options.chunk_tokens);
    chunk_nll.emplace_back(nll);
    total += nll;
    if (options.common.verbose) fmt::print(stderr, "chunk {} of {}: {:.4f}\n", c + 1, chunks, nll);
  }
  const double scored = static_cast<double>(chunks) * (options.chunk_tokens - options.chunk_tokens / 2 - 1);
  const double perplexity = std::exp(total / scored);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.common.json) {
    fmt::print("{}\n", to_json(JsonObject{{"perplexity", perplexity},
                                          {"chunk_nll", chunk_nll},
                                          {"tokens", static_cast<int64_t>(scored)},
                                          {"seconds", seconds}}));
  } else {
    fmt::print("perplexity {:.4f} over {:.0f} tokens of {} chunks, {:.1f} s\n", perplexity, scored, chunks, seconds);
  }
  return 0;
}

}  // namespace

CommandBody setup_eval_ppl(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "A GGUF file, a Hugging Face directory or a cached name");
  app.add_option("--text", options->text, "A text file")->required();
  app.add_option("--chunks", options->chunks, "At most this many chunks (0: all)")->check(CLI::Range(0, 1 << 30));
  app.add_option("--chunk-tokens", options->chunk_tokens, "Tokens of a chunk")->check(CLI::Range(4, 1 << 20));
  add_engine_option(app, "--kv", options->open, "Format of the KV cache: f32, f16, bf16, fp8, int8 or q8_0")
      ->type_name("TEXT");
  add_engine_options(app, OptionsOf::kEngine, options->open);
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace ingot
