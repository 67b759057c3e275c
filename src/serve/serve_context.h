// What the handlers of all routes share. Made once by the server; outlives every request.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/http/http.h"
#include "serve/http/workers.h"
#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/responses/response_store.h"
#include "serve/served_model.h"
#include "serve/tenants/caller.h"
#include "serve/tenants/shared_room.h"

namespace ingot {

// Handlers run on a worker's thread and answer through the Responder, then or later. A handler may throw ApiError (the
// answer), or anything else (500) before it has started an answer.
//
// The server wraps the Responder: it counts statuses and request_seconds, writes the log's line, gives the key's place
// back when the answer ends, and ends answers that outlast the drain or their deadline (on_close is called then too, so
// that the engine stops). Handlers record all else in `metrics`, and tell the request's Caller what it costs.
struct ServeContext {
  const ServedModel& model;
  Workers& workers;
  Workers& streams;  // of streams' events alone, so that no long text keeps one waiting
  Metrics& metrics;
  Keys& keys;
  Log& log;
  ResponseStore& responses;
  SharedRoom requests = SharedRoom(HttpLimits().bodies_bytes);  // what those hold that wait, or run
  std::string openapi = {},
              limits = {};            // documents that are asked for without a limit: written once, for some ms each
  double queue_seconds = 0;           // a request that has not begun after so long is answered with 503; 0: it waits
  std::atomic<bool> draining{false};  // no new request is taken any more

  Engines& engine() const { return *model.engine; }
};

// Whether the tenant may use the model, by any of its names.
inline bool may_use(const TenantRights& rights, const ServedModel& model) {
  return rights.models.empty() ||
         std::ranges::any_of(rights.models, [&](const std::string& name) { return model.answers_to(name); });
}

// A list of which not all can wait at once would be turned away for ever. Throws ApiError, 400.
inline void check_list(std::string_view param, size_t items, const Engines& engine) {
  const size_t room = static_cast<size_t>(engine.config().max_waiting) + static_cast<size_t>(engine.config().max_seqs);
  if (items <= room) return;
  throw bad_field(param, fmt::format("{} has {} entries; this server takes {} at once", param, items, room));
}

// Room for what a request holds until it has ended, in its tenant's share. `param`: the field that has most of it.
// Throws ApiError: 400 where it is more than half of the room, which others would wait for until it has ended, 503
// where it does not fit now.
inline std::shared_ptr<void> take_room(ServeContext& context, const std::string& tenant, size_t bytes,
                                       std::string_view param) {
  if (const size_t most = context.requests.most() / 2; bytes > most) {
    throw bad_field(param,
                    fmt::format("{} makes a request that holds {} bytes; at most {} are allowed", param, bytes, most));
  }
  if (std::shared_ptr<void> room = context.requests.hold(tenant, bytes)) return room;
  context.metrics.rejected(Rejected::kQueueFull);
  throw server_busy("the requests that wait take all the memory there is for them; try again");
}

// Sends a whole answer, once its line of usage is written.
inline void send_complete(Caller& caller, std::shared_ptr<Responder> responder, ApiStyle style, HttpResponse response) {
  const auto held = std::make_shared<HttpResponse>(std::move(response));
  caller.complete(
      [responder = std::move(responder), held, style](const std::optional<ApiError>& refused) {
        responder->send(refused ? error_response(*refused, style) : std::move(*held));
      },
      held->body.size());
}

// The 503 of a request that the engine does not take now; counted.
inline ApiError turned_away(ServeContext& context, const Submitted& submitted) {
  const bool draining = context.draining;
  context.metrics.rejected(draining ? Rejected::kDraining : submitted.late ? Rejected::kLate : Rejected::kQueueFull);
  if (draining) return server_busy("the server is shutting down");
  if (!submitted.late) return server_busy("too many requests wait already");
  ApiError error = server_busy("the first token would come later than this server promises");
  error.retry_after = std::max(1.0, submitted.retry_seconds);
  return error;
}

}  // namespace ingot
