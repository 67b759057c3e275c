#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <new>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/mapping_guard.h"
#include "files/json.h"
#include "serve/answer/long_work.h"
#include "serve/api/openapi.h"
#include "serve/http/host_check.h"
#include "serve/probes.h"
#include "serve/routes.h"

namespace ingot {

namespace {

using std::chrono::milliseconds;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Keys go over the wire as they are: they belong on this machine, or behind TLS or a proxy that has it.
void check_exposure(const ServerOptions& options, const Keys& keys) {
  if (keys.required() || !options.http.unix_socket.empty() || is_loopback(options.http.host)) return;
  throw Error("[serve] {} can be reached from other machines: give a key with --api-key-file, or bind 127.0.0.1",
              options.http.host);
}

// What a browser asks whether it may send: clients have headers of their own (x-stainless-…), and none of them has a
// meaning here but those of keys.
std::string allowed_request_headers(const HttpHead& head) {
  const std::string_view asked = head.header("access-control-request-headers");
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ',' ||
           c == ' ';
  };
  if (!asked.empty() && asked.size() <= 1024 && std::all_of(asked.begin(), asked.end(), plain))
    return std::string(asked);
  return "authorization, content-type, x-api-key, anthropic-version, anthropic-beta";
}

// By its status. A 503 was counted by whoever knows which queue is full.
std::optional<Rejected> why_rejected(int status) {
  if (status == 503) return std::nullopt;
  if (status == 401) return Rejected::kNoKey;
  if (status == 403) return Rejected::kForbidden;
  if (status == 429) return Rejected::kKeyLimit;
  if (status == 504) return std::nullopt;  // by whoever ends it
  if (status >= 500) return Rejected::kInternalError;
  if (status >= 400) return Rejected::kBadRequest;
  return std::nullopt;
}

KeyOptions with_routes(KeyOptions keys) {
  keys.routes = route_labels();
  return keys;
}

ApiError queue_full_error() { return server_busy("too many requests are under way; try again"); }

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options),
      log_(options.log),
      usage_log_(options.usage_log),
      keys_(with_routes(options.keys)),
      metrics_(route_labels()),
      workers_(2, 1024, options.http.limits.bodies_bytes),
      responses_(options.response_bytes),
      http_((check_exposure(options, keys_), options.http),
            {.admit = [this](const HttpHead& head) { return admit(head); },
             .handle = [this](HttpRequest request,
                              std::shared_ptr<Responder> to) { handle(std::move(request), std::move(to)); },
             .refusal = [this](const HttpRefusal& refused) { return refusal(refused); }}) {}

Server::~Server() { usage_log_.stop(); }  // what it calls uses the workers

void Server::set_model(const ServedModel& model) {
  context_.reset(new ServeContext{.model = model,
                                  .workers = workers_,
                                  .streams = streams_,
                                  .metrics = metrics_,
                                  .keys = keys_,
                                  .log = log_,
                                  .responses = responses_,
                                  .requests = SharedRoom(options_.http.limits.bodies_bytes),
                                  .queue_seconds = options_.queue_seconds});
  context_->openapi = to_json(openapi_document(options_.version));
  context_->limits = limits_text(*this);
  if (!model.constraints) return;
  model.constraints->report({.compiled = [this](double s) { metrics_.grammar_compile_seconds.observe(s); },
                             .masked = [this](double s) { metrics_.grammar_mask_seconds.observe(s); },
                             .found = [this] { metrics_.grammars_found.add(); }});
}

void Server::run() {
  if (!options_.keys.file.empty()) watch_keys();
  if (workers_.priority_refused()) log_.warning("long texts are read with the priority of everything else");
  http_.run();
  workers_.stop();
  streams_.stop();
  usage_log_.flush();  // the model may go from here on
}

void Server::on_step(const StepFacts& step) {
  metrics_.step_seconds.observe(step.seconds);
  metrics_.step_rows.observe(step.rows);
  metrics_.step_seqs.observe(step.seqs);
  double longest = longest_step_;
  while (step.seconds > longest && !longest_step_.compare_exchange_weak(longest, step.seconds)) {
  }
}

// ---- What is refused before the body is read ----

std::optional<ApiError> Server::check_origin(const HttpHead& head) const {
  if (!host_allowed(head.header("host"), options_)) {
    return ApiError{.status = 403, .message = "this Host is not served here (see --allow-host)", .code = "forbidden"};
  }
  const std::string_view origin = head.header("origin");
  if (!origin.empty() && !origin_allowed(origin, head.header("host"), options_)) {
    return ApiError{
        .status = 403, .message = "pages of this Origin may not call this server (see --cors)", .code = "forbidden"};
  }
  return std::nullopt;
}

