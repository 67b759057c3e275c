// A Responder as handlers get it: it passes everything on and knows how its request stands, so that an answer is
// counted and logged once, limits are given back, and an answer that outlasts the server can be ended.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/seeded_hash.h"
#include "serve/api/api_error.h"
#include "serve/http/http.h"
#include "serve/tenants/caller.h"

namespace ingot {

// How a request ended.
struct Ended {
  const class TrackedResponder* responder = nullptr;
  int status = 0;                   // 0: no answer was begun
  double seconds = 0;               // since it was read
  bool gone = false;                // the client left first
  bool early = false;               // it did not end by what its handler gave
  std::function<void()> last = {};  // sends the end of the answer; none: there is nobody to send it to
};

class TrackedResponder : public Responder, public std::enable_shared_from_this<TrackedResponder> {
 public:
  // `on_end` is called once, when the answer is complete or the client gone, by whichever thread makes it so. It may
  // take `last` away, to call it later; what it leaves is called when it returns.
  TrackedResponder(std::shared_ptr<Responder> inner, ApiStyle style, HttpHeaders headers,
                   std::function<void(Ended&)> on_end);
  // An answer that nobody gave becomes a 500.
  ~TrackedResponder() override;
  // Must follow construction: learns from now on when the client goes.
  void watch();

  void send(HttpResponse response) override;
  void start(HttpResponse head) override;
  void write(std::string bytes) override;
  void finish() override;
  void abort() override;
  bool closed() const override;
  size_t unsent() const override { return inner_->unsent(); }
  void on_close(std::function<void()> callback) override;

  // Ends the answer with this error, as an event where a stream has begun; then on_close's callbacks run, and the
  // handler's further calls do nothing. `may`: asked, with the status that the client sees, where it is not too late;
  // false leaves it to its handler.
  void end_with(const ApiError& error, const std::function<bool(int status)>& may = {});
  // Headers of every answer from now on, besides those given first. Before a handler has it.
  void add_headers(HttpHeaders headers);
  // The same, or the end of the connection where there is no memory for an answer.
  void fail(ApiError (*make)()) noexcept;

 private:
  enum class State { kWaiting, kStarted, kEnded };
  void client_gone();
  void count(std::string_view bytes);
  template <class F>
  std::function<void()> last_by(F body) const;
  void report(bool gone, std::function<void()> last) noexcept;

  const std::shared_ptr<Responder> inner_;
  const ApiStyle style_;
  HttpHeaders headers_;  // added to every answer
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();

  // What begins and continues an answer is passed on under the lock, so that nothing is written behind an end.
  mutable std::mutex mutex_;
  std::function<void(Ended&)> on_end_;
  State state_ = State::kWaiting;
  bool gone_ = false;     // ended by others than the handler
  bool events_ = false;   // the answer is a stream of events
  int64_t n_events_ = 0;  // of them, where the API numbers them
  int status_ = 0;
  std::vector<std::function<void()>> on_close_;
};

// The requests in flight. Any thread.
class InFlight {
 public:
  void add(const std::shared_ptr<TrackedResponder>& responder, bool generates, std::shared_ptr<Caller> caller);
  void remove(const TrackedResponder* responder);
  // Those that use the engine.
  int64_t generating() const;
  // Of them, those of this tenant.
  int64_t generating(const std::string& tenant) const;
  int64_t all() const;
  // Those whose use is not settled: their answers are whole, and on the way.
  void end_all(const ApiError& error);
  struct Verdict {
    ApiError error;
    CallEnd end = CallEnd::kError;
  };
  // Ends each request of them that `judge` has a verdict for.
  void end_where(const std::function<std::optional<Verdict>(const Caller&)>& judge);
  // Whether one of them has a deadline.
  bool has_deadline() const;

 private:
  struct Entry {
    std::weak_ptr<TrackedResponder> responder;
    bool generates = false;
    std::shared_ptr<Caller> caller;
  };
  mutable std::mutex mutex_;
  std::unordered_map<const TrackedResponder*, Entry> entries_;
  int64_t generating_ = 0;
  SeededMap<int64_t> generating_of_;  // by tenant; none is 0
};

}  // namespace ingot
