// The server without sockets in between: what check() refuses, what handle() does with limits, and how it stands.
#include "serve/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <set>

#include "base/error.h"
#include "serve/http/host_check.h"
#include "serve/http/http_test_support.h"
#include "serve/routes.h"

namespace ingot {
namespace {

constexpr const char* kKey = "a-key-for-tests";

// Keeps what it is given.
class FakeResponder : public Responder {
 public:
  void send(HttpResponse given) override {
    response = std::move(given);
    ended = true;
  }
  void start(HttpResponse given) override { response = std::move(given); }
  void write(std::string bytes) override { response->body += bytes; }
  void finish() override { ended = true; }
  void abort() override { aborted = true; }
  bool closed() const override { return false; }
  size_t unsent() const override { return 0; }
  void on_close(std::function<void()> callback) override { gone.push_back(std::move(callback)); }

  std::optional<HttpResponse> response;
  std::atomic<bool> ended = false, aborted = false;  // set last: who sees it may read the answer
  std::vector<std::function<void()>> gone;
};

HttpHead head_of(std::string method, std::string path, HttpHeaders headers = {{"host", "localhost:1"}}) {
  HttpHead head;
  head.method = std::move(method);
  head.path = std::move(path);
  head.headers = std::move(headers);
  head.id = "req-1";
  return head;
}

struct Fixture {
  explicit Fixture(ServerOptions options = {}) : server(quiet(std::move(options))) {
    served.name = "toy";
    served.engine = &engine;
    served.context = 64;
    server.set_model(served);
  }
  static ServerOptions quiet(ServerOptions options) {
    options.http.port = 0;
    options.log.path = "off";
    return options;
  }
  int status_of(const HttpHead& head) {
    const std::optional<HttpResponse> response = server.check(head);
    return response ? response->status : 0;
  }

  Server server;
  Model model = Model::load(INGOT_SOURCE_DIR "/tests/data/arch/llama", {.context = 64});
  Engines engine{model, {.threads = 1, .max_seqs = 2, .step_rows = 32, .page_rows = 16}};
  ServedModel served;
};

ServerOptions with_key() { return {.keys = {.keys = {kKey}}}; }
HttpHeaders bearer() { return {{"host", "localhost:1"}, {"authorization", std::string("Bearer ") + kKey}}; }

TEST(Server, EveryRouteButTheOpenOnesNeedsAKey) {
  Fixture f(with_key());
  std::set<std::string> open;
  for (const Route& route : routes()) {
    std::string path = route.path;
    if (path.ends_with("*")) path.back() = 'x';
    const int status = f.status_of(head_of(route.method, path));
    if (status == 0) {
      open.insert(route.path);
    } else {
      EXPECT_EQ(status, 401) << route.path;
    }
    EXPECT_EQ(f.status_of(head_of(route.method, path, bearer())), 0) << route.path;
  }
  // Probes, and the page's files: the page at "/" and names with a suffix, none of them below /v1.
  EXPECT_TRUE(open.contains("/health"));
  for (const std::string& path : open) {
    const bool file = path == "/" || (path.find('/', 1) == std::string::npos && path.find('.') != std::string::npos);
    EXPECT_TRUE(file || path == "/health" || path == "/ready") << path;
    EXPECT_NE(path, "/openapi.json");
  }
}

TEST(Server, WithoutAKeyNobodyLearnsWhichRoutesThereAre) {
  Fixture f(with_key());
  for (const char* path : {"/nothing", "/v1/engine/../x", "/HEALTH", "/health/", "//", "/v1/chat/completions/"}) {
    EXPECT_EQ(f.status_of(head_of("GET", path)), 401) << path;
    EXPECT_EQ(f.status_of(head_of("GET", path, bearer())), 404) << path;
  }
  EXPECT_EQ(f.status_of(head_of("DELETE", "/health")), 401);
  EXPECT_EQ(f.status_of(head_of("OPTIONS", "/v1/models")), 401);
}

TEST(Server, OtherMethodsAreToldWhichThereAre) {
  Fixture f;
  const std::optional<HttpResponse> response = f.server.check(head_of("GET", "/v1/completions"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 405);
  EXPECT_NE(std::ranges::find(response->headers, std::pair<std::string, std::string>("allow", "POST")),
            response->headers.end());
  EXPECT_EQ(f.status_of(head_of("HEAD", "/health")), 0);
}

TEST(Server, AnAddressOfOtherMachinesNeedsAKey) {
  ServerOptions options = Fixture::quiet({});
  options.http.host = "0.0.0.0";
  EXPECT_THROW(Server{options}, Error);
  options.keys.keys = {kKey};
  EXPECT_NO_THROW(Server{options});
}

TEST(Server, ForeignHostsAndOriginsAreRefused) {
  Fixture f;
  const auto with = [&](HttpHeaders headers) { return f.status_of(head_of("GET", "/v1/models", std::move(headers))); };
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:80", "127.1.2.3"}) {
    EXPECT_EQ(with({{"host", host}}), 0) << host;
  }
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "[::2]"}) {
    EXPECT_EQ(with({{"host", host}}), 403) << host;
  }
  EXPECT_EQ(with({{"host", "localhost:1"}, {"origin", "http://localhost:1"}}), 0);
  for (const char* origin : {"http://evil.example", "null", "http://localhost:2", "http://localhost:1.evil.example"}) {
    EXPECT_EQ(with({{"host", "localhost:1"}, {"origin", origin}}), 403) << origin;
  }
  // Nothing is said to other origins, not even to a preflight.
  const std::optional<HttpResponse> answer =
      f.server.check(head_of("OPTIONS", "/v1/models", {{"host", "localhost:1"}, {"origin", "http://evil.example"}}));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 403);
  for (const auto& header : answer->headers) EXPECT_FALSE(header.first.starts_with("access-control")) << header.first;
}

