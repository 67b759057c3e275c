#include "serve/answer/tracked_responder.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace ingot {
namespace {

// One that fails for want of memory does not keep the others, nor the end, from being told.
void call_all(const std::vector<std::function<void()>>& callbacks) {
  for (const std::function<void()>& callback : callbacks) {
    try {
      callback();
    } catch (...) {
      // Its handler goes on, and finds that nobody reads.
    }
  }
}

}  // namespace

TrackedResponder::TrackedResponder(std::shared_ptr<Responder> inner, ApiStyle style, HttpHeaders headers,
                                   std::function<void(const Ended&)> on_end)
    : inner_(std::move(inner)), style_(style), headers_(std::move(headers)), on_end_(std::move(on_end)) {}

TrackedResponder::~TrackedResponder() { fail(internal_error); }

void TrackedResponder::fail(ApiError (*make)()) noexcept {
  try {
    return end_with(make());
  } catch (...) {
    // No memory for an answer: the connection's end is one.
  }
  abort();
}

// No memory to hand an answer on: the connection's end is one.
template <class F>
void TrackedResponder::hand_on(F&& body) {
  try {
    body();
  } catch (...) {
    cut();
  }
}

void TrackedResponder::cut() noexcept {
  try {
    inner_->abort();
  } catch (...) {
    // The connection's own deadlines end it.
  }
}

void TrackedResponder::watch() {
  inner_->on_close([self = weak_from_this()] {
    if (const std::shared_ptr<TrackedResponder> alive = self.lock()) alive->client_gone();
  });
}

void TrackedResponder::send(HttpResponse response) {
  response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kWaiting) return;
    state_ = State::kEnded;
    status_ = response.status;
  }
  // First: a client that has its answer may ask at once what was counted, and use its key's place again.
  report(false);
  hand_on([&] { inner_->send(std::move(response)); });
}

void TrackedResponder::start(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kWaiting) return;
  const int status = head.status;
  const std::string_view type = head.content_type;
  const bool events = type.starts_with("text/event-stream") || type.starts_with("application/x-ndjson");
  head.headers.insert(head.headers.end(), headers_.begin(), headers_.end());
  count(head.body);
  inner_->start(std::move(head));
  state_ = State::kStarted;
  status_ = status;
  events_ = events;
}

void TrackedResponder::write(std::string bytes) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStarted) return;
  count(bytes);
  inner_->write(std::move(bytes));
}

// An empty line ends each event, and no event has one inside.
void TrackedResponder::count(std::string_view bytes) {
  if (style_ != ApiStyle::kResponses) return;
  for (size_t at = bytes.find("\n\n"); at != std::string_view::npos; at = bytes.find("\n\n", at + 2)) ++n_events_;
}

void TrackedResponder::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kStarted) return;
    state_ = State::kEnded;
  }
  report(false);
  hand_on([&] { inner_->finish(); });
}

void TrackedResponder::abort() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    state_ = State::kEnded;
  }
  report(false);
  cut();
}

bool TrackedResponder::closed() const {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return true;
  }
  return inner_->closed();
}

void TrackedResponder::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kEnded) {
      on_close_.push_back(std::move(callback));
      return;
    }
    if (!gone_) return;
  }
  callback();
}

void TrackedResponder::client_gone() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    state_ = State::kEnded;
    gone_ = true;
    callbacks.swap(on_close_);
  }
  call_all(callbacks);
  report(true);
}

void TrackedResponder::end_with(const ApiError& error, const std::function<bool(int status)>& may) {
  std::vector<std::function<void()>> callbacks;
  HttpHeaders headers;
  State before = State::kEnded;
  int64_t n_events = 0;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    if (may && !may(state_ == State::kWaiting ? error.status : status_)) return;
    headers = headers_;
    n_events = n_events_;
    before = std::exchange(state_, State::kEnded);
    if (before == State::kWaiting) status_ = error.status;
    gone_ = true;
    callbacks.swap(on_close_);
  }
  call_all(callbacks);
  report(false);  // first, as in send()
  hand_on([&] {
    if (before == State::kWaiting) {
      HttpResponse response = error_response(error, style_);
      response.close = true;
      response.headers.insert(response.headers.end(), headers.begin(), headers.end());
      inner_->send(std::move(response));
    } else if (events_) {
      inner_->write(error_event(error, style_, n_events));
      inner_->finish();
    } else {
      inner_->abort();
    }
  });
}

void TrackedResponder::add_headers(HttpHeaders headers) {
  const std::lock_guard lock(mutex_);  // another thread may end the request meanwhile
  std::ranges::move(headers, std::back_inserter(headers_));
}

void TrackedResponder::report(bool gone) noexcept {
  std::function<void(const Ended&)> on_end;
  std::vector<std::function<void()>> dropped;  // what they hold may call back when it goes: not under the lock
  Ended ended{.responder = this, .gone = gone};
  {
    const std::lock_guard lock(mutex_);
    on_end = std::exchange(on_end_, nullptr);
    dropped.swap(on_close_);
    ended.status = status_;
    ended.early = gone_;
  }
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  try {
    if (on_end) on_end(ended);
  } catch (...) {
    // A line of the log is missing.
  }
}

void InFlight::add(const std::shared_ptr<TrackedResponder>& responder, bool generates, std::shared_ptr<Caller> caller) {
  const std::lock_guard lock(mutex_);
  const std::string tenant = caller->tenant();
  // Counted last: what cannot be kept, for want of memory, is never removed.
  entries_[responder.get()] = {.responder = responder, .generates = generates, .caller = std::move(caller)};
  if (!generates) return;
  try {
    ++generating_of_[tenant];
  } catch (...) {
    entries_.erase(responder.get());
    throw;
  }
  ++generating_;
}

void InFlight::remove(const TrackedResponder* responder) {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(responder);
  if (at == entries_.end()) return;
  if (at->second.generates) {
    --generating_;
    const auto tenant = generating_of_.find(at->second.caller->tenant());
    if (--tenant->second == 0) generating_of_.erase(tenant);
  }
  entries_.erase(at);
}

int64_t InFlight::generating(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  const auto at = generating_of_.find(tenant);
  return at == generating_of_.end() ? 0 : at->second;
}

int64_t InFlight::generating() const {
  const std::lock_guard lock(mutex_);
  return generating_;
}

int64_t InFlight::all() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

void InFlight::end_all(const ApiError& error) {
  end_where([&](const Caller&) { return Verdict{.error = error}; });
}

void InFlight::end_where(const std::function<std::optional<Verdict>(const Caller&)>& judge) {
  struct Judged {
    std::shared_ptr<TrackedResponder> responder;
    std::shared_ptr<Caller> caller;
    Verdict verdict;
  };
  std::vector<Judged> ended;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      std::optional<Verdict> verdict = judge(*entry.caller);
      if (!verdict) continue;
      if (std::shared_ptr<TrackedResponder> alive = entry.responder.lock()) {
        ended.push_back({std::move(alive), entry.caller, std::move(*verdict)});
      }
    }
  }
  for (const Judged& one : ended) {
    const auto may = [&](int status) { return one.caller->end_early(one.verdict.end, status); };
    one.responder->end_with(one.verdict.error, may);
  }
}

bool InFlight::has_deadline() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_, [](const auto& entry) { return entry.second.caller->has_deadline(); });
}

}  // namespace ingot
