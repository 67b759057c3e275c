#include "cli/compress/method_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/sha256.h"
#include "compress/estimate.h"
#include "compress/fold/rotate.h"
#include "compress/fold/scale_search.h"
#include "compress/plan.h"
#include "models/model.h"
#include "weights/config.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

constexpr uint64_t kRotationSeed = 1;
constexpr int kRotateContext = 64;  // the graph alone is looked at

CalibrationText text_of(const MethodOptions& options, const QuantizeOptions& quantized) {
  return calibration_text(
      {.model = quantized.model, .text = options.text, .tokens = options.tokens, .threads = quantized.threads});
}

// What the recipe says of a text: which it was, and how much of it.
std::string text_facts(const CalibrationText& text) {
  return fmt::format("{} tokens of sha256 {}", text.tokens.size(),
                     text.hash.empty() ? "the model's samples" : text.hash);
}

std::string beside(const std::string& out, const char* suffix) {
  std::string path = out;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path + suffix;
}

// Notes on experts that the text hardly met.
std::vector<std::string> few_rows(std::vector<std::string> hardly_met) {
  for (std::string& line : hardly_met) line = fmt::format("fewer than {:.0f} rows met {}", kFewRows, line);
  return hardly_met;
}

// Throws Error where the method would run the model for nothing.
void check_planned(const std::string& method, const std::string& format, const PlannedFormats& planned) {
  if (planned.empty())
    throw Error(
        "[quantize] {} changes nothing in '{}': its matrices are floats, rounded one by one; leave --method out",
        method, format);
  const bool weighted =
      std::ranges::any_of(planned, [](const auto& one) { return format_weighted(one.second.format); });
  if (method == "imatrix" && !weighted)
    throw Error("[quantize] imatrix changes nothing in '{}': scales by the largest value alone; gptq does", format);
}

// awq and smooth: columns are scaled before they are rounded.
Method open_scaled(const MethodOptions& options, QuantizeOptions& quantized, const PlannedFormats& formats) {
  const CalibrationText text = text_of(options, quantized);
  const bool awq = quantized.method == "awq";
  const ScaledModel scaled = search_scales(awq ? ScaleMethod::kAwq : ScaleMethod::kSmooth,
                                           {.model = quantized.model,
                                            .scratch = beside(quantized.out, ".hidden"),
                                            .threads = quantized.threads,
                                            .progress = options.progress_of("scaling")},
                                           text, formats);
  quantized.statistics = text_facts(text);
  quantized.text_hash = text.hash;
  quantized.fold = scaled.fold;
  if (awq) quantized.importances = scaled.importances;
  std::vector<std::string> notes = few_rows(scaled.hardly_met);
  notes.push_back(fmt::format("{} scaled the columns of {} groups of matrices out of {}", quantized.method,
                              scaled.scaled, scaled.groups));
  return {.rounder = nearest_rounder(), .stats = nullptr, .notes = std::move(notes)};
}

// A dry run of a method that runs the model: how long that will take. The model's own samples are not made.
Method foreseen(const MethodOptions& options, const QuantizeOptions& quantized, const PlannedFormats& planned) {
  PassesSetup setup{.model = quantized.model, .threads = quantized.threads, .gptq = quantized.method == "gptq"};
  if (options.text.empty()) {
    setup.chunk_rows = CalibrationTextOptions().chunk_rows;
    setup.chunk_rows = std::min<int64_t>(setup.chunk_rows, Model::read_numbers(ModelFiles::open(setup.model)).context);
    setup.chunks = std::max<int64_t>(1, (options.tokens > 0 ? options.tokens : 8192) / setup.chunk_rows);
  } else {
    const CalibrationText text = text_of(options, quantized);
    setup.chunk_rows = text.chunk_rows;
    setup.chunks = text.chunks();
  }
  return {.rounder = nearest_rounder(), .stats = nullptr, .notes = {}, .seconds = estimate_passes(setup, planned)};
}

void check_free(const std::string& out) {
  if (std::filesystem::exists(out)) throw Error("[quantize] '{}' exists; it is not overwritten", out);
}

// Of this model.
Stats read_stats(const std::string& path, const std::string& model) {
  Stats stats = Stats::read(path);
  const ModelFiles files = ModelFiles::open(model);
  stats.check_model(files, find_architecture(Config(files)));
  return stats;
}

}  // namespace

void add_kv_options(CLI::App& app, KvOptions& options) {
  CLI::Option* kv = app.add_option("--kv", options.type, "Also find scales for a KV cache in fp8 or int8")
                        ->check(CLI::IsMember(std::vector<std::string>{"fp8", "int8"}));
  app.add_option("--kv-bits", options.bits, "Of a value of that cache in the mean: above 8 the worst layers keep 16")
      ->check(CLI::Range(8.0, 16.0))
      ->needs(kv);
}

std::string kv_text(const KvScales& scales) {
  const std::vector<int> kept = scales.kept();
  return fmt::format("{}{}", dtype_name(scales.format),
                     kept.empty() ? "" : fmt::format(", layers {} in 16 bits", fmt::join(kept, ", ")));
}