std::optional<HttpResponse> Server::check(const HttpHead& head) {
  if (const std::optional<ApiError> foreign = check_origin(head)) {
    metrics_.rejected(Rejected::kForbidden);
    return refuse(head, *foreign);
  }
  // A browser asks so before it sends a key; only with --cors is there anything to say.
  if (head.method == "OPTIONS" && !options_.cors_origin.empty() && !head.header("origin").empty()) {
    return HttpResponse{.status = 204, .body = {}, .headers = common_headers(head)};
  }
  const RouteMatch match = find_route(head.method, head.path);
  // The key comes first: without one nobody learns which routes there are.
  const bool open = match.route != nullptr && match.route->access == Access::kOpen;
  const bool keyed = keys_.required() && !open;
  const std::shared_ptr<const ApiKey> key = keyed ? keys_.find(head) : keys_.nobody();
  if (!key) {
    metrics_.rejected(Rejected::kNoKey);
    return refuse(head, no_key());
  }
  if (match.route == nullptr) {
    metrics_.rejected(Rejected::kNoRoute);
    if (match.allowed.empty()) return refuse(head, no_route(head.path));
    HttpResponse response = refuse(head, {.status = 405, .message = "this route has other methods: " + match.allowed});
    response.headers.emplace_back("allow", match.allowed);
    return response;
  }
  if (const std::optional<ApiError> error = without_right(*match.route, *key->tenant->rights())) {
    metrics_.rejected(Rejected::kForbidden);
    return refuse(head, *error);
  }
  if (match.route->computes()) {  // what a key at its limit sends is not even read
    if (const std::optional<ApiError> limit = key->tenant->refusal()) {
      metrics_.rejected(Rejected::kKeyLimit);
      HttpResponse response = refuse(head, *limit);
      std::ranges::move(key->tenant->limit_headers(), std::back_inserter(response.headers));
      return response;
    }
  }
  if (!match.route->generates) return std::nullopt;
  if (context_->draining) {
    metrics_.rejected(Rejected::kDraining);
    HttpResponse response = refuse(head, server_busy("the server is shutting down"));
    response.close = true;
    return response;
  }
  if (queue_full(key->tenant->name())) {
    metrics_.rejected(Rejected::kQueueFull);
    return refuse(head, queue_full_error());
  }
  return std::nullopt;
}

HttpAdmission Server::admit(const HttpHead& head) {
  HttpAdmission admission{.answer = check(head)};
  // Who has no key where keys are needed is one with all of those.
  if (keys_.required()) admission.payer = keys_.name_of(head).value_or("");
  const Route* route = find_route(head.method, head.path).route;
  if (route == nullptr) return admission;
  admission.body_bytes = route->body_bytes;
  admission.probe = route->probe;
  return admission;
}

HttpResponse Server::refuse(const HttpHead& head, const ApiError& error) {
  const std::string_view label = find_route(head.method, head.path).label;
  metrics_.answered(label, error.status);
  if (may_log_refusal())
    log_.info("refused", {{"id", head.id}, {"route", std::string(label)}, {"status", error.status}});
  HttpResponse response = error_response(error, style_of(head.path));
  for (auto& header : common_headers(head)) response.headers.push_back(std::move(header));
  return response;
}

bool Server::may_log_refusal() {
  constexpr int kEachSecond = 20;
  const auto second = static_cast<int64_t>(steady_seconds());
  if (second != refusals_second_) {
    refusals_second_ = second;
    refusals_ = 0;
  }
  return refusals_++ < kEachSecond;
}

HttpResponse Server::refusal(const HttpRefusal& refused) {
  ApiError error{.status = refused.status, .message = std::string(refused.why)};
  if (error.status >= 500) error.type = "server_error";
  if (error.status == 503) error.retry_after = 1;
  HttpResponse response = error_response(error, style_of(refused.path));
  if (may_log_refusal()) log_.info("refused", {{"id", refused.id}, {"status", error.status}});
  return response;
}

