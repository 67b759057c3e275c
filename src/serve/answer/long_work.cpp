#include "serve/answer/long_work.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "serve/request_guard.h"
#include "serve/serve_context.h"
#include "tensor/memory.h"

namespace ingot {

ApiError no_tokens() { return {.status = 400, .message = "this text cannot be turned into tokens"}; }

void run_as_large(ServeContext& context, const HttpHead& head, std::shared_ptr<Responder> responder, LongWork work) {
  JobCost cost{.payer = head.tenant, .bytes = std::max(work.bytes, Workers::kLargeBytes + 1)};
  auto job = [&context, caller = caller_of(head), style = style_of(head.path), responder = std::move(responder),
              work = std::move(work)]() mutable {
    if (responder->closed()) {  // while it waited
      if (work.generates && !caller->ended_early()) context.metrics.client_gone.add();
      return;
    }
    const auto run = [&] {
      try {
        work.run();
      } catch (const Error&) {
        throw no_tokens();
      }
    };
    guard_request(
        run, [&](const ApiError& error) { responder->send(error_response(error, style)); },
        [&] { responder->abort(); });
    work.run = nullptr;
    trim_heap();  // the C library keeps what large requests took for the next one; few come
  };
  if (context.workers.post(std::move(job), std::move(cost))) return;
  context.metrics.rejected(Rejected::kQueueFull);
  throw server_busy("too many requests are waiting; try again");
}

}  // namespace ingot
