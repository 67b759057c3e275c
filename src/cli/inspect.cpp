// ingot inspect: what is in a model. Reads metadata only; --graph builds the graph, --hash reads every byte.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/checked_size.h"
#include "base/error.h"
#include "cli/engine_options.h"
#include "cli/session.h"
#include "files/manifest.h"
#include "graph/dump.h"
#include "graph/kv_store.h"
#include "text/prompt.h"
#include "text/tokenizer.h"
#include "weights/active_weights.h"
#include "weights/model_files.h"
#include "weights/stored_tensors.h"

namespace ingot {
namespace {

constexpr int kManyRows = 32;  // of a step whose bytes are told beside those of one row

struct Options {
  std::string model;
  OpenOptions open = {.kv = "f32"};
  bool tensors = false;
  bool graph = false;
  std::string hash;
  CommonOptions common;
};

// A KV group as the numbers tell it, without building the model. Bytes are of float32.
struct KvGroupNumbers {
  int layers = 0, window = 0;
  int64_t values = 0;  // of a token and layer
  bool latent = false;

  int64_t token_bytes() const {
    return (CheckedSize(layers, "[config] bytes of the KV cache") * values * dtype_bytes(DType::kF32)).as_int64();
  }
};

std::vector<KvGroupNumbers> kv_groups(const Hparams& hp) {
  std::vector<KvGroupNumbers> groups;
  for (int i = 0; i < hp.layers; ++i) {
    const int window = hp.window_of(i);
    const int64_t values = hp.latent ? int64_t{hp.latent.kv_rank} + hp.latent.rope_dim
                                     : int64_t{hp.kv_heads_of(i)} * (hp.head_dim + hp.value_dim());
    const auto same = std::ranges::find_if(
        groups, [&](const KvGroupNumbers& group) { return group.window == window && group.values == values; });
    if (same == groups.end()) {
      groups.push_back({.layers = 1, .window = window, .values = values, .latent = static_cast<bool>(hp.latent)});
    } else {
      ++same->layers;
    }
  }
  return groups;
}

// The KV cache of one seq of `context` positions in float32.
int64_t kv_bytes(const Hparams& hp, int context) {
  CheckedSize bytes(0, "[config] bytes of the KV cache");
  for (const KvGroupNumbers& group : kv_groups(hp)) bytes += CheckedSize(group.token_bytes()) * context;
  return bytes.as_int64();
}

JsonArray kv_groups_json(const Hparams& hp) {
  JsonArray groups;
  for (const KvGroupNumbers& group : kv_groups(hp)) {
    groups.push_back(JsonObject{{"layers", group.layers},
                                {"window", group.window},
                                {"latent", group.latent},
                                {"values", group.values},
                                {"bytes_per_token", group.token_bytes()}});
  }
  return groups;
}

std::string tokenizer_text(const std::string& path) {
  try {
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(tokenizer_path(path));
    return fmt::format("{}, {} tokens", tokenizer->kind(), tokenizer->vocab_size());
  } catch (const Error& error) {
    return fmt::format("none that can be read: {}", error.what());
  }
}

std::string template_text(const std::string& path) {
  try {
    const TemplateSource source = find_template(tokenizer_path(path));
    return source.text.empty() ? "none" : fmt::format("{} bytes", source.text.size());
  } catch (const Error& error) {
    return fmt::format("none that can be read: {}", error.what());
  }
}

JsonObject experts_json(const Hparams& hp, const ActiveWeights& one, const ActiveWeights& many) {
  return {{"count", hp.experts.count},
          {"used", hp.experts.used},
          {"active_parameters", static_cast<int64_t>(one.active)},
          {"step_bytes_of_1", static_cast<int64_t>(one.step_bytes)},
          {"step_bytes_of_32", static_cast<int64_t>(many.step_bytes)}};
}

JsonObject describe(const std::string& path, const ModelFiles& files, const Hparams& hp, int context) {
  const FormatBytes format_bytes = bytes_of_formats(files);
  const ActiveWeights one = active_weights(files, hp, 1), many = active_weights(files, hp, kManyRows);
  int64_t bytes = 0;
  JsonArray tensors;
  for (const StoredTensor& tensor : stored_tensors(files)) {
    bytes += tensor.bytes;
    tensors.push_back(JsonObject{{"name", tensor.name},
                                 {"shape", JsonArray(tensor.shape.begin(), tensor.shape.end())},
                                 {"format", tensor.format},
                                 {"bytes", tensor.bytes}});
  }
  JsonObject formats;
  for (const auto& [name, n] : format_bytes) formats[name] = n;
  Json experts = nullptr;
  if (hp.experts.count > 0) experts = experts_json(hp, one, many);
  return {{"path", path},
          {"experts", experts},
          {"container", files.is_gguf() ? "gguf" : "safetensors"},
          {"architecture", hp.arch},
          {"parameters", one.parameters},
          {"active_parameters", static_cast<int64_t>(one.active)},
          {"step_bytes_of_1", static_cast<int64_t>(one.step_bytes)},
          {"step_bytes_of_32", static_cast<int64_t>(many.step_bytes)},
          {"weight_bytes", bytes},
          {"format", format_text(format_bytes)},
          {"formats", formats},
          {"layers", hp.layers},
          {"hidden", hp.hidden},
          {"heads", hp.heads},
          {"kv_heads", hp.kv_heads},
          {"head_dim", hp.head_dim},
          {"ffn", hp.ffn},
          {"vocab", hp.vocab},
          {"context", hp.context},
          {"tied", hp.tied},
          {"tokenizer", tokenizer_text(path)},
          {"chat_template", template_text(path)},
          {"memory", JsonObject{{"context", context},
                                {"kv_bytes", kv_bytes(hp, context)},
                                {"kv_groups", kv_groups_json(hp)},
                                {"weight_bytes", bytes}}},
          {"tensors", tensors}};
}

double mib(const Json& bytes) { return static_cast<double>(bytes.as_int64()) / (1 << 20); }

void print_text(const JsonObject& d, bool with_tensors) {
  const auto number = [&](const char* key) { return d.at(key).as_int64(); };
  const auto text = [&](const char* key) { return std::string_view(d.at(key).as_string()); };
  fmt::print("{}\n", text("path"));
  fmt::print("architecture   {} ({})\n", text("architecture"), text("container"));
  fmt::print("parameters     {:.1f} M in {:.1f} MiB, {}\n", static_cast<double>(number("parameters")) / 1e6,
             mib(d.at("weight_bytes")), text("format"));
  for (const auto& [name, bytes] : d.at("formats").as_object()) {
    fmt::print("               {:8} {:.1f} MiB\n", std::string_view(name), mib(bytes));
  }
  if (const Json& experts = d.at("experts"); !experts.is_null()) {
    const JsonObject& e = experts.as_object();
    fmt::print("experts        {} of {} for a row: {:.1f} M parameters active\n", e.at("used").as_int64(),
               e.at("count").as_int64(), static_cast<double>(e.at("active_parameters").as_int64()) / 1e6);
  }
  fmt::print("a step reads   {:.1f} MiB of weights for 1 row, {:.1f} MiB {}for {}: {:.1f} MiB a token\n",
             mib(d.at("step_bytes_of_1")), mib(d.at("step_bytes_of_32")), d.at("experts").is_null() ? "" : "expected ",
             kManyRows, mib(d.at("step_bytes_of_32")) / kManyRows);
  fmt::print("layers         {}, hidden {}, mlp {}\n", number("layers"), number("hidden"), number("ffn"));
  fmt::print("attention      {} heads of {}, {} KV heads\n", number("heads"), number("head_dim"), number("kv_heads"));
  fmt::print("vocabulary     {}{}\n", number("vocab"), d.at("tied").as_bool() ? ", tied head" : "");
  fmt::print("context        {}\n", number("context"));
  fmt::print("tokenizer      {}\n", text("tokenizer"));
  fmt::print("chat template  {}\n", text("chat_template"));
  const JsonObject& memory = d.at("memory").as_object();
  fmt::print("memory         {:.1f} MiB of weights and {:.1f} MiB of KV cache for a context of {}\n",
             mib(memory.at("weight_bytes")), mib(memory.at("kv_bytes")), memory.at("context").as_int64());
  for (const Json& item : memory.at("kv_groups").as_array()) {
    const JsonObject& group = item.as_object();
    const int64_t window = group.at("window").as_int64(), bytes = group.at("bytes_per_token").as_int64();
    fmt::print("KV group       {} layers, {}{} values a token: {} bytes in float32, {} in 16 bits\n",
               group.at("layers").as_int64(), group.at("latent").as_bool() ? "latent, " : "",
               group.at("values").as_int64(), bytes, bytes / 2);
    if (window > 0) fmt::print("               of the last {} positions\n", window);
  }
  if (!with_tensors) {
    fmt::print("{} tensors (--tensors lists them)\n", d.at("tensors").as_array().size());
    return;
  }
  for (const Json& tensor : d.at("tensors").as_array()) {
    const JsonObject& t = tensor.as_object();
    fmt::print("{:56} {:16} {:8} {}\n", std::string_view(t.at("name").as_string()), to_json(t.at("shape")),
               std::string_view(t.at("format").as_string()), t.at("bytes").as_int64());
  }
}

int print_graph(const std::string& path, const Options& options) {
  const Model model = Model::load(path, model_options(options.open));
  const StepLimits limits{.rows = 256, .seqs = 1, .logits = 16, .context = model.context, .page_rows = 64};
  fmt::print("{}", dump(compile(model.graph, {.limits = limits})));
  for (const auto& [rule, n] : model.fused) fmt::print("rule {}: {}\n", rule, n);
  return 0;
}

int run(const Options& options) {
  const std::string path = resolve_model(options.model);
  if (!options.open.verify.empty()) verify_manifest(path, options.open.verify);
  if (!options.hash.empty()) {
    write_manifest(path, options.hash);
    fmt::print(stderr, "wrote {}\n", options.hash);
    return 0;
  }
  if (options.graph) return print_graph(path, options);
  const ModelFiles files = ModelFiles::open(path);
  const Hparams hp = Model::read_numbers(files);
  const int context = options.open.model.context;
  const JsonObject description = describe(path, files, hp, context ? context : hp.context);
  if (options.common.json) {
    fmt::print("{}\n", to_json(description));
  } else {
    print_text(description, options.tensors);
  }
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "A GGUF file, a Hugging Face directory or a cached name");
  app.add_option("--ctx", options->open.model.context, "Context that the memory is computed for (default: the model's)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_flag("--tensors", options->tensors, "List every tensor with shape, format and bytes");
  app.add_flag("--graph", options->graph, "Print the node list with shapes, bytes, arena offsets and fusion rules");
  add_engine_option(app, "--no-fuse", options->open, "With --graph: rules to switch off, separated by commas, or all")
      ->type_name("TEXT");
  app.add_option("--hash", options->hash, "Write a manifest of checksums to this file")->type_name("FILE");
  add_engine_option(app, "--verify", options->open, "Check the model against a manifest first");
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

const Command kInspectCommand = {"inspect", "Show what is in a model",
                                 "ingot inspect model.gguf --tensors\ningot inspect --graph", setup};

}  // namespace ingot
