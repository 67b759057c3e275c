// Work of a request that came with a small body and takes as long as a large one does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "serve/api/api_error.h"
#include "serve/http/http.h"

namespace ingot {

struct ServeContext;

struct LongWork {
  size_t bytes = 0;        // that it reads, which are held until it has run
  bool generates = false;  // Route::generates
  std::function<void()> run;
};

// Runs it on the worker of large bodies, in its tenant's turn, unless the client has gone by then. What it throws is
// the answer, in the style of the request's path. Throws ApiError 503 where too many wait.
void run_as_large(ServeContext& context, const HttpHead& head, std::shared_ptr<Responder> responder, LongWork work);

// The answer where a tokenizer cannot cut a text, such as one that its pattern takes too long for.
ApiError no_tokens();

}  // namespace ingot
