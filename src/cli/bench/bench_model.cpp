#include "cli/bench/bench_model.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/device.h"
#include "cli/bench/save_random.h"
#include "cli/bench/shapes.h"
#include "cli/engine_options.h"
#include "cli/session.h"
#include "weights/model_files.h"
#include "weights/stored_tensors.h"

namespace ingot {
namespace {

// Says where the format that was asked for does not fit.
void note_plain(Model& model, const std::string& format) {
  int plain = 0;
  for (const auto& weight : dynamic_cast<RandomSource&>(model.weights->source()).made()) {
    // Biases of experts and routers are F32 whatever is asked for.
    const bool matrix = weight->shape.size() >= 2 && !weight->name.ends_with(".bias") &&
                        !weight->name.ends_with(".gate.weight") && !weight->name.ends_with(".router.weight");
    plain += matrix && weight->format == Format::kF32 && format != "f32";
  }
  if (plain) fmt::print(stderr, "{} matrices are f32: their rows are no whole number of blocks of {}\n", plain, format);
}

}  // namespace

void add_bench_model_options(CLI::App& app, BenchModelOptions& options) {
  app.add_option("MODEL", options.model, "A GGUF file, a Hugging Face directory or a cached name")->type_name("");
  app.add_option("--shape", options.shape, "Random weights of a published shape, such as llama-3.2-1b");
  app.add_option("--format", options.format, "With --shape: bf16, q8_0, q4_0, q4_k_m, fp8 …");
  app.add_option("--save", options.save, "With --shape: also write the model as GGUF")->type_name("FILE");
  add_engine_option(app, "--step-rows", options.open, "Rows of a step (512; on a GPU 16384 and the batch)");
  add_engine_option(app, "--kv", options.open, "Format of the KV cache: f32, f16, bf16, fp8, int8 or q8_0")
      ->type_name("TEXT");
  add_engine_options(app, OptionsOf::kEngine, options.open);
  add_verbose_option(app, options.common);
  add_json_option(app, options.common);
}

void check_bench_model(const BenchModelOptions& options) {
  if (options.shape.empty() && !options.save.empty()) throw CLI::ValidationError("--save needs --shape");
  if (!options.shape.empty() && !options.model.empty()) throw CLI::ValidationError("give MODEL or --shape, not both");
}

std::string bench_model_name(const BenchModelOptions& options) {
  return options.shape.empty() ? resolve_model(options.model) : options.shape + " " + options.format;
}

OpenEngine open_bench_model(const BenchModelOptions& options, int context, int seqs, int prompt) {
  OpenOptions setup = options.open;
  const bool gpu = choose_device(setup.device, setup.ref) >= 0;
  // An H200 reads 32 prompts of an 8B model 2 % faster in steps of 8,192 rows than of 4,096, and 0.2 to 0.9 % more in
  // one of 16,384; with a row more for each seq those that already answer take no prompt's place. A step of the CPU's
  // shall not keep others waiting.
  const int64_t all = int64_t{prompt} * seqs;
  const int usual = gpu ? static_cast<int>(std::min<int64_t>(all, 16384)) + seqs : 512;
  setup.model.context = context;
  setup.engine.max_seqs = seqs;
  setup.engine.step_rows = std::max(setup.engine.step_rows != 0 ? setup.engine.step_rows : usual, seqs);
  if (options.shape.empty()) return open_engine(resolve_model(options.model), setup);
  const Hparams hp = shape_by_name(options.shape);
  setup.model.context = std::min(context, hp.context);
  ModelOptions model_setup = model_options(setup);
  model_setup.random_on_device = gpu && options.save.empty();
  Model model = Model::random(hp, formats_by_name(options.format, hp), model_setup);
  if (!options.save.empty()) save_random(model, options.save);
  note_plain(model, options.format);
  return make_engine(std::move(model), setup);
}

JsonObject bench_model_json(const BenchModelOptions& options, const Model& model) {
  return {{"architecture", model.arch->name},
          {"format", model.files ? format_text(bytes_of_formats(*model.files)) : options.format}};
}

}  // namespace ingot