TEST(Server, CorsAndFurtherHostsAreForWhomTheyWereGiven) {
  Fixture f({.allowed_hosts = {"llm.example"}, .cors_origin = "https://app.example"});
  const HttpHeaders app = {{"host", "llm.example"}, {"origin", "https://app.example"}};
  EXPECT_EQ(f.status_of(head_of("POST", "/v1/completions", app)), 0);
  const std::optional<HttpResponse> preflight = f.server.check(head_of("OPTIONS", "/v1/completions", app));
  ASSERT_TRUE(preflight);
  EXPECT_EQ(preflight->status, 204);
  EXPECT_NE(std::ranges::find(preflight->headers, std::pair<std::string, std::string>("access-control-allow-origin",
                                                                                      "https://app.example")),
            preflight->headers.end());
  EXPECT_EQ(f.status_of(head_of("GET", "/health", {{"host", "other.example"}})), 403);
}

TEST(Server, DrainRefusesOnlyWhatGenerates) {
  Fixture f;
  EXPECT_TRUE(f.server.health().ready);
  f.server.begin_drain();
  EXPECT_EQ(f.status_of(head_of("POST", "/v1/completions")), 503);
  EXPECT_EQ(f.status_of(head_of("GET", "/metrics")), 0);
  EXPECT_TRUE(f.server.health().live);
  EXPECT_FALSE(f.server.health().ready);
}

TEST(Server, ProbesAnswerWithoutAWorker) {
  Fixture f;
  for (const char* path : {"/health", "/ready"}) {
    const auto to = std::make_shared<FakeResponder>();
    f.server.handle({.head = head_of("GET", path), .body = {}}, to);
    ASSERT_TRUE(to->ended) << path;
    EXPECT_EQ(to->response->status, 200);
    EXPECT_EQ(to->response->body, "{\"status\":\"ok\"}");
  }
  EXPECT_EQ(f.server.in_flight(), 0);
}

TEST(Server, AnEngineThatHangsIsSeen) {
  Fixture f({.watchdog_seconds = 0.2});
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  ASSERT_EQ(f.engine.submit(request, [open](const Event&) { open.wait(); }).refused, "");
  EXPECT_TRUE(eventually([&] { return !f.server.health().live; }));
  EXPECT_STREQ(f.server.health().status, "stalled");
  EXPECT_FALSE(f.server.health().ready);
  EXPECT_TRUE(f.server.now().stalled);
  EXPECT_NE(f.server.metrics().text(f.server.now()).find("\ningot_engine_stalled 1\n"), std::string::npos);
  gate.set_value();
  EXPECT_TRUE(eventually([&] { return f.server.health().live; }));
}

TEST(Server, AWorkerThatDoesNotEndIsSeen) {
  Fixture f({.watchdog_seconds = 0.02});
  for (Workers* workers : {&f.server.context().workers, &f.server.context().streams}) {
    std::promise<void> gate;
    ASSERT_TRUE(workers->post([open = gate.get_future().share()] { open.wait(); }));
    EXPECT_TRUE(eventually([&] { return !f.server.health().live; }));
    const auto to = std::make_shared<FakeResponder>();
    f.server.handle({.head = head_of("GET", "/health"), .body = {}}, to);
    EXPECT_EQ(to->response->status, 503);
    EXPECT_NE(to->response->body.find("\"reason\":\"a worker has been at one request for"), std::string::npos);
    gate.set_value();
    EXPECT_TRUE(eventually([&] { return f.server.health().live; }));
  }
}

