// One request while it is worked on: who asks, what it may have, until when, and what it has cost.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/request.h"
#include "serve/tenants/keys.h"
#include "serve/tenants/usage_log.h"

namespace ingot {

// How a request that was worked on ended, as the usage log has it.
enum class CallEnd : uint8_t {
  kComplete,
  kCancelled,  // the client left
  kTimeout,    // its deadline passed
  kRevoked,    // its key was removed before it began
  kError,
};

// What the server knows of a request before a handler does.
struct CallFacts {
  std::string id = {};
  std::string route = {};
  std::string model = {};
  std::chrono::steady_clock::time_point received = std::chrono::steady_clock::now();
  double timeout_seconds = 0;              // from `received` on; 0: none
  UsageLog* usage_log = nullptr;           // outlives it
  std::function<void()> on_deadline = {};  // called whenever a deadline is set
};

// Any thread.
class Caller {
 public:
  using Clock = std::chrono::steady_clock;

  Caller(std::shared_ptr<const ApiKey> key, CallFacts facts);
  // Gives the place back, and tells the usage log of what nobody has settled.
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  const std::string& tenant() const { return key_->tenant->name(); }
  // As they were when it came.
  const TenantRights& rights() const { return *rights_; }
  // How the limits of its tenant stand.
  HttpHeaders limit_headers() const { return key_->tenant->limit_headers(); }

  // Takes a place of its tenant; a refusal (429, or 503 where its usage could not be written down) takes none.
  std::optional<ApiError> enter();

  // Throws ApiError 400 where the tenant's context has no place for so many tokens. `param` is the prompt's field.
  void check_context(size_t tokens, const std::string& param) const;
  // Sets what a request to the engine has of its tenant: the name, which pages are shared under, the weight, a priority
  // that is no more than the tenant's, an answer within its context, the time that is left. Throws ApiError 504 where
  // none is.
  void apply(Request& request);

  // What it costs, as it becomes known: each counts against the tenant's tokens of the minute at once.
  void take_text(int64_t tokens);       // a prompt's text was cut into so many; tokenizer's alone if it is refused then
  void take_prompt(int64_t tokens);     // the engine has accepted it: those of take_text() are paid
  void take_cached(int64_t tokens);     // of the prompt, found in the cache
  void take_token();                    // of the answer
  void take_tokenized(int64_t tokens);  // computed by the tokenizer alone, or by the compiler of grammars
  // The 429 of a tenant that has used its tokens since the request came.
  std::optional<ApiError> spent() const { return key_->tenant->spent(); }

  // The client's own limit, from its request on; the smaller one counts.
  void set_timeout(double seconds);
  bool has_deadline() const { return deadline_ != 0; }
  // Seconds that are left; below nothing: it is over. REQUIRES: has_deadline().
  double seconds_left() const;
  // The 504 of a deadline that passed.
  ApiError timeout_error() const;

  // The engine works on it: a key that is removed now no longer ends it.
  void begin() { begun_ = true; }
  bool begun() const { return begun_; }
  bool revoked() const { return key_->revoked; }

  // Its handler is about to end it in this way, whatever is said later.
  void will_end(CallEnd end);
  // It is ended over its handler's head, with this status: as will_end() and abandon(). False: it has been settled, and
  // told so; its answer is on the way.
  bool end_early(CallEnd end, int status);
  bool ended_early() const;  // either was called
  bool timed_out() const;    // with kTimeout
  // Its work has ended in this way: gives the place back and has its line of usage written; the first call counts.
  void settle(CallEnd end, int status) noexcept;
  // Nobody waits for it any more, and whoever works on it may not know yet: the same as settle(), once all of these
  // have let go of it. So what is left behind keeps its place, and is paid.
  void abandon(CallEnd end, int status);
  // The answer is about to be sent: settles, and calls `then` once the line is written; with a 503 where it must be and
  // cannot. By the usage log's thread, or at once where nothing is to be waited for. `bytes`: of the answer, which
  // waits meanwhile.
  void complete(std::function<void(const std::optional<ApiError>& refused)> then, size_t bytes = 0);

 private:
  struct Ending {
    CallEnd end = CallEnd::kError;
    int status = 0;
  };
  void settle(Ending ending, UsageLog::Done done, size_t bytes = 0) noexcept;
  std::string line(Ending ending) const;

  const std::shared_ptr<const ApiKey> key_;
  const std::shared_ptr<const TenantRights> rights_;
  const CallFacts facts_;
  std::atomic<int64_t> deadline_{0};  // of the clock, in nanoseconds; 0: none
  std::atomic<int64_t> prompt_{0}, cached_{0}, made_{0}, tokenized_{0};
  std::atomic<int64_t> text_{0};  // cut for a prompt that is not the engine's yet
  std::atomic<bool> begun_{false};
  mutable std::mutex mutex_;  // guards all below
  bool entered_ = false, settled_ = false;
  std::optional<CallEnd> end_;
  std::optional<Ending> abandoned_;
};

// That of the request; of nobody where it has none.
std::shared_ptr<Caller> caller_of(const HttpHead& head);

}  // namespace ingot
