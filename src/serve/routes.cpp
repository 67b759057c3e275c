#include "serve/routes.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/answer/answering.h"
#include "serve/ollama/ollama.h"
#include "serve/page_files.h"
#include "serve/probes.h"
#include "serve/responses/stored_responses.h"
#include "serve/server.h"
#include "serve/ui_files.h"

namespace ingot {

namespace {

constexpr size_t kAnyBody = SIZE_MAX;  // up to the server's limit

template <auto kHandler>
void api(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  kHandler(server.context(), std::move(request), std::move(responder));
}

std::vector<Route> make_routes() {
  using enum Access;
  using enum RunsOn;
  std::vector<Route> table = {
      {"POST", "/v1/chat/completions", api<handle_chat>, kKey, kWorker, true},
      {"POST", "/v1/completions", api<handle_completions>, kKey, kWorker, true},
      {"POST", "/v1/responses", api<handle_responses>, kKey, kWorker, true},
      {"GET", "/v1/responses/*", api<handle_stored_response>},
      {"DELETE", "/v1/responses/*", api<handle_delete_response>},
      {"POST", "/v1/messages", api<handle_messages>, kKey, kWorker, true},
      {"POST", "/v1/embeddings", api<handle_embeddings>, kKey, kWorker, true},
      {"POST", "/v1/messages/count_tokens", api<handle_count_tokens>},
      {"POST", "/api/chat", api<handle_ollama_chat>, kKey, kWorker, true},
      {"POST", "/api/generate", api<handle_ollama_generate>, kKey, kWorker, true},
      {"POST", "/api/embed", api<handle_ollama_embed>, kKey, kWorker, true},
      {"POST", "/api/embeddings", api<handle_ollama_embeddings>, kKey, kWorker, true},
      {"POST", "/api/show", handle_ollama_show},
      {"GET", "/api/tags", handle_ollama_tags},
      {"GET", "/api/ps", handle_ollama_ps},
      {"GET", "/api/version", handle_ollama_version},
      {"POST", "/tokenize", handle_tokenize},
      {"POST", "/detokenize", handle_detokenize},
      {"GET", "/v1/models", handle_models},
      {"GET", "/v1/models/*", handle_model},
      {"GET", "/v1/limits", handle_limits},
      {"GET", "/openapi.json", handle_openapi},
      {"GET", "/v1/engine", handle_engine},
      {"GET", "/v1/usage", handle_usage},
      {"GET", "/metrics", handle_metrics},
      // The probes of whoever runs the server have no key, and tell nothing that one protects.
      {"GET", "/health", handle_health, kOpen, kIo},
      {"GET", "/ready", handle_ready, kOpen, kIo},
      // A browser asks for the page before a person can give it a key; the files are the same in every server.
      {"GET", "/", handle_page_file, kOpen, kIo},
  };
  for (const UiFile& file : ui_files()) {
    table.push_back({"GET", fmt::format("/{}", file.name), handle_page_file, kOpen, kIo});
  }
  for (Route& route : table) {
    if (route.method == "POST") route.body_bytes = kAnyBody;
    route.reads_kept = route.handler == api<handle_stored_response>;
    route.probe = route.path == "/health" || route.path == "/ready" || route.path == "/metrics";
  }
  return table;
}

bool fits(const Route& route, std::string_view path) {
  if (!route.path.ends_with("/*")) return path == route.path;
  const std::string_view base = std::string_view(route.path).substr(0, route.path.size() - 1);
  return path.size() > base.size() && path.starts_with(base);
}

}  // namespace

std::span<const Route> routes() {
  static const std::vector<Route> table = make_routes();
  return table;
}

RouteMatch find_route(std::string_view method, std::string_view path) {
  RouteMatch match;
  for (const Route& route : routes()) {
    if (!fits(route, path)) continue;
    match.label = route.path;
    if (method == route.method || (method == "HEAD" && route.method == "GET")) match.route = &route;
    if (!match.allowed.empty()) match.allowed += ", ";
    match.allowed += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return match;
}

std::vector<std::string_view> route_labels() {
  std::vector<std::string_view> labels;
  for (const Route& route : routes()) {
    if (std::ranges::find(labels, route.path) == labels.end()) labels.push_back(route.path);  // of several methods
  }
  return labels;
}

}  // namespace ingot
