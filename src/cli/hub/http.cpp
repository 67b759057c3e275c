#include "cli/hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/strings.h"

namespace ingot {

namespace {

constexpr int kMaxRedirects = 8;
constexpr long kMaxRetryAfter = 300;          // s; a longer wait is the user's decision
constexpr size_t kMaxHeaderBytes = 64 << 10;  // of one answer
constexpr long kConnectTimeout = 20;          // s
constexpr long kStallTimeout = 30;            // s without a byte

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

void sleep_seconds(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (Clock::now() < end) {
    throw_if_interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool worth_retry(long status) { return status == 408 || status == 429 || (status >= 500 && status <= 599); }

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::string url_part(CURLU* url, CURLUPart part, unsigned flags) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string result = text;
  curl_free(text);
  return result;
}

}  // namespace

std::string HttpReply::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

std::string url_origin(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  const bool good = curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) == CURLUE_OK;
  const std::string scheme = good ? lower_ascii(url_part(parsed.get(), CURLUPART_SCHEME, 0)) : "";
  if (scheme != "http" && scheme != "https") throw Error("[pull] '{}' is not an http or https address", url);
  return fmt::format("{}://{}:{}", scheme, lower_ascii(url_part(parsed.get(), CURLUPART_HOST, 0)),
                     url_part(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string url_encode(std::string_view text, bool keep_slash) {
  std::string result;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || (keep_slash && c == '/');
    if (plain) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

// What the callbacks of one hop share. Callbacks are called from C: they must not throw.
struct HttpClient::Transfer {
  CURL* curl;
  const HttpGet& request;
  const HttpReply& earlier;  // the hop before
  HttpReply reply = {};
  size_t header_bytes = 0;
  bool body_began = false;
  std::exception_ptr failure = nullptr;

  void on_header(std::string_view line) {
    header_bytes += line.size();
    if (header_bytes > kMaxHeaderBytes) throw Error("[pull] {}: the answer's headers are too long", request.url);
    if (line.starts_with("HTTP/")) reply.headers.clear();  // an interim answer came before
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    reply.headers[lower_ascii(trim(line.substr(0, colon)))] = trim(line.substr(colon + 1));
  }

  // The hub names a file's hash in its redirect, not in the answer that has the file. Keeps its own where both have a
  // name.
  void merge_earlier() { reply.headers.insert(earlier.headers.begin(), earlier.headers.end()); }

  void on_body(std::string_view piece) {
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply.status);
    if (request.sink && (reply.status == 200 || reply.status == 206)) {
      if (!body_began) merge_earlier();
      body_began = true;
      request.sink(reply, piece);
      return;
    }
    if (reply.body.size() + piece.size() > request.max_body) {
      throw Error("[pull] {}: the answer is larger than {} bytes", request.url, request.max_body);
    }
    reply.body += piece;
  }

  template <void (Transfer::*kMethod)(std::string_view)>
  static size_t callback(char* data, size_t size, size_t count, void* self) {
    auto* transfer = static_cast<Transfer*>(self);
    try {
      (transfer->*kMethod)(std::string_view(data, size * count));
      return size * count;
    } catch (...) {
      transfer->failure = std::current_exception();
      return 0;
    }
  }

  static int on_progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return interrupted() ? 1 : 0; }
};

HttpClient::HttpClient(const std::string& origin, const std::string& token, int retries)
    : origin_(url_origin(origin)), token_(token), retries_(retries) {
  static const CURLcode kInit = curl_global_init(CURL_GLOBAL_DEFAULT);
  for (char c : token_) {
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      throw Error("[pull] HF_TOKEN holds a character that no token has");
    }
  }
  curl_ = kInit == CURLE_OK ? curl_easy_init() : nullptr;
  if (curl_ == nullptr) throw Error("[pull] libcurl cannot be started");
}

HttpClient::~HttpClient() { curl_easy_cleanup(curl_); }

void HttpClient::back_off(int attempt) {
  sleep_seconds(std::min(30.0, 0.5 * static_cast<double>(1 << std::min(attempt, 8))));
}

void HttpClient::check_redirect(const std::string& from, const std::string& to) const {
  const std::string target = url_origin(to);
  if (url_origin(from).starts_with("https:") && target.starts_with("http:")) {
    throw Error("[pull] {} redirects to {}, which is not encrypted: refused", from, target);
  }
}

// Fills `reply` with the answer of one address. False when there is none: `problem` and `outcome` say why.
bool HttpClient::one_hop(const HttpGet& request, const std::string& url, HttpReply& reply, std::string& problem,
                         Outcome& outcome) {
  CURL* curl = curl_;
  curl_easy_reset(curl);  // keeps the open connections
  Transfer transfer{curl, request, reply};
  curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (!token_.empty() && url_origin(url) == origin_) {
    headers = curl_slist_append(headers, ("Authorization: Bearer " + token_).c_str());
  }
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_owner(headers, curl_slist_free_all);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "ingot");
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");  // libcurl reads files, too
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);           // follow() decides who gets the token
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectTimeout);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallTimeout);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, (Transfer::callback<&Transfer::on_body>));
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, (Transfer::callback<&Transfer::on_header>));
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, Transfer::on_progress);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  if (request.offset > 0) {
    // As a range, not as libcurl's own resume: that one fails on a server that answers with the whole file.
    curl_easy_setopt(curl, CURLOPT_RANGE, fmt::format("{}-", request.offset).c_str());
  }
  const CURLcode code = curl_easy_perform(curl);
  if (transfer.failure) std::rethrow_exception(transfer.failure);
  throw_if_interrupted();
  if (code != CURLE_OK) {
    const bool unreachable = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST;
    const bool hopeless = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
                          code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
    problem = fmt::format("{}: {}", url_origin(url), curl_easy_strerror(code));
    outcome = hopeless || (unreachable && !answered_) ? Outcome::kRefused : Outcome::kRetry;
    if (transfer.body_began) throw Broken{problem};
    return false;
  }
  answered_ = true;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.reply.status);
  transfer.merge_earlier();
  transfer.reply.url = url;
  reply = std::move(transfer.reply);
  return true;
}