std::vector<std::string> open_kv(const MethodOptions& options, QuantizeOptions& quantized, bool dry) {
  if (!options.kv.asked()) return {};
  if (quantized.method != "rtn" && quantized.method != "imatrix" && quantized.method != "gptq")
    throw Error("[kv] {} changes the values that scales are found for: write that model first", quantized.method);
  if (dry) return {};
  check_free(quantized.out);
  Stats stats;
  if (!options.statistics.empty()) {
    stats = read_stats(options.statistics, quantized.model);
    if (stats.kv == nullptr || stats.kv->format != options.kv.dtype())
      throw Error("[kv] '{}' has no scales for {}: `ingot calibrate --kv {}` finds them", options.statistics,
                  options.kv.type, options.kv.type);
  } else {
    const CalibrationText text = text_of(options, quantized);
    stats = calibrate({.model = quantized.model,
                       .scratch = beside(quantized.out, ".hidden"),
                       .threads = quantized.threads,
                       .progress = options.progress_of("calibrating the KV cache"),
                       .kv = options.kv.dtype(),
                       .kv_bits = options.kv.bits},
                      text);
  }
  quantized.kv = stats.kv;
  quantized.text_hash = with_hash(quantized.text_hash, stats.text_hash);
  return {"scales for a KV cache in " + kv_text(*stats.kv)};
}

void add_method_options(CLI::App& app, MethodOptions& options, QuantizeOptions& quantized) {
  app.add_option("--method", quantized.method,
                 "How values are rounded: rtn, imatrix, gptq, awq, smooth (for int8) or rotate")
      ->check(CLI::IsMember(std::vector<std::string>{"rtn", "imatrix", "gptq", "awq", "smooth", "rotate"}));
  app.add_option("--text", options.text,
                 "What the model is run with for it: a text, or .jsonl of chats; none: its own samples");
  app.add_option("--stats", options.statistics, "Statistics of ingot calibrate or llama-imatrix, for imatrix");
  app.add_option("--tokens", options.tokens, "At most so many tokens of the text (0: all)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  add_kv_options(app, options.kv);
  app.add_option("--damping", options.gptq.damping, "Of gptq: a share of each column's square on XᵀX's diagonal")
      ->check(CLI::Range(0.0, 10.0));
}

Method open_method(const MethodOptions& options, QuantizeOptions& quantized, bool dry) {
  const bool calibrates = quantized.method != "rtn" && quantized.method != "rotate";
  if (!calibrates && !options.kv.asked() && (!options.text.empty() || !options.statistics.empty()))
    throw Error("[quantize] --text and --stats are not for --method {}", quantized.method);
  if (calibrates && quantized.method != "imatrix" && !options.statistics.empty())
    throw Error("[quantize] {} needs a text, not statistics: they hold no rows", quantized.method);
  if (quantized.method == "smooth" && quantized.format != "int8")
    throw Error("[quantize] smooth is for --format int8, where the inputs are rounded too; awq is for '{}'",
                quantized.format);
  if (quantized.method == "rotate") {
    const Model model = Model::load(quantized.model, layer_options(kRotateContext));
    quantized.fold = rotation_fold(model, kRotationSeed);
    quantized.statistics = fmt::format("seed {}", kRotationSeed);
  }
  // A search chooses the formats later, and asks for importances itself.
  PlannedFormats planned;
  if (calibrates && !quantized.format.empty()) {
    planned = planned_formats(quantized);
    check_planned(quantized.method, quantized.format, planned);
  }
  if (dry && calibrates && options.statistics.empty()) return foreseen(options, quantized, planned);
  if (!calibrates || dry) return {.rounder = nearest_rounder(), .stats = nullptr, .notes = {}};
  // Told before the model runs, not after.
  check_free(quantized.out);
  if (quantized.method == "gptq") {
    GptqSetup setup{
        .model = quantized.model, .text = text_of(options, quantized), .state = beside(quantized.out, ".gptq")};
    quantized.statistics = fmt::format("{}, damping {}", text_facts(setup.text), options.gptq.damping);
    quantized.text_hash = with_hash(quantized.text_hash, setup.text.hash);
    setup.recipe = recipe_text(quantized);
    setup.gguf_order = quantized.out.ends_with(".gguf");
    setup.head = planned.contains("lm_head.weight") || planned.contains("model.embed_tokens.weight");
    setup.threads = quantized.threads;
    setup.options = options.gptq;
    setup.progress = options.progress_of(kWorkStage);
    auto counts = std::make_shared<Stats>();
    setup.counted = [counts](const LayerInput& input, int64_t rows) {
      count_rows(input, static_cast<double>(rows), *counts);
    };
    return {.rounder = gptq_rounder(std::move(setup)), .stats = nullptr, .notes = {}, .notes_behind = [counts] {
              return few_rows(counts->hardly_met());
            }};
  }
  if (quantized.method != "imatrix") return open_scaled(options, quantized, planned);
  const ModelFiles files = ModelFiles::open(quantized.model);
  const Architecture& arch = find_architecture(Config(files));
  auto stats = std::make_shared<Stats>();
  if (!options.statistics.empty()) {
    *stats = read_stats(options.statistics, quantized.model);
    quantized.statistics = "sha256 " + sha256_file(options.statistics);
  } else {
    const CalibrationText text = text_of(options, quantized);
    *stats = calibrate({.model = quantized.model,
                        .scratch = beside(quantized.out, ".hidden"),
                        .threads = quantized.threads,
                        .progress = options.progress_of("calibrating")},
                       text);
    quantized.statistics = text_facts(text);
  }
  quantized.text_hash = with_hash(quantized.text_hash, stats->text_hash);
  quantized.importances = stats->importances(arch);
  return {.rounder = nearest_rounder(), .stats = stats, .notes = few_rows(stats->hardly_met())};
}

}  // namespace ingot
