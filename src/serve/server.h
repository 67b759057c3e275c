// The server: the route table, the probes and the handlers around one model, behind one HTTP listener.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/answer/tracked_responder.h"
#include "serve/http/http.h"
#include "serve/serve_context.h"

namespace ingot {

struct Route;

struct ServerOptions {
  HttpOptions http = {};
  KeyOptions keys = {};
  LogOptions log = {};
  UsageLogOptions usage_log = {};
  std::vector<std::string> allowed_hosts = {};  // of the Host header, besides this machine's own names; "*": any
  std::string cors_origin = {};                 // pages of this origin may call; empty: none but our own
  int max_in_flight = 272;                      // requests that generate, running and waiting: beyond, 503
  double queue_seconds = 0;                     // a request that has not begun after so long gets 503; 0: it waits
  double request_seconds = 0;                   // what takes longer ends with 504; 0: no limit
  double watchdog_seconds = 8;                  // without a step while requests run: /health says 503 (workers: 8 x)
  double key_check_seconds = 2;                 // how often the key file is looked at
  size_t response_bytes = 0;                    // of answers that are kept (ResponseStore); 0: none is
  std::string version = {};
};

class Server {
 public:
  // Reads the key file, opens the logs and binds the address. Throws Error; where the address is not this machine's
  // alone and there is no key, too.
  explicit Server(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const { return http_.address(); }
  int port() const { return http_.port(); }
  Metrics& metrics() { return metrics_; }
  // To be called by the engine's thread after each step.
  void on_step(const StepFacts& step);
  Log& log() { return log_; }

  // What the handlers of requests get. From here on until the end the model is served; it outlives the server's run().
  void set_model(const ServedModel& model);
  // Serves until stop(); the calling thread becomes the io thread. REQUIRES: set_model() was called.
  void run();

  // Any thread: requests that generate are refused from now on, those in flight go on.
  void begin_drain();
  // Any thread but the io thread: reads the key file again where it has changed, or `anyway`. A wrong one leaves the
  // old keys. Requests of a key that is gone, and that have no token yet, end with 401.
  void reload_keys(bool anyway);
  int64_t in_flight() const { return in_flight_.all(); }
  // Any thread but the io thread: answers still in flight end with an error, connections close, run() returns.
  void stop();

  // The callbacks of HTTP, and what the table's handlers need. The io thread calls the first four.
  HttpAdmission admit(const HttpHead& head);
  std::optional<HttpResponse> check(const HttpHead& head);  // of admit(): what is refused
  void handle(HttpRequest request, std::shared_ptr<Responder> responder);
  // The rest of handle(), once the key is known by which the route is asked for; null: it needs one and there is none.
  // The key may have been revoked since.
  void take_in(const Route& route, HttpRequest request, std::shared_ptr<const ApiKey> key,
               std::shared_ptr<Responder> responder);
  HttpResponse refusal(const HttpRefusal& refused);

  struct Health {
    bool live = true, ready = true;
    const char* status = "ok";  // "stalled", "damaged", "draining"
    std::string reason = {};    // where it is not live
  };
  Health health() const;
  ServeContext& context() { return *context_; }
  const ServerOptions& options() const { return options_; }
  Metrics::Now now() const;
  // Mean time between two tokens over the last seconds; none: there was none.
  std::optional<double> recent_gap_seconds();

 private:
  std::optional<ApiError> check_origin(const HttpHead& head) const;
  HttpHeaders common_headers(const HttpHead& head) const;
  HttpResponse refuse(const HttpHead& head, const ApiError& error);
  void dispatch(const Route& route, HttpRequest request, const std::shared_ptr<TrackedResponder>& tracked);
  std::optional<ApiError> without_right(const Route& route, const TenantRights& rights) const;
  bool queue_full(const std::string& tenant) const;
  std::shared_ptr<Caller> make_caller(const Route& route, HttpHead& head, std::shared_ptr<const ApiKey> key);
  void record(const Route& route, const std::string& id, const Caller& caller, const Ended& ended);
  void end_call(const std::shared_ptr<Caller>& caller, Ended& ended);
  void watch_keys();
  void watch_deadlines();
  bool stalled() const;
  // For how long a worker has been at one job, where that is too long; 0: none has.
  double worker_stalled_seconds() const;
  // Whoever is refused costs nothing else: only so many of them a second get a line. The io thread's own.
  bool may_log_refusal();

  const ServerOptions options_;
  Log log_;
  UsageLog usage_log_;
  Keys keys_;
  Metrics metrics_;
  Workers workers_;  // parse, tokenize, write whole answers
  Workers streams_;  // write the events of streams: nothing that takes long
  InFlight in_flight_;
  ResponseStore responses_;
  std::unique_ptr<ServeContext> context_;
  std::mutex gap_mutex_;
  struct GapMark {
    double at = 0, sum = 0;
    int64_t count = 0;
  };
  std::atomic<bool> watches_deadlines_{false};
  std::atomic<double> longest_step_{0};
  int64_t refusals_second_ = 0;
  int refusals_ = 0;
  GapMark gap_old_, gap_new_;  // guarded by gap_mutex_
  HttpServer http_;            // last: its end closes the connections, whose callbacks use all above
};

}  // namespace ingot