TEST(Server, OnlyRoutesThatReadABodyTakeOne) {
  Fixture f(with_key());
  for (const Route& route : routes()) {
    std::string path = route.path;
    if (path.ends_with("*")) path.back() = 'x';
    const HttpAdmission admission = f.server.admit(head_of(route.method, path, bearer()));
    EXPECT_FALSE(admission.answer) << path;
    EXPECT_EQ(admission.body_bytes > 0, route.method == "POST") << path;
    EXPECT_EQ(admission.payer, "default") << path;
    EXPECT_EQ(admission.probe, path == "/health" || path == "/ready" || path == "/metrics") << path;
    // Who has no key has no share either: an answer, or nothing that is read.
    const HttpAdmission stranger = f.server.admit(head_of(route.method, path));
    EXPECT_TRUE(stranger.answer || stranger.body_bytes == 0) << path;
    EXPECT_EQ(stranger.payer, "") << path;
  }
}

TEST(Server, AHandlerThatThrowsIsAnAnswer) {
  Fixture f;
  const auto to = std::make_shared<FakeResponder>();
  f.server.handle({.head = head_of("GET", "/v1/models/none"), .body = {}}, to);
  // Not in_flight() == 0: an answer is counted before it is given.
  ASSERT_TRUE(eventually([&] { return to->ended.load(); }));
  EXPECT_EQ(f.server.in_flight(), 0);
  EXPECT_EQ(to->response->status, 404);
  EXPECT_NE(to->response->body.find("model_not_found"), std::string::npos);
}

// A key's limits do not count for them, and each takes milliseconds to write.
TEST(Server, DocumentsAreWrittenOnce) {
  Fixture f(with_key());
  const auto body_of = [&](const char* path) {
    const auto to = std::make_shared<FakeResponder>();
    f.server.handle({.head = head_of("GET", path, bearer()), .body = {}}, to);
    EXPECT_TRUE(eventually([&] { return to->ended.load(); }));
    return parse_json(to->response->body, path).as_object();
  };
  EXPECT_TRUE(body_of("/openapi.json").contains("paths"));
  const JsonObject limits = body_of("/v1/limits");
  EXPECT_TRUE(limits.contains("/v1/completions") && limits.contains("http") && limits.contains("key"));
  f.server.context().openapi = R"({"kept":1})";
  f.server.context().limits = R"({"kept":2})";
  EXPECT_EQ(to_json(body_of("/openapi.json")), R"({"kept":1})");
  const JsonObject kept = body_of("/v1/limits");
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept.at("kept"), 2);
  EXPECT_EQ(kept.at("key"), limits.at("key"));
}

TEST(TrackedResponder, AnAnswerThatOutlastsTheServerEndsWithAnError) {
  InFlight in_flight;
  const auto inner = std::make_shared<FakeResponder>();
  int ends = 0, closes = 0;
  const auto tracked = std::make_shared<TrackedResponder>(inner, ApiStyle::kOpenAi, HttpHeaders{}, [&](const Ended& e) {
    ++ends;
    EXPECT_EQ(e.status, 200);
    in_flight.remove(e.responder);
  });
  in_flight.add(tracked, true, caller_of({}));
  tracked->watch();
  tracked->on_close([&] { ++closes; });
  tracked->start({.content_type = "text/event-stream", .body = "data: 1\n\n"});
  EXPECT_EQ(in_flight.generating(), 1);
  in_flight.end_all(server_busy("over"));
  EXPECT_TRUE(inner->ended);
  EXPECT_TRUE(inner->response->body.starts_with("data: 1\n\ndata: {\"error\":")) << inner->response->body;
  tracked->write("data: 2\n\n");  // the handler has not noticed yet
  tracked->finish();
  EXPECT_EQ(inner->response->body.find("data: 2"), std::string::npos);
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(closes, 1);
  EXPECT_EQ(in_flight.all(), 0);
}

// A request that generates, in flight.
struct Tracked {
  explicit Tracked(bool stream = false) {
    in_flight.add(responder, true, caller);
    if (stream) responder->start({.content_type = "text/event-stream", .body = {}});
  }
  static InFlight::Verdict late(const Caller& judged) {
    return {.error = judged.timeout_error(), .end = CallEnd::kTimeout};
  }
  int status() const { return inner->response->status; }

  InFlight in_flight;
  const std::shared_ptr<FakeResponder> inner = std::make_shared<FakeResponder>();
  const std::shared_ptr<TrackedResponder> responder =
      std::make_shared<TrackedResponder>(inner, ApiStyle::kOpenAi, HttpHeaders{}, [](const Ended&) {});
  const std::shared_ptr<Caller> caller = caller_of({});
};

