#include "serve/tenants/caller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "files/json.h"
#include "serve/log.h"

namespace ingot {

namespace {

const char* end_name(CallEnd end) {
  switch (end) {
    case CallEnd::kComplete:
      return "complete";
    case CallEnd::kCancelled:
      return "cancelled";
    case CallEnd::kTimeout:
      return "timeout";
    case CallEnd::kRevoked:
      return "revoked";
    case CallEnd::kError:
      break;
  }
  return "error";
}

int64_t nanoseconds(Caller::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

ApiError no_usage_log() {
  ApiError error = server_busy("what is used cannot be written down now");
  error.code = "usage_log";
  return error;
}

// Whoever waits for it is told by what goes with it.
template <class F>
void call_anyway(const F& body) noexcept {
  try {
    body();
  } catch (...) {
    // There is no memory to go on with.
  }
}

}  // namespace

Caller::Caller(std::shared_ptr<const ApiKey> key, CallFacts facts)
    : key_(std::move(key)), rights_(key_->tenant->rights()), facts_(std::move(facts)) {
  if (facts_.timeout_seconds > 0) set_timeout(facts_.timeout_seconds);
}

Caller::~Caller() { settle(CallEnd::kError, 0); }  // or as it was abandoned

std::optional<ApiError> Caller::enter() {
  if (facts_.usage_log && facts_.usage_log->required() && !facts_.usage_log->ready()) return no_usage_log();
  if (std::optional<ApiError> refused = key_->tenant->enter()) return refused;
  const std::lock_guard lock(mutex_);
  entered_ = true;
  return std::nullopt;
}

void Caller::check_context(size_t tokens, const std::string& param) const {
  if (rights_->context == 0 || tokens <= static_cast<size_t>(rights_->context)) return;
  throw ApiError{.status = 400,
                 .message = fmt::format("{} has {} tokens, the context of this key is {} for the prompt and the answer",
                                        param, tokens, rights_->context),
                 .param = param,
                 .code = "context_length_exceeded"};
}

void Caller::apply(Request& request) {
  if (has_deadline()) {
    request.deadline_seconds = seconds_left();
    if (request.deadline_seconds <= 0) {
      will_end(CallEnd::kTimeout);
      throw timeout_error();
    }
  }
  request.tenant = tenant();
  request.weight = rights_->weight;
  request.priority = std::min(request.priority, rights_->priority);
  if (rights_->context == 0) return;
  const int room = std::max(0, rights_->context - static_cast<int>(request.prompt.size()));
  if (request.max_tokens < 0 || request.max_tokens > room) request.max_tokens = room;
}

void Caller::take_text(int64_t tokens) {
  text_ += tokens;
  key_->tenant->charge(tokens);
}

void Caller::take_prompt(int64_t tokens) {
  prompt_ += tokens;
  key_->tenant->use().prompt_tokens.fetch_add(tokens, std::memory_order_relaxed);
  int64_t text = text_, paid = 0;
  do {
    paid = std::min(text, tokens);
  } while (!text_.compare_exchange_weak(text, text - paid));
  if (tokens > paid) key_->tenant->charge(tokens - paid);  // of prompts that came as ids
}

void Caller::take_cached(int64_t tokens) {
  cached_ += tokens;
  key_->tenant->use().cached_tokens.fetch_add(tokens, std::memory_order_relaxed);
}

void Caller::take_token() {
  ++made_;
  key_->tenant->use().completion_tokens.fetch_add(1, std::memory_order_relaxed);
  key_->tenant->charge(1);
}

void Caller::take_tokenized(int64_t tokens) {
  tokenized_ += tokens;
  key_->tenant->use().tokenizer_tokens.fetch_add(tokens, std::memory_order_relaxed);
  key_->tenant->charge(tokens);
}

void Caller::set_timeout(double seconds) {
  const auto time = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const int64_t asked = nanoseconds(facts_.received + time);
  int64_t now = deadline_;
  while ((now == 0 || asked < now) && !deadline_.compare_exchange_weak(now, asked)) {
  }
  if (facts_.on_deadline) facts_.on_deadline();
}

double Caller::seconds_left() const { return static_cast<double>(deadline_ - nanoseconds(Clock::now())) * 1e-9; }

ApiError Caller::timeout_error() const {
  const double seconds = static_cast<double>(deadline_ - nanoseconds(facts_.received)) * 1e-9;
  return {.status = 504,
          .message = fmt::format("the request was not finished within its {:.6g} s", std::round(seconds * 1e3) / 1e3),
          .code = "timeout",
          .type = "server_error",
          .no_retry = true};
}

void Caller::will_end(CallEnd end) {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = end;
}

bool Caller::end_early(CallEnd end, int status) {
  const std::lock_guard lock(mutex_);
  if (settled_) return false;
  if (!end_) end_ = end;
  if (!abandoned_) abandoned_ = Ending{.end = end, .status = status};
  return true;
}

bool Caller::ended_early() const {
  const std::lock_guard lock(mutex_);
  return end_.has_value();
}

bool Caller::timed_out() const {
  const std::lock_guard lock(mutex_);
  return end_ == CallEnd::kTimeout;
}

bool Caller::take_up() {
  const std::lock_guard lock(mutex_);
  taken_up_ = true;
  return !abandoned_;
}

void Caller::settle(CallEnd end, int status, std::function<void()> last) noexcept {
  UsageLog::Done done;
  try {
    if (last) done = [last](bool) { last(); };
  } catch (...) {
    call_anyway(last);  // no memory to wait with
  }
  settle({.end = end, .status = status}, std::move(done));
}

bool Caller::abandon(CallEnd end, int status, std::function<void()> last) {
  UsageLog::Done done;
  if (last) done = [last = std::move(last)](bool) { last(); };
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    if (!abandoned_) abandoned_ = Ending{.end = end, .status = status};
    waits = done && taken_up_ && logs();
  }
  if (waits) {
    told_->wait(std::move(done));
  } else if (done) {
    call_anyway([&] { done(true); });
  }
  return waits;
}

void Caller::tell_now() noexcept {
  std::string text;
  bool written = true;
  try {
    const std::lock_guard lock(mutex_);
    if (counted_ || !abandoned_) return;
    counted_ = has_cost();  // what has cost nothing yet may still get its line
    if (counted_) text = count(*abandoned_);
  } catch (...) {
    written = false;
  }
  hand_on(std::move(text), written, 0);
}

void Caller::settle(Ending ending, UsageLog::Done done, size_t bytes) noexcept {
  std::string text;
  bool written = true, tells = false;
  try {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(settled_, true)) {
      if (std::exchange(entered_, false)) key_->tenant->leave();
      if (abandoned_) ending = *abandoned_;
      const int64_t refused = text_.exchange(0);  // cut, and then not the engine's
      tokenized_ += refused;
      key_->tenant->use().tokenizer_tokens.fetch_add(refused, std::memory_order_relaxed);
      tells = !std::exchange(counted_, true);
      if (tells) text = count(ending);
    }
  } catch (...) {
    written = false;  // no memory for the line
  }
  told_->wait(std::move(done));
  if (tells) hand_on(std::move(text), written, bytes);
}

