#include "engine/model/cpu_model.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"

namespace ingot {

CpuModel::CpuModel(const Model& model, const RunOptions& options, const std::vector<int>& pages)
    : options_(options), pages_(pages) {
  std::exception_ptr threw;
  thread_ = std::thread([&, this] {
    try {
      start(model);
    } catch (...) {
      threw = std::current_exception();
    }
    const bool failed = threw != nullptr;
    {
      const std::lock_guard lock(mutex_);
      started_ = true;
    }
    wake_.notify_all();
    if (!failed) loop();
  });
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return started_; });
  }
  if (!threw) return;
  thread_.join();
  std::rethrow_exception(threw);
}

void CpuModel::start(const Model& model) {
  RunOptions options = options_;
  options.own_thread = true;
  if (!model.ranks.empty()) {
    ranks_ = std::make_unique<Ranks>(model, options_, pages_);
    options = ranks_->first_options();
  }
  steps_.resize(static_cast<size_t>(model.stages));
  const Graph& own = ranks_ ? model.ranks[static_cast<size_t>(ranks_->rank())] : model.graph;
  runner_ = std::make_unique<Runner>(own, options);
  kv_ = std::make_unique<KvStore>(runner_->program(), pages_, options_.limits.page_rows);
  runner_->bind(*kv_);
  if (ranks_) ranks_->await_ready();
}

CpuModel::~CpuModel() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

int64_t CpuModel::kv_bytes() const { return kv_->bytes() + (ranks_ ? ranks_->kv_bytes() : 0); }

std::string CpuModel::lost() const { return ranks_ ? ranks_->lost() : ""; }

// The others are somewhere in a step, and what they have written is not known.
void CpuModel::abort(const std::string& reason) {
  if (ranks_) ranks_->abort(reason);
}

void CpuModel::launch(StepWork& work) {
  try {
    if (ranks_) ranks_->launch(work);
  } catch (const CommError& error) {
    abort(error.what());  // its rows never come: it fails when its turn comes
  } catch (...) {
    abort("a step could not be given to all");  // some have it: no later one may follow
  }
  {
    const std::lock_guard lock(mutex_);
    CHECK(launched_ - waited_ < steps_.size(), "{} steps are running", launched_ - waited_);
    at(launched_++) = {.work = &work, .draw = work.undrawn ? Draw::kAwaited : Draw::kMay, .failed = {}};
  }
  wake_.notify_all();
}

void CpuModel::draw(StepWork&) {
  {
    const std::lock_guard lock(mutex_);
    at(launched_ - 1).draw = Draw::kMay;
  }
  wake_.notify_all();
}

bool CpuModel::body_ended() {
  const std::lock_guard lock(mutex_);
  const Step& newest = at(launched_ - 1);
  return newest.ended || newest.body_ended;
}

// Until the tokens of the step that runs may be drawn; false where they never will.
bool CpuModel::await_draw() {
  std::unique_lock lock(mutex_);
  Step& step = at(ran_);
  step.body_ended = true;
  wake_.wait(lock, [&] { return step.draw != Draw::kAwaited; });
  return step.draw == Draw::kMay;
}

std::string CpuModel::wait() {
  std::unique_lock lock(mutex_);
  CHECK(waited_ < launched_, "no step is running");
  Step& step = at(waited_);
  if (step.draw == Draw::kAwaited) {
    step.draw = Draw::kNever;
    wake_.notify_all();
  }
  wake_.wait(lock, [&] { return step.ended; });
  ++waited_;
  return std::move(step.failed);
}

void CpuModel::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return ran_ < launched_ || stop_; });
    if (ran_ == launched_) return;
    Step& step = at(ran_);
    lock.unlock();
    std::string failed = try_run(*step.work);
    if (!failed.empty()) abort(failed);
    lock.lock();
    step.failed = std::move(failed);
    step.ended = true;
    ++ran_;
    wake_.notify_all();
  }
}

// Why it failed; empty where it did not.
std::string CpuModel::try_run(StepWork& work) {
  try {
    run(work);
    return {};
  } catch (const CommError& error) {
    return error.what();
  } catch (...) {
    return "the step threw";  // short enough to need no memory
  }
}

void CpuModel::run(StepWork& work) {
  const Timed timed([this](std::chrono::nanoseconds time) {
    if (ranks_) ranks_->meter().add_step(true, time);
  });
  CHECK(work.states.empty(), "{} operations on states, and the model has none", work.states.size());
  const auto most = static_cast<size_t>(options_.limits.logits);
  if (ranks_) ranks_->begin(work, std::min(most, work.logits.size()));
  for (const PageCopy& copy : work.copies) kv_->copy_page(copy.group, copy.from, copy.to);
  if (ranks_) ranks_->receive(*runner_, work.batch);
  runner_->run_body(work.batch);
  if (on_body) on_body(work.batch, *runner_);
  report_hidden(work);
  for (size_t i = 0; i < work.logits.size(); i += most) run_head(work, i, std::min(most, work.logits.size() - i));
  if (ranks_) ranks_->end();
}

void CpuModel::report_hidden(StepWork& work) {
  if (work.hidden.empty()) return;
  const Tensor& hidden = runner_->output(kLastHidden);
  for (HiddenRow& row : work.hidden) {
    try {
      (*row.on_hidden)(row.position, std::span(hidden.f32(row.row), static_cast<size_t>(hidden.cols)));
    } catch (...) {
      row.threw = true;  // its own request ends
    }
  }
}

void CpuModel::run_head(StepWork& work, size_t first, size_t count) {
  if (ranks_ && first > 0) ranks_->run_head(work, first, count);
  work.batch.n_logits = static_cast<int>(count);
  for (size_t i = 0; i < count; ++i) work.batch.logit_row[i] = work.logits[first + i].row;
  runner_->run_head(work.batch);
  const Tensor& logits = runner_->output("logits");
  for (size_t i = 0; i < count; ++i) {
    const LogitRow& row = work.logits[first + i];
    if (!row.on_logits) continue;
    try {
      (*row.on_logits)(row.position, std::span(logits.f32(static_cast<int64_t>(i)), static_cast<size_t>(logits.cols)));
    } catch (...) {
      work.threw[first + i] = 1;  // its own request ends
    }
  }
  if (first >= work.samples.size() || !await_draw()) return;
  sample(work, first, std::min(count, work.samples.size() - first));
}

// The first `count` rows of this run of the head.
void CpuModel::sample(StepWork& work, size_t first, size_t count) {
  const Sample op{.logits = runner_->output("logits"),
                  .rows = std::span(work.samples).subspan(first, count),
                  .results = std::span(work.results).subspan(first, count)};
  Ctx ctx = runner_->ctx(work.batch);
  ctx.shape.logits = static_cast<int64_t>(count);
  if (options_.kernels == Kernels::kRef) {
    ref::run(op, ctx);
  } else {
    cpu::run(op, ctx);
  }
}

}  // namespace ingot