HttpHeaders Server::common_headers(const HttpHead& head) const {
  HttpHeaders headers = {{"x-content-type-options", "nosniff"}};
  const std::string_view origin = head.header("origin");
  if (options_.cors_origin.empty() || origin.empty()) return headers;
  headers.emplace_back("access-control-allow-origin", options_.cors_origin);
  headers.emplace_back("vary", "Origin");
  if (head.method == "OPTIONS") {
    headers.emplace_back("access-control-allow-methods", "GET, POST, DELETE, OPTIONS");
    headers.emplace_back("access-control-allow-headers", allowed_request_headers(head));
    headers.emplace_back("access-control-max-age", "600");
  } else {
    headers.emplace_back("access-control-expose-headers",
                         "retry-after, x-request-id, x-should-retry, x-ratelimit-limit-requests, "
                         "x-ratelimit-limit-tokens, x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens, "
                         "x-ratelimit-reset-requests, x-ratelimit-reset-tokens");
  }
  return headers;
}

// ---- A whole request ----

void Server::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  const RouteMatch match = find_route(request.head.method, request.head.path);
  if (match.route == nullptr) return responder->send(refuse(request.head, no_route(request.head.path)));
  // The key was checked before the body came; it may have been revoked since.
  const bool keyed = keys_.required() && match.route->access == Access::kKey;
  std::shared_ptr<const ApiKey> key = keyed ? keys_.find(request.head) : keys_.nobody();
  take_in(*match.route, std::move(request), std::move(key), std::move(responder));
}

// Also until it is in flight: from then on whoever revokes the key ends it.
void Server::take_in(const Route& route, HttpRequest request, std::shared_ptr<const ApiKey> key,
                     std::shared_ptr<Responder> responder) {
  const std::shared_ptr<Caller> caller = make_caller(route, request.head, key ? key : keys_.nobody());
  const auto on_end = [this, &route, caller, id = request.head.id](Ended& ended) {
    in_flight_.remove(ended.responder);
    try {
      record(route, id, *caller, ended);
    } catch (...) {
      // A line of the log is missing.
    }
    end_call(caller, ended);
  };
  const auto tracked = std::make_shared<TrackedResponder>(std::move(responder), style_of(request.head.path),
                                                          common_headers(request.head), on_end);
  const bool full = route.generates && queue_full(caller->tenant());
  in_flight_.add(tracked, route.generates, caller);
  tracked->watch();
  std::optional<ApiError> refused;
  if (!key || caller->revoked()) {
    refused = no_key();
  } else if ((refused = without_right(route, caller->rights()))) {
    // Taken from it since.
  } else if (route.generates && context_->draining) {
    refused = server_busy("the server is shutting down");
  } else if (full) {
    metrics_.rejected(Rejected::kQueueFull);
    refused = queue_full_error();
  } else if (route.computes()) {
    // A key's limits are of what costs: its user may look at the engine while an answer comes.
    refused = caller->enter();
    tracked->add_headers(caller->limit_headers());
    if (refused && refused->status == 503) metrics_.rejected(Rejected::kUsageLog);
  }
  if (refused) return tracked->send(error_response(*refused, style_of(request.head.path)));
  dispatch(route, std::move(request), tracked);
}

void Server::dispatch(const Route& route, HttpRequest request, const std::shared_ptr<TrackedResponder>& tracked) {
  const ApiStyle style = style_of(request.head.path);
  auto body = [this, &route, style, tracked](HttpRequest& given) {
    if (tracked->closed() || !caller_of(given.head)->take_up()) {  // while it waited
      if (route.generates && !caller_of(given.head)->ended_early()) metrics_.client_gone.add();
      return;
    }
    try {
      // What others of its tenant have used since it came counts, too.
      if (route.computes()) {
        if (const std::optional<ApiError> spent = caller_of(given.head)->spent()) throw *spent;
      }
      route.handler(*this, std::move(given), tracked);
    } catch (const ApiError& error) {
      tracked->send(error_response(error, style));
    } catch (const Error&) {
      tracked->send(error_response(no_tokens(), style));
    } catch (const std::bad_alloc&) {
      tracked->fail([] { return server_busy("there is no memory for this request now"); });
    } catch (...) {
      tracked->fail(internal_error);
    }
  };
  if (route.runs == RunsOn::kIo) return body(request);
  JobCost cost{.payer = request.head.tenant, .bytes = request.body.size()};
  const bool taken = workers_.post([body = std::move(body), request = std::move(request)]() mutable { body(request); },
                                   std::move(cost));
  if (taken) return;
  metrics_.rejected(Rejected::kQueueFull);
  tracked->send(error_response(server_busy("too many requests are waiting; try again"), style));
}

