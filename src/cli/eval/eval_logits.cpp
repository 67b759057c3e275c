// ingot eval logits: argmax and log-sum-exp of each position, the last logits, and the hidden states.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/engine_options.h"
#include "cli/eval/eval.h"
#include "cli/session.h"
#include "compress/scoring.h"
#include "files/json.h"

namespace ingot {
namespace {

struct Options {
  std::string model;
  std::vector<int32_t> ids;
  OpenOptions open = {.kv = "f32"};
  CommonOptions common;
};

// Collects hidden.0 … hidden.N of every row, chunk by chunk.
class HiddenStates {
 public:
  HiddenStates(Engine& engine, int n) : states_(static_cast<size_t>(n)) {
    engine.call([this](LocalEngine& local) {
      local.device().on_body = [this](const Batch& batch, const StepOutputs& outputs) { keep(batch, outputs); };
    });
  }

  Json json() const {
    JsonArray all;
    for (const auto& rows : states_) {
      JsonArray state;
      for (const std::vector<float>& row : rows) state.emplace_back(JsonArray(row.begin(), row.end()));
      all.emplace_back(std::move(state));
    }
    return all;
  }

 private:
  void keep(const Batch& batch, const StepOutputs& outputs) {
    for (size_t i = 0; i < states_.size(); ++i) {
      const Tensor& t = outputs.output("hidden." + std::to_string(i));
      for (int r = 0; r < batch.n_rows; ++r) states_[i].emplace_back(t.f32(r), t.f32(r) + t.cols);
    }
  }

  std::vector<std::vector<std::vector<float>>> states_;  // [layers + 1][rows][D]
};

int run(const Options& options) {
  OpenEngine open = open_engine(resolve_model(options.model), options.open);
  std::unique_ptr<HiddenStates> hidden;
  if (options.open.model.keep_hidden) hidden = std::make_unique<HiddenStates>(*open.engine, open.model->hp.layers + 1);
  JsonArray argmax, logsumexp;
  JsonArray last;
  for_each_logits(*open.engine, options.ids, 0, [&](int position, std::span<const float> logits) {
    argmax.emplace_back(arg_max(logits));
    logsumexp.emplace_back(log_sum_exp(logits));
    if (position + 1 == static_cast<int>(options.ids.size())) last = JsonArray(logits.begin(), logits.end());
  });
  JsonObject result{{"argmax", argmax}, {"logsumexp", logsumexp}, {"logits_last", last}};
  if (hidden) result["hidden"] = hidden->json();
  fmt::print("{}\n", to_json(result));
  return 0;
}

}  // namespace

CommandBody setup_eval_logits(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "A GGUF file, a Hugging Face directory or a cached name");
  app.add_option("--ids", options->ids, "Token ids, separated by commas")
      ->delimiter(',')
      ->required()
      ->check([](const std::string& id) { return id.empty() ? "an id is empty" : ""; });
  app.add_flag("--hidden", options->open.model.keep_hidden, "Also the hidden state after the embedding and each layer");
  app.add_option("--chunk", options->open.engine.chunk_rows, "Rows of a step (0: as many as fit)")
      ->check(CLI::Range(0, 256));
  add_engine_option(app, "--no-fuse", options->open, "Fusion rules to switch off, separated by commas, or all")
      ->type_name("TEXT");
  add_engine_option(app, "--kv", options->open, "Format of the KV cache: f32, f16, bf16, fp8, int8 or q8_0")
      ->type_name("TEXT");
  add_engine_options(app, OptionsOf::kEngine, options->open);
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace ingot
