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

// No memory to hand an answer on: the connection's end is one.
void cut_off(Responder& responder) noexcept {
  try {
    responder.abort();
  } catch (...) {
    // The connection's own deadlines end it.
  }
}

}  // namespace

TrackedResponder::TrackedResponder(std::shared_ptr<Responder> inner, ApiStyle style, HttpHeaders headers,
                                   std::function<void(Ended&)> on_end)
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

// It may outlive this one, and keeps nothing of it but the way to the client. Made before the answer has ended: it may
// find no memory.
template <class F>
std::function<void()> TrackedResponder::last_by(F body) const {
  return [inner = inner_, body = std::move(body)] {
    try {
      body(*inner);
    } catch (...) {
      cut_off(*inner);
    }
  };
}

void TrackedResponder::watch() {
  inner_->on_close([self = weak_from_this()] {
    if (const std::shared_ptr<TrackedResponder> alive = self.lock()) alive->client_gone();
  });
}

void TrackedResponder::send(HttpResponse response) {
  response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  const int status = response.status;
  const auto held = std::make_shared<HttpResponse>(std::move(response));
  std::function<void()> last = last_by([held](Responder& to) { to.send(std::move(*held)); });
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kWaiting) return;
    state_ = State::kEnded;
    status_ = status;
  }
  report(false, std::move(last));
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
  std::function<void()> last = last_by([](Responder& to) { to.finish(); });
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kStarted) return;
    state_ = State::kEnded;
  }
  report(false, std::move(last));
}

void TrackedResponder::abort() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    state_ = State::kEnded;
  }
  std::function<void()> last;
  try {
    last = last_by([](Responder& to) { to.abort(); });
  } catch (...) {
    cut_off(*inner_);
  }
  report(false, std::move(last));
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
  report(true, {});
}

void TrackedResponder::end_with(const ApiError& error, const std::function<bool(int status)>& may) {
  struct End {
    HttpResponse whole;
    State before = State::kEnded;
    bool events = false;
    int64_t n_events = 0;
  };
  const auto end = std::make_shared<End>();
  end->whole = error_response(error, style_);
  end->whole.close = true;
  std::function<void()> last = last_by([end, error, style = style_](Responder& to) {
    if (end->before == State::kWaiting) return to.send(std::move(end->whole));
    if (!end->events) return to.abort();
    to.write(error_event(error, style, end->n_events));
    to.finish();
  });
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    if (may && !may(state_ == State::kWaiting ? error.status : status_)) return;
    end->whole.headers.insert(end->whole.headers.end(), headers_.begin(), headers_.end());
    end->events = events_;
    end->n_events = n_events_;
    end->before = std::exchange(state_, State::kEnded);
    if (end->before == State::kWaiting) status_ = error.status;
    gone_ = true;
    callbacks.swap(on_close_);
  }
  call_all(callbacks);
  report(false, std::move(last));
}

void TrackedResponder::add_headers(HttpHeaders headers) {
  const std::lock_guard lock(mutex_);  // another thread may end the request meanwhile
  std::ranges::move(headers, std::back_inserter(headers_));
}

// First what is counted, then `last`: a client that has its answer may ask at once for that, and use its key's place
// again.
void TrackedResponder::report(bool gone, std::function<void()> last) noexcept {
  std::function<void(Ended&)> on_end;
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
  ended.last = std::move(last);
  try {
    if (on_end) on_end(ended);
  } catch (...) {
    // A line of the log is missing.
  }
  if (ended.last) ended.last();
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
