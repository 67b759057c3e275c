#include "cli/compress/search_options.h"

#include <filesystem>

#include "base/error.h"
#include "models/model.h"
#include "weights/config.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

// Importances by which errors are weighted where the method gathers its own statistics later: few tokens will do.
constexpr int64_t kImportanceTokens = 8192;

}  // namespace

void add_size_options(CLI::App& app, CLI::Option* format, SizeOptions& options) {
  CLI::Option* bits = app.add_option("--bits", options.bits,
                                     "In place of --format: the best formats within so many bits a parameter (.gguf)")
                          ->check(CLI::Range(1.0, 32.0))
                          ->excludes(format);
  app.add_option("--size", options.size,
                 "Likewise: a file of at most so many bytes, with KB, MB, GB or MiB behind them")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50).description(""))
      ->type_name("BYTES")
      ->excludes(format)
      ->excludes(bits);
}

SearchedMethod search_method(const SizeOptions& size, MethodOptions options, QuantizeOptions& quantized, bool dry) {
  if (quantized.pure)
    throw Error("[search] --pure is one format for all matrices: it does not go with --bits or --size");
  if (std::filesystem::exists(quantized.out))
    throw Error("[quantize] '{}' exists; it is not overwritten", quantized.out);
  check_searched(quantized.out);
  // The others change the tensors that are rounded, which are measured as they are.
  if (quantized.method != "rtn" && quantized.method != "imatrix" && quantized.method != "gptq")
    throw Error("[search] --bits and --size go with --method rtn, imatrix or gptq, not with {}", quantized.method);
  if (quantized.method != "imatrix" && !options.statistics.empty())
    throw Error("[search] --stats is for --method imatrix");
  SearchOptions setup;
  setup.bits = size.bits;
  setup.size = size.size;
  setup.progress = options.progress_of("searching");
  setup.text = calibration_text(
      {.model = quantized.model, .text = options.text, .tokens = options.tokens, .threads = quantized.threads});
  const int64_t rows = setup.text.chunk_rows, seen = setup.text.chunks() - held_out_chunks(setup.text);
  options.tokens = std::max<int64_t>(seen, 1) * rows;
  SearchedMethod result;
  std::shared_ptr<Stats> stats;
  if (quantized.method == "imatrix") result.method = open_method(options, quantized, false);
  if (!options.statistics.empty() && !setup.text.hash.empty() && result.method.stats->text_hash == setup.text.hash)
    throw Error("[search] '{}' was gathered from '{}', whose last chunks judge the choice: give another --text",
                options.statistics, options.text);
  setup.quantize = quantized;
  if (quantized.method == "gptq") {
    CalibrationText some = setup.text;
    some.tokens.resize(
        static_cast<size_t>(std::min(options.tokens, std::max<int64_t>(kImportanceTokens / rows, 1) * rows)));
    stats = std::make_shared<Stats>(calibrate({.model = quantized.model,
                                               .scratch = quantized.out + ".hidden",
                                               .threads = quantized.threads,
                                               .progress = options.progress_of("calibrating")},
                                              some));
    setup.quantize.importances = stats->importances(find_architecture(Config(ModelFiles::open(quantized.model))));
  }
  result.found = search(setup);
  quantized.tensors = result.found.tensors;
  quantized.format = result.found.format;
  quantized.text_hash = with_hash(quantized.text_hash, setup.text.hash);
  quantized.search = to_json(result.found.json());
  if (quantized.method == "rtn") options.text.clear();  // it was for the search alone
  if (quantized.method != "imatrix") result.method = open_method(options, quantized, dry);
  return result;
}

}  // namespace ingot