void Server::record(const Route& route, const std::string& id, const Caller& caller, const Ended& ended) {
  if (ended.gone && !route.generates) metrics_.client_gone.add();  // the others count it when they stop
  if (ended.status != 0) metrics_.answered(route.path, ended.status);
  if (const std::optional<Rejected> why = why_rejected(ended.status)) metrics_.rejected(*why);
  if (caller.timed_out()) metrics_.rejected(Rejected::kTimeout);
  if (route.generates && !ended.gone && ended.status < 400) metrics_.request_seconds.observe(ended.seconds);
  if (route.runs == RunsOn::kIo) return;  // probes and files would be most of the log
  JsonObject fields{
      {"id", id}, {"route", route.path}, {"status", ended.status}, {"ms", std::round(ended.seconds * 1e4) / 10}};
  if (!caller.tenant().empty()) fields["key"] = caller.tenant();
  if (ended.gone) fields["client_gone"] = true;
  log_.write(ended.status >= 500 ? LogLevel::kWarning : LogLevel::kInfo, "request", std::move(fields));
}

// ---- How it stands ----

bool Server::stalled() const {
  // A large model's steps may be long by nature: what it has shown before is no stall. But one step in which the
  // machine slept must not blind the watchdog for ever.
  constexpr double kMost = 60;
  const double shown = std::min(10 * longest_step_.load(), kMost);
  return context_->engine().stalled_seconds() > std::max(options_.watchdog_seconds, shown);
}

// No request takes a worker for so long: a job that does has no end, and every further one takes another worker.
double Server::worker_stalled_seconds() const {
  constexpr double kWatchdogs = 8;
  const double busy = std::max(workers_.busy_seconds(), streams_.busy_seconds());
  return busy > kWatchdogs * options_.watchdog_seconds ? busy : 0;
}

Server::Health Server::health() const {
  if (mapping_damaged()) {
    return {.live = false, .ready = false, .status = "damaged", .reason = "a file of the model was cut short"};
  }
  if (stalled()) {
    return {.live = false, .ready = false, .status = "stalled", .reason = "the engine makes no step"};
  }
  if (const double seconds = worker_stalled_seconds(); seconds > 0) {
    return {.live = false,
            .ready = false,
            .status = "stalled",
            .reason = fmt::format("a worker has been at one request for {:.0f} s", seconds)};
  }
  if (context_->draining) return {.live = true, .ready = false, .status = "draining"};
  return {};
}

Metrics::Now Server::now() const {
  const Health state = health();
  const Engines& engine = context_->engine();
  std::vector<EngineStats> engines;
  for (int e = 0; e < engine.size() && engine.size() > 1; ++e) engines.push_back(engine.at(e).stats());
  return {.engine = engine.stats(),
          .engines = std::move(engines),
          .http = http_.counters(),
          .ready = state.ready,
          .draining = context_->draining,
          .stalled_seconds = engine.stalled_seconds(),
          .stalled = stalled(),
          .log_dropped = log_.dropped(),
          .usage_lost = usage_log_.lost(),
          .tenants = {},
          .kv_bytes = engine.stats().kv_bytes,
          .worker_jobs = static_cast<int64_t>(workers_.waiting() + streams_.waiting()),
          .failed_jobs = workers_.failed_jobs() + streams_.failed_jobs(),
          .worker_seconds = std::max(workers_.busy_seconds(), streams_.busy_seconds()),
          .requests_in_flight = in_flight_.generating(),
          .kept_responses = static_cast<int64_t>(responses_.count()),
          .kept_response_bytes = static_cast<int64_t>(responses_.bytes()),
          .device = engine.device()};
}

std::optional<double> Server::recent_gap_seconds() {
  const GapMark mark{.at = steady_seconds(), .sum = metrics_.gap_seconds.sum(), .count = metrics_.gap_seconds.count()};
  const std::lock_guard lock(gap_mutex_);
  if (mark.at - gap_new_.at >= 2) {
    gap_old_ = gap_new_.at == 0 ? mark : gap_new_;
    gap_new_ = mark;
  }
  if (mark.count <= gap_old_.count) return std::nullopt;
  return (mark.sum - gap_old_.sum) / static_cast<double>(mark.count - gap_old_.count);
}

// ---- Its end ----

void Server::begin_drain() {
  context_->draining = true;
  log_.info("drain begins", {{"in_flight", in_flight_.all()}});
}

void Server::stop() {
  context_->draining = true;
  in_flight_.end_all(server_busy("the server is shutting down"));
  http_.close_listener();
  // What was given to the sockets just now goes out first; a client that reads nothing is not waited for.
  for (int i = 0; i < 400 && http_.counters().open > 0; ++i) std::this_thread::sleep_for(milliseconds(5));
  http_.stop();
}

}  // namespace ingot
