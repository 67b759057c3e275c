#include "cli/load/load_client.h"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "cli/hub/http.h"
#include "cli/interrupt.h"
#include "cli/strings.h"

namespace ingot {
namespace {

constexpr long kConnectSeconds = 30;
constexpr long kKeptConnections = 4096;
constexpr double kLongestRetryAfter = 3600;  // s
constexpr size_t kMaxGetBytes = 16 << 20;

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::string base_of(const std::string& url) {
  std::string base = url.find("://") == std::string::npos ? "http://" + url : url;
  while (base.ends_with('/')) base.pop_back();
  if (base.ends_with("/v1")) base.resize(base.size() - 3);
  try {
    url_origin(base);
  } catch (const Error&) {
    throw Error("[load] '{}' is not an http or https address", url);
  }
  return base;
}

struct LoadClient::Events {
  int epoll = -1;
  std::optional<Clock::time_point> call_at;  // when libcurl wants to be called without a socket being ready

  Events() : epoll(epoll_create1(EPOLL_CLOEXEC)) {}
  ~Events() {
    if (epoll >= 0) ::close(epoll);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  static int on_socket(CURL*, curl_socket_t socket, int what, void* self, void*) {
    const int epoll = static_cast<Events*>(self)->epoll;
    if (what == CURL_POLL_REMOVE) {
      epoll_ctl(epoll, EPOLL_CTL_DEL, socket, nullptr);
      return 0;
    }
    epoll_event event{};
    event.events = (what & CURL_POLL_IN ? unsigned{EPOLLIN} : 0u) | (what & CURL_POLL_OUT ? unsigned{EPOLLOUT} : 0u);
    event.data.fd = socket;
    // A number may come back for another connection after its close has removed it: then it is new.
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event) != 0) epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
    return 0;
  }

  static int on_timer(CURLM*, long ms, void* self) {
    auto& call_at = static_cast<Events*>(self)->call_at;
    call_at.reset();
    if (ms >= 0) call_at = Clock::now() + std::chrono::milliseconds(ms);
    return 0;
  }
};

// One request in flight. Its handle keeps its buffers from one request to the next.
struct LoadClient::Transfer {
  LoadClient* client = nullptr;
  CURL* curl = nullptr;
  std::string body;
  LoadRecord* record = nullptr;
  LoadCancel cancel;
  bool cancelled = false;
  std::optional<AnswerReader> reader;

  ~Transfer() { curl_easy_cleanup(curl); }

  // Called from C: these must not throw. Of the reader only memory can run out, which ends the request.
  static size_t on_body(char* data, size_t, size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    LoadRecord& record = *transfer.record;
    try {
      if (record.status == 0) curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &record.status);
      const int before = record.pieces;
      transfer.reader->feed({data, count}, transfer.client->now());
      transfer.client->pieces_ += record.pieces - before;
    } catch (...) {
      return 0;
    }
    transfer.cancelled = transfer.cancel.pieces > 0 && record.pieces >= transfer.cancel.pieces;
    return transfer.cancelled ? 0 : count;
  }

  static size_t on_header(char* data, size_t, size_t count, void* self) {
    constexpr std::string_view kRetryAfter = "retry-after:";
    const std::string_view line(data, count);
    if (line.size() > kRetryAfter.size() && curl_strnequal(data, kRetryAfter.data(), kRetryAfter.size()) != 0) {
      // A date, which servers of models do not send, reads as 0.
      double& seconds = static_cast<Transfer*>(self)->record->retry_after;
      seconds = std::clamp(std::atof(std::string(line.substr(kRetryAfter.size())).c_str()), 0.0, kLongestRetryAfter);
    }
    return count;
  }
};

LoadClient::LoadClient(LoadTarget target) : target_(std::move(target)), events_(std::make_unique<Events>()) {
  for (const char c : target_.key) {
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      throw Error("[load] the API key holds a character that no key has");
    }
  }
  static const CURLcode kInit = curl_global_init(CURL_GLOBAL_DEFAULT);
  raise_file_limit();
  std::signal(SIGPIPE, SIG_IGN);  // a server may go while a request is written
  const auto add_header = [&](const std::string& line) {
    headers_ = curl_slist_append(static_cast<curl_slist*>(headers_), line.c_str());
  };
  for (const char* line :
       {"Content-Type: application/json", "Accept: text/event-stream, application/json", "Expect:"}) {
    add_header(line);
  }
  if (!target_.key.empty()) add_header("Authorization: Bearer " + target_.key);
  multi_ = kInit == CURLE_OK ? curl_multi_init() : nullptr;
  if (multi_ == nullptr || events_->epoll < 0) throw Error("[load] libcurl cannot be started");
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, Events::on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, events_.get());
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, Events::on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, events_.get());
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kKeptConnections);
}

