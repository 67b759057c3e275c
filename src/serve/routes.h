// The one table of routes: what may be called, by whom, and what answers it. Whatever is not in it does not exist, and
// a route needs a key unless the table says otherwise.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/serve_context.h"

namespace ingot {

enum class Access : uint8_t {
  kKey,   // needs a key, where the server has any
  kOpen,  // probes and the page's own files: nothing that a key protects
};

enum class RunsOn : uint8_t {
  kWorker,
  kIo,  // answers at once, in microseconds, however busy the workers are
};

class Server;

struct Route {
  std::string method;
  std::string path;  // a last "/*" stands for anything below
  void (*handler)(Server&, HttpRequest, std::shared_ptr<Responder>);
  Access access = Access::kKey;
  RunsOn runs = RunsOn::kWorker;
  bool generates = false;   // uses the engine: refused while the server drains or its queue is full
  size_t body_bytes = 0;    // the largest body, within the server's limit; 0: none is read
  bool probe = false;       // is answered though all connections are taken
  bool reads_kept = false;  // reads a conversation that is kept

  // Costs the machine work for its caller, and so counts against the limits of a key: all that take a body, and what
  // reads one that was kept.
  bool computes() const { return method == "POST" || reads_kept; }
};

// All routes; the page's files included.
std::span<const Route> routes();

struct RouteMatch {
  const Route* route = nullptr;      // none: 404, or 405 where `allowed` says what there is
  std::string allowed = {};          // methods of this path: "GET, HEAD"
  std::string_view label = "other";  // of the path, for metrics
};

// HEAD is found as GET.
RouteMatch find_route(std::string_view method, std::string_view path);

// Every label that find_route may give, "other" left out.
std::vector<std::string_view> route_labels();

}  // namespace ingot
