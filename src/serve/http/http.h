// HTTP/1.1 for the rest of serve/: whole requests in, answers out. All that touches sockets is behind this header.
//
// One thread of the server's own does all input and output and calls the handlers; it never waits for anything else.
// A handler that has work to do hands it to other threads and keeps the Responder, which any thread may use.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

class Caller;  // serve/tenants/caller.h

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;  // names in lower case

// A request's first line and headers.
struct HttpHead {
  std::string method;  // "GET"
  std::string path;    // of the target, as sent, without the query; begins with '/'
  std::string query;   // what follows '?'
  HttpHeaders headers;
  std::string id;      // made by the server, unique in this process: "req-…"
  std::string tenant;  // the name of its key, set before a handler sees it; empty where the server has no keys
  std::shared_ptr<Caller> caller;  // who asks and what it has cost so far; set with the tenant
  std::chrono::steady_clock::time_point received = std::chrono::steady_clock::now();  // its last byte

  // The first header of this name (lower case), or empty.
  std::string_view header(std::string_view name) const;
};

struct HttpRequest {
  HttpHead head;
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers = {};  // further ones
  bool close = false;        // the connection ends after it
};

// Where the answer of one request goes: either send(), or start(), any number of write() and then finish() or abort().
// Any thread, also after the server has ended; calls in order of one caller arrive in order. Once the client is gone or
// the answer is complete, calls do nothing. One that is dropped without an answer is answered for with 500, or cut off.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(HttpResponse response) = 0;
  // Begins an answer whose end is not known yet; its body is the first part.
  virtual void start(HttpResponse head) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void finish() = 0;
  // Cuts the connection after what was written, so that the reader sees that the answer is not whole.
  virtual void abort() = 0;
  // The client has gone.
  virtual bool closed() const = 0;
  // Bytes given and not yet taken by the kernel: what a slow reader costs.
  virtual size_t unsent() const = 0;
  // Called once, by the io thread, when the client goes before the answer is complete (soon where it has gone; by the
  // caller where the server has ended). Not called after finish(), send() or abort(). Several may be given.
  virtual void on_close(std::function<void()> callback) = 0;
};

struct HttpLimits {
  size_t header_bytes = 16 << 10;  // first line and headers: 431 (414 for a long target)
  size_t headers = 100;
  size_t target_bytes = 4 << 10;
  size_t body_bytes = 4 << 20;      // 413
  size_t bodies_bytes = 128 << 20;  // of all bodies being read, together: beyond, the slowest gets 503
  int connections = 1024;           // beyond: the longest idle is closed; where none is, 503, but for probes
  int address_connections = 0;      // of one address (IPv6: one /64); 0: no limit, and none on Unix sockets
  double header_seconds = 10;       // 408; of a new connection, before its first byte too: closed
  double body_seconds = 30;         // 408
  double idle_seconds = 75;         // between two requests of a connection
  double write_seconds = 30;        // in which a reader must take some of what waits for it: closed
  size_t min_rate = 1 << 10;        // bytes a second that a body comes with, and that a reader takes: 408, closed
  double rate_seconds = 10;         // over which a body's rate is judged: a lost packet may cost some
  size_t unsent_bytes = 512 << 10;  // of a stream: more than this not taken by a reader that stands still: closed
  size_t answers_bytes = 64 << 20;  // of all answers that wait for their readers: beyond, the slowest is cut
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                // 0: any free one
  std::string unix_socket;        // a path: listens there instead
  std::string tls_cert, tls_key;  // PEM files: TLS where both are given
  HttpLimits limits;
};

// What the HTTP layer itself refuses: 400, 408, 413, 414, 415, 417, 431, 503; 500 for a handler that threw.
struct HttpRefusal {
  int status = 0;
  std::string_view why;   // one sentence
  std::string_view path;  // as far as it is known; empty where it is not
  std::string_view id;    // as HttpHead's
};

// What is decided by a request's head, before its body is read.
struct HttpAdmission {
  std::optional<HttpResponse> answer = {};  // ends the matter: wrong route, no key, foreign Host
  size_t body_bytes = SIZE_MAX;             // the largest body, within the limit of all; 0: none is read, 413
  std::string payer = {};                   // whose share of connections and bodies it takes; empty: of those unnamed
  bool probe = false;                       // is answered though all places are taken
};

struct HttpCallbacks {
  std::function<HttpAdmission(const HttpHead&)> admit;
  // The whole request. Exactly one answer must be given through the Responder.
  std::function<void(HttpRequest, std::shared_ptr<Responder>)> handle;
  // The answer's body and headers. The io thread calls it, as it does the others.
  std::function<HttpResponse(const HttpRefusal&)> refusal;
};

struct HttpCounters {
  int64_t accepted = 0, refused = 0;       // connections
  int64_t gave_way = 0;                    // connections that were closed for a new one
  int64_t open = 0;                        // now
  int64_t requests = 0, bad_requests = 0;  // the latter: refused by this layer
  int64_t timeouts = 0, stalled = 0;       // headers or body too slow; readers too slow
  int64_t body_bytes = 0;                  // now, of bodies being read
  int64_t answer_bytes = 0;                // now, of answers that wait for their readers
  int64_t bytes_in = 0, bytes_out = 0;
};

class HttpServer {
 public:
  // Binds and listens, so that address() is known; accepts nothing yet: who connects waits. Throws Error with the
  // address and the reason.
  HttpServer(const HttpOptions& options, HttpCallbacks callbacks);
  // Closes everything at once. REQUIRES: run() has returned or was not called.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:8080", "https://…" or "unix:/path".
  std::string address() const;
  int port() const;

  // Accepts and serves until stop(); the calling thread becomes the io thread. Once in a server's life. When it returns
  // all connections are closed and whoever answered has been told.
  void run();
  // Any thread, and signal-safe is not required: run() returns soon; open connections are closed.
  void stop();
  // Any thread: no new connections are taken; those that are open end after the answers in flight, idle ones at once.
  void close_listener();
  // Runs `body` on the io thread, after `seconds`. Any thread. Dropped when the server ends first.
  void post(std::function<void()> body, double seconds = 0);

  HttpCounters counters() const;  // any thread

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot
