// What the server does for and with tenants: their rights, their room, their keys and the time of their requests.
#include <exception>

#include "serve/routes.h"
#include "serve/server.h"

namespace ingot {

std::optional<ApiError> Server::without_right(const Route& route, const TenantRights& rights) const {
  if (route.access == Access::kOpen) return std::nullopt;
  if (!rights.may_call(route.path)) return not_allowed("this key may not call this route");
  if (!route.computes() || may_use(rights, context_->model)) return std::nullopt;
  return ApiError{.status = 404, .message = "this key may not use this model", .code = "model_not_found"};
}

// A tenant alone may fill the queue; beside others each has as much as is left free, so that whoever comes next finds
// room: of n that would take everything each gets 1 / (n + 1) of twice the queue. What the engine then lets wait, and
// by which weights, it decides itself.
bool Server::queue_full(const std::string& tenant) const {
  return in_flight_.generating(tenant) >= int64_t{2} * options_.max_in_flight - in_flight_.generating();
}

std::shared_ptr<Caller> Server::make_caller(const Route& route, HttpHead& head, std::shared_ptr<const ApiKey> key) {
  CallFacts facts{.id = head.id,
                  .route = route.path,
                  .model = context_->model.name,
                  .received = head.received,
                  .timeout_seconds = route.computes() ? options_.request_seconds : 0,
                  .usage_log = &usage_log_,
                  .on_deadline = [this] { watch_deadlines(); }};
  head.tenant = key->tenant->name();
  head.caller = std::make_shared<Caller>(std::move(key), std::move(facts));
  return head.caller;
}

// The end of the answer goes out once its line of usage is written.
void Server::end_call(const std::shared_ptr<Caller>& caller, Ended& ended) {
  // For those who work on what was ended over their heads to notice: a worker between two pieces of a text, the engine
  // after a step. One that does not must not keep the client from what it was promised.
  constexpr double kLetGo = 1;  // seconds
  const bool ok = ended.status != 0 && ended.status < 400;
  const CallEnd end = ended.gone ? CallEnd::kCancelled : ok ? CallEnd::kComplete : CallEnd::kError;
  bool waits = false;
  if (ended.early) {
    waits = caller->abandon(end, ended.status, ended.last);
  } else {
    caller->settle(end, ended.status, ended.last);
  }
  ended.last = nullptr;  // taken, now that nothing has thrown
  const auto tell = [left = std::weak_ptr(caller)] {
    if (const std::shared_ptr<Caller> still = left.lock()) still->tell_now();
  };
  if (waits) http_.post(tell, kLetGo);
}

void Server::watch_keys() {
  const auto look = [this] {
    watch_keys();                                         // first: what follows may find no memory
    (void)workers_.post([this] { reload_keys(false); });  // busy workers look at it the next time
  };
  http_.post(look, options_.key_check_seconds);
}

void Server::reload_keys(bool anyway) {
  try {
    if (!keys_.reload(anyway)) return;
    metrics_.key_reloads.add();
    log_.info("the key file was read again");
  } catch (const std::exception& e) {
    metrics_.key_reload_failures.add();
    log_.warning("the key file is wrong; the old keys stay", {{"why", e.what()}});
    return;
  }
  in_flight_.end_where([](const Caller& caller) -> std::optional<InFlight::Verdict> {
    if (!caller.revoked() || caller.begun()) return std::nullopt;
    return InFlight::Verdict{.error = no_key(), .end = CallEnd::kRevoked};
  });
}

// The engine ends what it has at its deadline; this ends the rest: what waits for a worker, or for an engine that makes
// no step. One timer at a time, and none where nobody has a deadline.
void Server::watch_deadlines() {
  constexpr double kTick = 0.1, kGrace = 0.25;  // seconds; the grace is the engine's
  if (watches_deadlines_.exchange(true)) return;
  const auto look = [this] {
    watches_deadlines_ = false;
    in_flight_.end_where([](const Caller& caller) -> std::optional<InFlight::Verdict> {
      if (!caller.has_deadline() || caller.seconds_left() > -kGrace) return std::nullopt;
      return InFlight::Verdict{.error = caller.timeout_error(), .end = CallEnd::kTimeout};
    });
    if (in_flight_.has_deadline()) watch_deadlines();
  };
  try {
    http_.post(look, kTick);
  } catch (...) {
    watches_deadlines_ = false;
    throw;
  }
}

}  // namespace ingot