LoadClient::~LoadClient() {
  for (const auto& transfer : transfers_) {
    if (transfer->record != nullptr) curl_multi_remove_handle(multi_, transfer->curl);
  }
  transfers_.clear();
  curl_multi_cleanup(multi_);
  curl_slist_free_all(static_cast<curl_slist*>(headers_));
}

double LoadClient::now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
void LoadClient::restart_clock() { start_ = Clock::now(); }

LoadClient::Transfer* LoadClient::take_transfer() {
  if (free_.empty()) {
    transfers_.push_back(std::make_unique<Transfer>());
    Transfer* fresh = transfers_.back().get();
    fresh->client = this;
    fresh->curl = curl_easy_init();
    if (fresh->curl == nullptr) throw Error("[load] libcurl cannot be started");
    free_.push_back(fresh);
  }
  Transfer* transfer = free_.back();
  free_.pop_back();
  return transfer;
}

void LoadClient::setup(Transfer& transfer, const std::string& path) {
  CURL* curl = transfer.curl;
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, (target_.base + path).c_str());
  curl_easy_setopt(curl, CURLOPT_PRIVATE, &transfer);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "ingot-bench");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // a proxy of the environment would be measured instead
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, transfer.body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(transfer.body.size()));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Transfer::on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, Transfer::on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  const long limit = transfer.cancel.ms > 0 ? transfer.cancel.ms : std::lround(target_.timeout * 1e3);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, limit);
}

void LoadClient::start(const std::string& path, std::string body, LoadRecord& record, LoadCancel cancel) {
  Transfer& transfer = *take_transfer();
  transfer.body = std::move(body);
  transfer.record = &record;
  transfer.cancel = cancel;
  transfer.cancelled = false;
  transfer.reader.emplace(record);
  setup(transfer, path);
  record.sent = now();
  CHECK(curl_multi_add_handle(multi_, transfer.curl) == CURLM_OK, "{} transfers are open", open_);
  ++open_;
}

void LoadClient::wait(double seconds) {
  if (events_->call_at) {
    seconds = std::min(seconds, std::chrono::duration<double>(*events_->call_at - Clock::now()).count());
  }
  std::array<epoll_event, 256> ready;
  const int ms = static_cast<int>(std::ceil(std::clamp(seconds, 0.0, 3600.0) * 1e3));
  const int n = epoll_wait(events_->epoll, ready.data(), static_cast<int>(ready.size()), ms);
  int running = 0;
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = ready[static_cast<size_t>(i)];
    const int what = (event.events & EPOLLIN ? CURL_CSELECT_IN : 0) | (event.events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                     (event.events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    curl_multi_socket_action(multi_, event.data.fd, what, &running);
  }
  if (events_->call_at && *events_->call_at <= Clock::now()) {
    events_->call_at.reset();
    curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
  }
  collect();
}

void LoadClient::collect() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    CURL* curl = message->easy_handle;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(curl, CURLINFO_PRIVATE, &transfer);
    LoadRecord& record = *transfer->record;
    if (record.status == 0) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &record.status);
    const bool timed_out = code == CURLE_OPERATION_TIMEDOUT;
    transfer->reader->end(now(), code == CURLE_OK ? "" : curl_easy_strerror(code));
    if (transfer->cancelled || (timed_out && transfer->cancel.ms > 0)) {
      record.state = LoadRecord::State::kCancelled;
    } else if (timed_out || (code != CURLE_OK && code != CURLE_COULDNT_CONNECT && record.status == 0)) {
      record.state = LoadRecord::State::kLost;  // it was sent, and nobody said what became of it
    }
    curl_multi_remove_handle(multi_, curl);
    transfer->record = nullptr;
    transfer->reader.reset();
    free_.push_back(transfer);
    --open_;
  }
}

std::string LoadClient::get(const std::string& path) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> owner(curl_easy_init(), curl_easy_cleanup);
  CURL* curl = owner.get();
  if (curl == nullptr) throw Error("[load] libcurl cannot be started");
  std::string body;
  const std::string url = target_.base + path;
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "ingot-bench");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
  const auto keep = [](char* data, size_t, size_t count, void* into) -> size_t {
    auto& text = *static_cast<std::string*>(into);
    if (text.size() + count > kMaxGetBytes) return 0;
    text.append(data, count);
    return count;
  };
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, +keep);
  const CURLcode code = curl_easy_perform(curl);
  throw_if_interrupted();
  if (code != CURLE_OK) throw Error("[load] {}: {}", url, curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200) throw Error("[load] {} answers {}: {}", url, status, error_text(body));
  return body;
}

}  // namespace ingot