std::string Caller::count(Ending ending) {
  ending.end = end_.value_or(ending.end);
  UsageCounters& use = key_->tenant->use();
  if (ending.end == CallEnd::kTimeout) use.timeouts.fetch_add(1, std::memory_order_relaxed);
  if (ending.end == CallEnd::kCancelled) use.cancelled.fetch_add(1, std::memory_order_relaxed);
  if (!has_cost()) return {};  // what cost nothing must not fill a file
  use.requests.fetch_add(1, std::memory_order_relaxed);
  return logs() ? line(ending) : std::string();
}

// Outside the lock, to another thread: nobody who ends a request waits for a disk.
void Caller::hand_on(std::string text, bool written, size_t bytes) noexcept {
  try {
    if (!text.empty()) {
      UsageLog::Done tell = [told = told_](bool done) { told->tell(done); };
      return facts_.usage_log->write(std::move(text), std::move(tell), bytes);
    }
  } catch (...) {
    written = false;
  }
  told_->tell(written);
}

void Caller::Told::wait(UsageLog::Done done) noexcept {
  if (!done) return;
  bool written = false;
  try {
    const std::lock_guard lock(mutex_);
    if (!told_) return waiting_.push_back(std::move(done));
    written = written_;
  } catch (...) {
    // No memory to wait with.
  }
  call_anyway([&] { done(written); });
}

void Caller::Told::tell(bool written) noexcept {
  std::vector<UsageLog::Done> waiting;
  {
    const std::lock_guard lock(mutex_);
    told_ = true;
    written_ = written;
    waiting.swap(waiting_);
  }
  for (const UsageLog::Done& done : waiting) call_anyway([&] { done(written); });
}

void Caller::complete(std::function<void(const std::optional<ApiError>& refused)> then, size_t bytes) {
  const bool required = facts_.usage_log && facts_.usage_log->required();
  const auto told = [then = std::move(then), required](bool written) {
    then(written || !required ? std::nullopt : std::optional(no_usage_log()));
  };
  settle({.end = CallEnd::kComplete, .status = 200}, told, bytes);
}

std::string Caller::line(Ending ending) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - facts_.received).count();
  JsonObject json{{"time", log_time()},
                  {"id", facts_.id},
                  {"tenant", tenant()},
                  {"route", facts_.route},
                  {"model", facts_.model},
                  {"status", ending.status},
                  {"end", end_name(ending.end)},
                  {"prompt_tokens", prompt_.load()},
                  {"cached_tokens", cached_.load()},
                  {"completion_tokens", made_.load()},
                  {"ms", std::round(seconds * 1e4) / 10}};
  if (tokenized_ > 0) json["tokenizer_tokens"] = tokenized_.load();
  return to_json(json);
}

std::shared_ptr<Caller> caller_of(const HttpHead& head) {
  if (head.caller) return head.caller;
  static const Keys nobody;
  return std::make_shared<Caller>(nobody.nobody(), CallFacts{});
}

}  // namespace ingot
