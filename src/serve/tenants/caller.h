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
#include <vector>

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
  // A handler begins to work on it. False: it was abandoned before, and nothing is to be done for it.
  bool take_up();
  // Its work has ended in this way: gives the place back and has its line of usage written; the first call counts. Each
  // call's `last`, which sends the end of the answer, is called once that line is written: by the usage log's thread,
  // or at once where nothing is to be waited for. What it throws is swallowed.
  void settle(CallEnd end, int status, std::function<void()> last = {}) noexcept;
  // Nobody waits for it any more, and whoever works on it may not know yet: the same as settle(), once all of these
  // have let go of it. So what is left behind keeps its place, and is paid. `last` waits for them only where a line is
  // to be written and somebody has taken it up. True: it does.
  bool abandon(CallEnd end, int status, std::function<void()> last = {});
  // They take too long: the line of what was abandoned is written with what it has cost until now. It keeps its place.
  void tell_now() noexcept;
  // The answer is about to be sent: settles, and calls `then` as settle() calls `last`; with a 503 where the line must
  // be written and cannot. `bytes`: of the answer, which waits meanwhile.
  void complete(std::function<void(const std::optional<ApiError>& refused)> then, size_t bytes = 0);

 private:
  struct Ending {
    CallEnd end = CallEnd::kError;
    int status = 0;
  };
  // Who waits for the line of usage. The log may be at it when the caller has gone.
  class Told {
   public:
    void wait(UsageLog::Done done) noexcept;  // calls it then, at once where that has been
    void tell(bool written) noexcept;

   private:
    std::mutex mutex_;
    bool told_ = false, written_ = true;
    std::vector<UsageLog::Done> waiting_;
  };
  bool logs() const { return facts_.usage_log && facts_.usage_log->on(); }
  bool has_cost() const { return prompt_ > 0 || tokenized_ > 0; }
  void settle(Ending ending, UsageLog::Done done, size_t bytes = 0) noexcept;
  // With mutex_ held. The line; empty: there is none to be written.
  std::string count(Ending ending);
  void hand_on(std::string text, bool written, size_t bytes) noexcept;
  std::string line(Ending ending) const;

  const std::shared_ptr<const ApiKey> key_;
  const std::shared_ptr<const TenantRights> rights_;
  const CallFacts facts_;
  std::atomic<int64_t> deadline_{0};  // of the clock, in nanoseconds; 0: none
  std::atomic<int64_t> prompt_{0}, cached_{0}, made_{0}, tokenized_{0};
  std::atomic<int64_t> text_{0};  // cut for a prompt that is not the engine's yet
  std::atomic<bool> begun_{false};
  const std::shared_ptr<Told> told_ = std::make_shared<Told>();
  mutable std::mutex mutex_;  // guards all below
  bool entered_ = false, taken_up_ = false, settled_ = false;
  bool counted_ = false;  // and its line is the log's
  std::optional<CallEnd> end_;
  std::optional<Ending> abandoned_;
};

// That of the request; of nobody where it has none.
std::shared_ptr<Caller> caller_of(const HttpHead& head);

}  // namespace ingot