// One try of the request with all its redirects.
HttpReply HttpClient::follow(const HttpGet& request, std::string& problem, Outcome& outcome) {
  HttpReply reply;
  std::string url = request.url;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    if (!one_hop(request, url, reply, problem, outcome)) return reply;
    if (!is_redirect(reply.status)) {
      outcome = worth_retry(reply.status) ? Outcome::kRetry : Outcome::kDone;
      problem = fmt::format("{} answers {}", url_origin(url), reply.status);
      return reply;
    }
    const char* target = nullptr;
    curl_easy_getinfo(static_cast<CURL*>(curl_), CURLINFO_REDIRECT_URL, &target);
    if (target == nullptr) throw Error("[pull] {} redirects to nowhere", url);
    const std::string next = target;
    check_redirect(url, next);
    reply.headers.erase("location");
    url = next;
  }
  throw Error("[pull] {} redirects more than {} times", request.url, kMaxRedirects);
}

HttpReply HttpClient::get(const HttpGet& request) {
  for (int attempt = 0;; ++attempt) {
    std::string problem;
    Outcome outcome = Outcome::kDone;
    HttpReply reply = follow(request, problem, outcome);
    if (outcome == Outcome::kDone) return reply;
    if (outcome == Outcome::kRefused) throw Error("[pull] {}", problem);
    if (attempt >= retries_) throw Error("[pull] {}; gave up after {} tries", problem, attempt + 1);
    curl_off_t wait = 0;
    if (reply.status != 0) curl_easy_getinfo(static_cast<CURL*>(curl_), CURLINFO_RETRY_AFTER, &wait);
    if (wait > kMaxRetryAfter) throw Error("[pull] {} and asks to come back in {} s", problem, wait);
    if (wait > 0) {
      sleep_seconds(static_cast<double>(wait));
    } else {
      back_off(attempt);
    }
  }
}

}  // namespace ingot
