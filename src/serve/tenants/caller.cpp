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

}  // namespace

Caller::Caller(std::shared_ptr<const ApiKey> key, CallFacts facts)
    : key_(std::move(key)), rights_(key_->tenant->rights()), facts_(std::move(facts)) {
  if (facts_.timeout_seconds > 0) set_timeout(facts_.timeout_seconds);
}

Caller::~Caller() { settle(CallEnd::kError, 0); }

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

void Caller::take_prompt(int64_t tokens) {
  prompt_ += tokens;
  key_->tenant->use().prompt_tokens.fetch_add(tokens, std::memory_order_relaxed);
  key_->tenant->charge(tokens);
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

bool Caller::ended_early() const {
  const std::lock_guard lock(mutex_);
  return end_.has_value();
}

bool Caller::timed_out() const {
  const std::lock_guard lock(mutex_);
  return end_ == CallEnd::kTimeout;
}

bool Caller::settle(CallEnd end, int status) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(settled_, true)) return written_;
  if (std::exchange(entered_, false)) key_->tenant->leave();
  end = end_.value_or(end);
  UsageCounters& use = key_->tenant->use();
  if (end == CallEnd::kTimeout) use.timeouts.fetch_add(1, std::memory_order_relaxed);
  if (end == CallEnd::kCancelled) use.cancelled.fetch_add(1, std::memory_order_relaxed);
  if (prompt_ == 0 && tokenized_ == 0) return true;  // a refusal costs nothing, and must not fill a file
  use.requests.fetch_add(1, std::memory_order_relaxed);
  if (!facts_.usage_log || !facts_.usage_log->on()) return true;
  try {
    written_ = facts_.usage_log->write(line(end, status));
  } catch (...) {
    written_ = false;  // no memory for the line
  }
  return written_;
}

void Caller::complete() {
  if (settle(CallEnd::kComplete, 200) || !facts_.usage_log->required()) return;
  throw no_usage_log();
}

std::string Caller::line(CallEnd end, int status) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - facts_.received).count();
  JsonObject json{{"time", log_time()},
                  {"id", facts_.id},
                  {"tenant", tenant()},
                  {"route", facts_.route},
                  {"model", facts_.model},
                  {"status", status},
                  {"end", end_name(end)},
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
