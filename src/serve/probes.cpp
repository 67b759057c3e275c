#include "serve/probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "engine/model/known_ranks.h"
#include "files/json.h"
#include "serve/api/constraint_request.h"
#include "serve/api/fields.h"
#include "serve/api/generation.h"
#include "serve/api/limits.h"
#include "serve/api/token_work.h"
#include "serve/process_facts.h"
#include "serve/responses/response_request.h"
#include "serve/server.h"

namespace ingot {

namespace {

void send_json(Responder& responder, const Json& body, int status = 200) {
  responder.send({.status = status, .body = to_json(body)});
}

JsonObject model_json(const ServedModel& model, const std::string& id) {
  JsonObject formats;
  for (const auto& [name, bytes] : model.formats) formats[name] = bytes;
  return {{"id", id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "ingot"},
          {"max_model_len", model.context},
          {"context_length", model.context},
          {"vocab_size", model.vocab},
          {"architecture", model.architecture},
          {"format", model.format},
          {"formats", formats},
          {"fingerprint", model.fingerprint()}};
}

// 0: no limit.
JsonObject rights_json(const TenantRights& rights) {
  return {{"weight", rights.weight},
          {"tokens_per_minute", rights.tokens_per_minute},
          {"requests_per_minute", rights.requests_per_minute},
          {"concurrency", rights.concurrency},
          {"context", rights.context},
          {"priority", rights.priority}};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "%2F" → "/"; what is no escape stays as it is.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    if (escape) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The first of the names that the request has.
template <class Get>
auto first_of(std::initializer_list<const char*> names, const Get& get) -> decltype(get("")) {
  for (const char* name : names) {
    if (auto value = get(name)) return value;
  }
  return {};
}

}  // namespace

void handle_health(Server& server, HttpRequest, std::shared_ptr<Responder> responder) {
  const Server::Health health = server.health();
  JsonObject body{{"status", health.live ? "ok" : health.status}};
  if (!health.live) body["reason"] = health.reason;
  send_json(*responder, body, health.live ? 200 : 503);
}

void handle_ready(Server& server, HttpRequest, std::shared_ptr<Responder> responder) {
  const Server::Health health = server.health();
  JsonObject body{{"status", health.status}};
  if (!health.reason.empty()) body["reason"] = health.reason;
  send_json(*responder, body, health.ready ? 200 : 503);
}

void handle_metrics(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  Metrics::Now now = server.now();
  now.hosts = caller_of(request.head)->rights().admin;
  if (now.hosts) now.tenants = server.context().keys.book().tenants();
  responder->send({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = server.metrics().text(now)});
}

void handle_usage(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  const UsageBook& book = server.context().keys.book();
  const std::shared_ptr<Caller> caller = caller_of(request.head);
  JsonObject json{{"object", "usage"},
                  {"since", static_cast<int64_t>(process_facts().start_seconds)},
                  {"total", usage_json(book.total())}};
  JsonArray tenants;
  const auto named = [](const TenantUsage& tenant) {
    JsonObject one = usage_json(tenant.numbers);
    one["name"] = tenant.name;
    one["active"] = tenant.active;
    return one;
  };
  for (const TenantUsage& tenant : book.tenants()) tenants.push_back(named(tenant));
  if (const std::optional<TenantUsage> own = book.find(caller->tenant())) json["own"] = named(*own);
  if (caller->rights().admin) json["tenants"] = std::move(tenants);
  send_json(*responder, json);
}

void handle_models(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  JsonArray models;
  if (may_use(caller_of(request.head)->rights(), server.context().model)) {
    const ServedModel& model = server.context().model;
    for (const std::string& name : model.listed_names()) models.push_back(model_json(model, name));
  }
  send_json(*responder, JsonObject{{"object", "list"}, {"data", models}});
}

void handle_model(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  const std::string asked = unescaped(request.head.path.substr(std::string_view("/v1/models/").size()));
  const ServedModel& model = server.context().model;
  if (!model.answers_to(asked) || !may_use(caller_of(request.head)->rights(), model)) {
    throw ApiError{
        .status = 404, .message = "this model is not served here", .param = "model", .code = "model_not_found"};
  }
  const std::vector<std::string> names = model.listed_names();
  const bool listed = std::ranges::find(names, asked) != names.end();
  send_json(*responder, model_json(model, listed ? asked : model.name));
}

std::string limits_text(Server& server) {
  const HttpLimits& http = server.options().http.limits;
  JsonObject limits = field_limits();
  limits["http"] = JsonObject{{"header_bytes", http.header_bytes},
                              {"headers", http.headers},
                              {"target_bytes", http.target_bytes},
                              {"body_bytes", http.body_bytes},
                              {"bodies_bytes", http.bodies_bytes},
                              {"connections", http.connections},
                              {"address_connections", http.address_connections},
                              {"header_seconds", http.header_seconds},
                              {"body_seconds", http.body_seconds},
                              {"idle_seconds", http.idle_seconds},
                              {"write_seconds", http.write_seconds},
                              {"min_rate", http.min_rate},
                              {"unsent_bytes", http.unsent_bytes},
                              {"answers_bytes", http.answers_bytes}};
  const ServedModel& model = server.context().model;
  if (model.constraints) limits["constraints"] = constraint_limits(model.constraints->options());
  limits["model"] = JsonObject{{"context", model.context}, {"vocab", model.vocab}};
  limits["requests"] = JsonObject{{"in_flight", server.options().max_in_flight},
                                  {"running", server.context().engine().config().max_seqs},
                                  {"seconds", server.options().request_seconds}};
  const ResponseStore& kept = server.context().responses;
  limits["responses"] = JsonObject{
      {"kept_bytes", kept.most()}, {"kept_seconds", ResponseStore::kSeconds}, {"repeated_bytes", kMaxRepeatedBytes}};
  return to_json(limits);
}

void handle_limits(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  std::string body = server.context().limits;
  body.back() = ',';
  body += to_json(JsonObject{{"key", rights_json(caller_of(request.head)->rights())}}).substr(1);
  responder->send({.body = std::move(body)});
}

void handle_openapi(Server& server, HttpRequest, std::shared_ptr<Responder> responder) {
  responder->send({.body = server.context().openapi});
}

// Of each rank or stage, where a model is shared by several.
JsonArray ranks_json(bool hosts) {
  JsonArray ranks;
  for (const RankUse& one : known_ranks()) {
    JsonObject bytes;
    for (size_t k = 0; k < kCommKinds; ++k)
      if (one.counts.bytes[k] > 0) bytes[kCommKindNames[k]] = one.counts.bytes[k];
    ranks.push_back(JsonObject{{"engine", one.engine},
                               {"rank", one.rank},
                               {"host", shown_host(one.host, hosts)},
                               {"alive", one.alive},
                               {"steps", one.counts.steps},
                               {"step_seconds", 1e-9 * static_cast<double>(one.counts.step_ns)},
                               {"wait_seconds", 1e-9 * static_cast<double>(one.counts.wait_ns)},
                               {"collective_seconds", 1e-9 * static_cast<double>(one.counts.collective_ns)},
                               {"sent_bytes", bytes}});
  }
  return ranks;
}

void handle_engine(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  const Metrics::Now now = server.now();
  const EngineStats& s = now.engine;
  const ServedModel& model = server.context().model;
  const ProcessFacts facts = process_facts();
  const double unix_now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::optional<double> gap = server.recent_gap_seconds();
  const bool gpu = !now.device.name.empty();
  JsonArray engines;
  for (const EngineStats& e : now.engines) {
    engines.push_back(JsonObject{{"running", e.running},
                                 {"waiting", e.waiting},
                                 {"tokens", e.tokens},
                                 {"rows", e.rows},
                                 {"prompt_tokens", e.prompt_tokens},
                                 {"reused_tokens", e.reused_tokens},
                                 {"cached_pages", e.cached_pages}});
  }
  send_json(*responder, JsonObject{{"model", model.name},
                                   {"context", model.context},
                                   {"running", s.running},
                                   {"waiting", s.waiting},
                                   {"tokens", s.tokens},
                                   {"prompt_tokens", s.prompt_tokens},
                                   {"reused_tokens", s.reused_tokens},
                                   {"steps", s.steps},
                                   {"step_seconds", server.metrics().step_seconds.sum()},
                                   {"gap_ms", gap ? Json(*gap * 1000) : Json(nullptr)},
                                   {"pages", s.pages},
                                   {"free_pages", s.free_pages},
                                   {"cached_pages", s.cached_pages},
                                   {"preempted", s.preempted},
                                   {"kv_bytes", now.kv_bytes},
                                   {"device", gpu ? Json(now.device.name) : Json("cpu")},
                                   {"device_total_bytes", gpu ? Json(now.device.total_bytes) : Json(nullptr)},
                                   {"device_free_bytes", gpu ? Json(now.device.free_bytes) : Json(nullptr)},
                                   {"rss_bytes", facts.resident_bytes},
                                   {"expert_layers", s.experts.layers},
                                   {"experts_touched", s.experts.touched},
                                   {"expert_busiest_rows", s.experts.busiest},
                                   {"engines", engines},
                                   {"ranks", ranks_json(caller_of(request.head)->rights().admin)},
                                   {"in_flight", now.requests_in_flight},
                                   {"connections", now.http.open},
                                   {"uptime_seconds", unix_now - facts.start_seconds}});
}

void handle_tokenize(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  const Json body = read_body(request.body, kTokenizeFields);
  const Fields fields(body.get_object());
  const auto text = first_of({"text", "content", "prompt"}, [&](const char* name) { return fields.string(name); });
  if (!text) throw bad_field("text", "text is required: what is cut into tokens");
  const auto special =
      first_of({"add_special", "add_special_tokens"}, [&](const char* name) { return fields.boolean(name); });
  const ServedModel& model = server.context().model;
  const std::shared_ptr<Caller> caller = caller_of(request.head);
  TokenWork work(caller, responder, &server.context().workers);
  const std::vector<Token> tokens = work.run(text->size(), [&](const EncodePause& pause) {
    return model.tokenizer->encode(*text, {.add_special = special.value_or(false),
                                           .parse_special = fields.boolean("parse_special").value_or(false),
                                           .pause = &pause});
  });
  // As text from the start: a body of 4 MiB may have as many tokens, and a JSON value takes 16 bytes.
  std::string answer = fmt::format("{{\"tokens\":[{}],\"count\":{},\"max_model_len\":{}}}", fmt::join(tokens, ","),
                                   tokens.size(), model.context);
  send_complete(*caller, std::move(responder), style_of(request.head.path), {.body = std::move(answer)});
}

void handle_detokenize(Server& server, HttpRequest request, std::shared_ptr<Responder> responder) {
  const Json body = read_body(request.body, kDetokenizeFields);
  const Fields fields(body.get_object());
  const char* const name = fields.array("tokens") != nullptr ? "tokens" : "ids";
  const JsonArray* ids = fields.array(name);
  if (ids == nullptr) throw bad_field("tokens", "tokens is required: a list of ids");
  const ServedModel& model = server.context().model;
  if (ids->size() > static_cast<size_t>(model.context)) {
    throw context_exceeded(model, std::to_string(ids->size()), name);
  }
  const Tokenizer& tokenizer = *model.tokenizer;
  std::vector<Token> tokens;
  for (size_t i = 0; i < ids->size(); ++i) {
    const std::optional<int64_t> token = exact_integer((*ids)[i]);
    if (!token || *token < 0 || *token >= tokenizer.vocab_size() || !tokenizer.contains(static_cast<Token>(*token))) {
      const std::string path = fmt::format("{}[{}]", name, i);
      throw bad_field(path, fmt::format("{} is no token of this model", path));
    }
    tokens.push_back(static_cast<Token>(*token));
  }
  const std::shared_ptr<Caller> caller = caller_of(request.head);
  caller->take_tokenized(static_cast<int64_t>(tokens.size()));
  std::string text;
  append_json(text, tokenizer.decode(tokens, true));
  send_complete(*caller, std::move(responder), style_of(request.head.path),
                {.body = fmt::format("{{\"content\":{},\"prompt\":{}}}", text, text)});
}

}  // namespace ingot
