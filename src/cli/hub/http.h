// HTTP GET with redirects, retries and a token that stays at its origin. Used by `ingot pull` alone.
// Thread-compatible: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct HttpReply {
  long status = 0;
  std::string url;                             // of the last hop
  std::map<std::string, std::string> headers;  // lower-case names; of the last hop, and those of earlier hops it lacks
  std::string body;                            // only where no sink took it
  std::string header(const std::string& name) const;
};

struct HttpGet {
  std::string url;
  uint64_t offset = 0;         // > 0: asks for the bytes from there on
  size_t max_body = 16 << 20;  // of `body`; more throws Error
  // Called for each piece of a 200 or 206 answer's body, with the answer's headers known.
  // May throw: the transfer is given up and the exception passed on.
  std::function<void(const HttpReply&, std::string_view)> sink = {};
};

class HttpClient {
 public:
  // `token`, where not empty, is sent as Bearer to the scheme, host and port of `origin` and to nobody else.
  // A request is tried again up to `retries` times in a row.
  HttpClient(const std::string& origin, const std::string& token, int retries);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One GET. Waits and tries again on 408, 429 and 5xx (Retry-After is honoured up to five minutes) and when
  // the connection breaks before the body began. Any other status is returned. Throws Error when no
  // answer can be had, Broken when the body broke off, Interrupted on Ctrl-C.
  HttpReply get(const HttpGet& request);

  // The body broke off after it had begun, for the reason given: a caller with a sink may ask for the rest.
  struct Broken {
    std::string reason;
  };

  // Waits as before the try number `attempt` (from 0): 0.5 s, doubled each time, at most 30 s.
  static void back_off(int attempt);
  int retries() const { return retries_; }
  bool has_token() const { return !token_.empty(); }

 private:
  struct Transfer;
  enum class Outcome { kDone, kRetry, kRefused };

  HttpReply follow(const HttpGet& request, std::string& problem, Outcome& outcome);
  bool one_hop(const HttpGet& request, const std::string& url, HttpReply& reply, std::string& problem,
               Outcome& outcome);
  void check_redirect(const std::string& from, const std::string& to) const;

  void* curl_;  // CURL*
  std::string origin_;
  std::string token_;
  int retries_;
  bool answered_ = false;  // some server answered before: a failure to connect is then worth a retry
};

// scheme://host:port of a URL, lower case, the port always written. Throws Error unless it is http or https.
std::string url_origin(const std::string& url);
// Percent-encodes all but letters, digits and -._~ ; `keep_slash` leaves '/' as it is.
std::string url_encode(std::string_view text, bool keep_slash);

}  // namespace ingot
