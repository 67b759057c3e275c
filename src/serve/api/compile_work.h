// The compiling of what one request's answer is held to, which may take seconds: it costs the caller also where the
// source is refused then, ends where nobody waits for it any more or the request's time is over, and lets others have
// the thread between two pieces.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "app/constraints.h"
#include "serve/http/http.h"
#include "serve/http/workers.h"
#include "serve/tenants/caller.h"

namespace ingot {

// One thread at a time.
class CompileWork {
 public:
  // Most schemas take less than this, about 2 ms: they are compiled where their request is read. Those that take more
  // have the one worker of large bodies, so that reading and writing of others go on.
  static constexpr size_t kShortSteps = 20'000;
  // Beyond this, about half a second, a source is refused. The dearest schema of the 299 of a MaskBench sample takes
  // 12,300.
  static constexpr size_t kMostSteps = 5'000'000;
  // What a tokenizer takes for a token, more or less.
  static constexpr size_t kStepsPerToken = 32;

  // `workers`: those whose thread a long one runs on; none: it is nobody else's.
  CompileWork(std::shared_ptr<Caller> caller, std::shared_ptr<Responder> responder, Workers* workers = nullptr);
  CompileWork(const CompileWork&) = delete;
  CompileWork& operator=(const CompileWork&) = delete;

  using Compile = std::function<void(const CompileCall&)>;
  // False: it takes more than kShortSteps and was given up; nothing is paid yet.
  bool run_short(const Compile& compile);
  // Throws ApiError where the client has gone or its time is over, and grammar::LimitError beyond kMostSteps.
  void run_long(const Compile& compile);

 private:
  void pause(size_t steps);
  void pay(size_t steps);

  const std::shared_ptr<Caller> caller_;
  const std::shared_ptr<Responder> responder_;
  Workers* const workers_;
  size_t paid_ = 0;  // tokens
};

}  // namespace ingot