// Its line of usage says that it is complete, and waits for a slow disk: so does its answer.
TEST(TrackedResponder, AnAnswerThatIsSettledIsNotEndedByItsDeadline) {
  for (const bool stream : {false, true}) {
    Tracked t(stream);
    t.caller->settle(CallEnd::kComplete, 200);
    t.in_flight.end_where(
        [](const Caller& judged) -> std::optional<InFlight::Verdict> { return Tracked::late(judged); });
    t.in_flight.end_all(server_busy("over"));
    EXPECT_FALSE(t.inner->ended);
    EXPECT_FALSE(t.caller->ended_early());
    stream ? t.responder->finish() : t.responder->send({.body = "whole"});
    EXPECT_TRUE(t.inner->ended);
    EXPECT_EQ(t.status(), 200);
  }
}

// One that is answered while it is judged is no timeout.
TEST(TrackedResponder, OneThatEndsInTimeIsNotToldToBeLate) {
  for (const bool in_time : {true, false}) {
    Tracked t;
    t.in_flight.end_where([&](const Caller& judged) -> std::optional<InFlight::Verdict> {
      if (in_time) t.responder->send({.body = "whole"});
      return Tracked::late(judged);
    });
    EXPECT_EQ(t.status(), in_time ? 200 : 504);
    EXPECT_EQ(t.caller->timed_out(), !in_time);
  }
}

TEST(TrackedResponder, AClientThatGoesEndsItOnce) {
  const auto inner = std::make_shared<FakeResponder>();
  int gone = 0, closes = 0;
  const auto tracked = std::make_shared<TrackedResponder>(inner, ApiStyle::kOpenAi, HttpHeaders{},
                                                          [&](const Ended& e) { gone += e.gone; });
  tracked->watch();
  tracked->on_close([&] { ++closes; });
  for (const auto& callback : inner->gone) callback();
  tracked->on_close([&] { ++closes; });  // too late: told at once
  tracked->send({.body = "x"});
  EXPECT_TRUE(tracked->closed());
  EXPECT_FALSE(inner->response);
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(closes, 2);
}

// Whoever has no memory to be told keeps nobody else from it, and the request's place is given back.
TEST(TrackedResponder, ItsEndIsToldWhateverThrows) {
  struct NoMemory : FakeResponder {
    void send(HttpResponse) override { throw std::bad_alloc(); }
  };
  int ends = 0, closes = 0;
  const auto count = [&](const Ended&) {
    ++ends;
    throw std::bad_alloc();
  };
  const auto inner = std::make_shared<FakeResponder>();
  const auto tracked = std::make_shared<TrackedResponder>(inner, ApiStyle::kOpenAi, HttpHeaders{}, count);
  tracked->watch();
  tracked->on_close([] { throw std::bad_alloc(); });
  tracked->on_close([&] { ++closes; });
  for (const auto& callback : inner->gone) callback();
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(closes, 1);
  const auto full = std::make_shared<NoMemory>();
  std::make_shared<TrackedResponder>(full, ApiStyle::kOpenAi, HttpHeaders{}, count)->send({.body = "x"});
  EXPECT_EQ(ends, 2);
  EXPECT_TRUE(full->aborted);
}

// What ends an answer waits for whoever has taken it: its line of usage is written first.
TEST(TrackedResponder, ItsLastBytesGoOutWhenTheyMay) {
  for (const bool stream : {false, true}) {
    for (const bool fails : {false, true}) {
      const auto inner = std::make_shared<FakeResponder>();
      std::function<void()> last;
      auto tracked = std::make_shared<TrackedResponder>(inner, ApiStyle::kOpenAi, HttpHeaders{},
                                                        [&](Ended& e) { last = std::exchange(e.last, nullptr); });
      if (stream) tracked->start({.content_type = "text/event-stream", .body = "data: 1\n\n"});
      fails ? tracked->end_with(server_busy("over")) : stream ? tracked->finish() : tracked->send({.body = "whole"});
      EXPECT_TRUE(tracked->closed());
      tracked.reset();
      EXPECT_FALSE(inner->ended);
      if (stream) EXPECT_EQ(inner->response->body, "data: 1\n\n");
      last();
      EXPECT_TRUE(inner->ended);
      EXPECT_EQ(inner->response->body.find("over") != std::string::npos, fails);
    }
  }
}

TEST(TrackedResponder, AnAnswerThatNobodyGivesBecomesA500) {
  const auto inner = std::make_shared<FakeResponder>();
  std::make_shared<TrackedResponder>(inner, ApiStyle::kOpenAi, HttpHeaders{{"x-a", "b"}}, nullptr);
  ASSERT_TRUE(inner->ended);
  EXPECT_EQ(inner->response->status, 500);
  EXPECT_EQ(inner->response->headers.back().first, "x-a");
}

TEST(HostCheck, LoopbackIsNumbersAndOneName) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "localhost", "::1"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "127.example.com", "127.0.0.1.x", "1127.0.0.1", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace ingot
