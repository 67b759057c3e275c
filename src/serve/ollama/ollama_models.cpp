// What Ollama's clients ask of the model: in a list, as it runs, and in detail.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/sha256.h"
#include "serve/ollama/ollama.h"
#include "serve/server.h"

namespace ingot {
namespace {

constexpr const char* kNever = "9999-12-31T23:59:59Z";  // when the model is given up

std::string with_tag(const std::string& name) {
  const size_t folder = name.rfind('/');
  const size_t tag = name.find(':', folder == std::string::npos ? 0 : folder);
  return tag == std::string::npos ? name + ":latest" : name;
}

// Of what distinguishes one model's weights from another's here, as the fingerprint of answers; files are not read for
// it.
std::string digest_of(const ServedModel& model) {
  const std::string facts = model.fingerprint() + model.format + std::to_string(model.parameters);
  return sha256_hex(std::as_bytes(std::span(facts.data(), facts.size())));
}

int64_t bytes_of(const ServedModel& model) {
  int64_t sum = 0;
  for (const auto& [format, bytes] : model.formats) sum += bytes;
  return sum;
}

// "135M", "8.0B".
std::string size_text(int64_t parameters) {
  if (parameters >= 1'000'000'000) return fmt::format("{:.1f}B", static_cast<double>(parameters) / 1e9);
  if (parameters >= 1'000'000) return fmt::format("{:.0f}M", static_cast<double>(parameters) / 1e6);
  return fmt::format("{:.0f}K", static_cast<double>(parameters) / 1e3);
}

JsonObject details_of(const ServedModel& model) {
  std::string level = model.format;
  std::ranges::transform(level, level.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return {{"parent_model", ""},
          {"format", model.container},
          {"family", model.architecture},
          {"families", JsonArray{Json(model.architecture)}},
          {"parameter_size", size_text(model.parameters)},
          {"quantization_level", level}};
}

// The model under each of its names, where the caller may use it.
template <class Add>
JsonObject listed(Server& server, const HttpRequest& request, const Add& add) {
  const ServedModel& model = server.context().model;
  JsonArray models;
  if (may_use(caller_of(request.head)->rights(), model)) {
    for (const std::string& name : model.listed_names()) {
      const std::string tagged = with_tag(name);
      JsonObject entry{{"name", tagged},
                       {"model", tagged},
                       {"size", bytes_of(model)},
                       {"digest", digest_of(model)},
                       {"details", details_of(model)}};
      add(model, entry);
      models.push_back(std::move(entry));
    }
  }
  return {{"models", std::move(models)}};
}

JsonArray capabilities_of(const ServedModel& model) {
  JsonArray list{"completion", "embedding"};
  if (model.taught && model.taught->has_tools && model.taught->calls) list.push_back("tools");
  if (reasoning_of(model)) list.push_back("thinking");
  return list;
}

// The model's own numbers of sampling, a line each, as a Modelfile has them.
std::string parameters_of(const ServedModel& model) {
  std::string text;
  for (const SamplingNumber& n : kSamplingNumbers) {
    if (n.hint) text += fmt::format("{}{:<30} {:g}", text.empty() ? "" : "\n", n.name, n.of(model.sampling));
  }
  return text;
}

void send_json(Responder& responder, const JsonObject& body) { responder.send({.body = to_json(body)}); }

}  // namespace

void handle_ollama_tags(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  send_json(*responder, listed(server, request, [](const ServedModel& model, JsonObject& entry) {
    entry["modified_at"] = ollama_time(static_cast<double>(model.created));
  }));
}

void handle_ollama_ps(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  const bool gpu = !server.context().engine().device().name.empty();
  send_json(*responder, listed(server, request, [&](const ServedModel& model, JsonObject& entry) {
    entry["expires_at"] = kNever;
    entry["size_vram"] = gpu ? bytes_of(model) : 0;
    entry["context_length"] = model.context;
  }));
}

void handle_ollama_show(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  const Json body = read_body(request.body, kOllamaShowFields);
  const ServedModel& model = server.context().model;
  const Fields fields(body.get_object());
  check_model(fields, model);
  if (const std::optional<std::string> name = fields.string("name"); name && !model.answers_to(*name)) {
    throw ApiError{.status = 404,
                   .message = "name is of a model that is not served here",
                   .param = "name",
                   .code = "model_not_found"};
  }
  JsonObject info{{"general.architecture", model.architecture},
                  {"general.basename", model.name},
                  {"general.parameter_count", model.parameters}};
  info[model.architecture + ".context_length"] = model.context;
  info[model.architecture + ".embedding_length"] = model.hidden;
  info[model.architecture + ".vocab_size"] = model.vocab;
  const std::string parameters = parameters_of(model);
  JsonObject shown{{"modelfile", fmt::format("FROM {}\n", with_tag(model.name))},
                   {"parameters", parameters},
                   {"template", model.source.text},
                   {"details", details_of(model)},
                   {"model_info", std::move(info)},
                   {"capabilities", capabilities_of(model)},
                   {"modified_at", ollama_time(static_cast<double>(model.created))}};
  send_complete(*caller_of(request.head), std::move(responder), style_of(request.head.path), {.body = to_json(shown)});
}

void handle_ollama_version(Server&, HttpRequest, std::shared_ptr<Responder> responder) {
  send_json(*responder, JsonObject{{"version", kOllamaVersion}});
}

}  // namespace ingot
