#include "serve/api/compile_work.h"

#include <algorithm>
#include <utility>

#include "serve/api/api_error.h"

namespace ingot {
namespace {

struct TakesLong {};  // no error: it is compiled elsewhere

}  // namespace

CompileWork::CompileWork(std::shared_ptr<Caller> caller, std::shared_ptr<Responder> responder, Workers* workers)
    : caller_(std::move(caller)), responder_(std::move(responder)), workers_(workers) {}

void CompileWork::pay(size_t steps) {
  const size_t tokens = steps / kStepsPerToken;
  if (tokens > paid_) caller_->take_tokenized(static_cast<int64_t>(tokens - paid_));
  paid_ = std::max(paid_, tokens);
}

void CompileWork::pause(size_t steps) {
  pay(steps);
  if (steps > kMostSteps) throw grammar::LimitError("[grammar] compiling it takes more than {} steps", kMostSteps);
  const auto check = [this] {
    if (caller_->has_deadline() && caller_->seconds_left() <= 0) {
      caller_->will_end(CallEnd::kTimeout);
      throw caller_->timeout_error();
    }
    if (responder_->closed()) throw server_busy("nobody waits for this request any more");  // and nobody reads this
  };
  check();
  if (workers_ && workers_->give_way()) check();
}

bool CompileWork::run_short(const Compile& compile) {
  grammar::Meter meter([](size_t) { throw TakesLong(); }, kShortSteps);
  try {
    compile({.meter = &meter, .reserve = false});
  } catch (const TakesLong&) {
    return false;
  } catch (...) {
    pay(meter.steps());
    throw;
  }
  pay(meter.steps());
  return true;
}

void CompileWork::run_long(const Compile& compile) {
  grammar::Meter meter([this](size_t steps) { pause(steps); });
  try {
    compile({.meter = &meter, .reserve = true});
  } catch (...) {
    pay(meter.steps());
    throw;
  }
  pay(meter.steps());
}

}  // namespace ingot
