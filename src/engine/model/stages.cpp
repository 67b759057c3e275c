#include "engine/model/stages.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "comm/comm_local.h"
#include "graph/stages.h"

namespace ingot {
namespace {

// The rows of a stage's border.
std::span<std::byte> rows_of(const Runner& runner, const char* name, const Batch& batch) {
  const Tensor& t = runner.output(name);
  CHECK(t.stride == t.cols, "rows of {} with gaps", name);
  return {t.data, static_cast<size_t>(batch.n_rows * t.cols * dtype_bytes(t.dtype))};
}

}  // namespace

Stages::Stages(const Model& model, const RunOptions& options, const std::vector<int>& pages)
    : options_(options), pages_(pages) {
  const int n = static_cast<int>(model.stages.size());
  CHECK(n > 1, "{} stages", n);
  const bool spin = std::max(options.threads, n) <= available_cores();
  orders_ = make_local_comms(n, spin);
  lines_ = make_local_comms(n, spin);
  message_.reserve(StepMessage::most_bytes(options_.limits, static_cast<int>(pages_.size())));
  try {
    for (int r = 1; r < n; ++r) threads_.emplace_back([this, &model, r] { run_stage(model, r); });
    known_ = std::make_unique<KnownRanks>([this] { return use(); });
  } catch (...) {
    join();  // those that began
    throw;
  }
}

Stages::~Stages() { join(); }

std::vector<RankUse> Stages::use() const {
  std::vector<RankUse> all;
  for (int r = 0; r < count(); ++r) {
    const RankMeter& line = lines_[static_cast<size_t>(r)]->meter;
    RankUse one{.rank = r, .host = {}, .alive = !line.ended(), .counts = line.counts()};
    one.counts.add(orders_[static_cast<size_t>(r)]->meter.counts());
    all.push_back(std::move(one));
  }
  return all;
}

// A stage that waits for orders hears that rank 0 has gone.
void Stages::join() {
  known_.reset();
  orders_[0].reset();
  lines_[0].reset();
  for (std::thread& thread : threads_) thread.join();
}

RunOptions Stages::options_of(int rank) const {
  RunOptions options = options_;
  const auto own = ThreadPool::share(options_.threads, rank, static_cast<int64_t>(orders_.size()));
  options.threads = std::max(1, static_cast<int>(own.end - own.begin));
  options.own_thread = true;
  return options;
}

void Stages::run_stage(const Model& model, int rank) {
  const auto r = static_cast<size_t>(rank);
  const std::array<std::byte, 1> ready{};
  try {
    Runner runner(model.stages[model.stages.size() - 1 - r], options_of(rank));
    KvStore kv(runner.program(), pages_, options_.limits.page_rows);
    runner.bind(kv);
    {
      const std::lock_guard lock(mutex_);
      kv_bytes_ += kv.bytes();
    }
    orders_[r]->send(ready, 0);
    run_steps(runner, kv, rank);
  } catch (const CommError& error) {
    // Told to the one who made the wait fail; at the end rank 0 has gone. The other line's waits end too.
    orders_[r]->abort(error.what());
    lines_[r]->abort(error.what());
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      threw_ = std::current_exception();
    }
    orders_[r]->abort(error.what());
    lines_[r]->abort(error.what());
  }
  lines_[r]->meter.end();
}

void Stages::run_steps(Runner& runner, KvStore& kv, int rank) {
  Comm &orders = *orders_[static_cast<size_t>(rank)], &line = *lines_[static_cast<size_t>(rank)];
  const bool first = rank + 1 == count();
  const int groups = static_cast<int>(pages_.size());
  std::vector<std::byte> message(static_cast<size_t>(StepMessage::most_bytes(options_.limits, groups)));
  Batch batch(options_.limits, groups);
  for (;;) {
    const int64_t bytes = orders.recv(message, 0, Comm::kForever);
    const ReadStep read =
        read_step_message(std::span(message).first(static_cast<size_t>(bytes)), options_.limits, pages_, batch);
    orders.step = line.step = read.step;
    const Timed timed([&](std::chrono::nanoseconds time) { line.meter.add_step(true, time); });
    if (on_step) on_step(rank);
    for (const PageCopy& copy : read.copies) kv.copy_page(copy.group, copy.from, copy.to);
    if (!first) line.recv(rows_of(runner, kStageIn, batch), rank + 1, line.deadline);
    runner.run_body(batch);
    line.send(rows_of(runner, kStageOut, batch), rank - 1);
  }
}

void Stages::await_ready() {
  std::array<std::byte, 1> ready{};
  for (int r = 1; r < count(); ++r) {
    try {
      orders_[0]->recv(ready, r, Comm::kForever);
    } catch (const CommError&) {
      const std::lock_guard lock(mutex_);
      if (threw_) std::rethrow_exception(threw_);
      throw;
    }
  }
}

void Stages::begin(const StepWork& work) {
  message_.write_step(work, options_.limits, ++step_, {});
  orders_[0]->step = step_;
  for (int r = count() - 1; r > 0; --r) orders_[0]->send(message_.bytes(), r);
}

void Stages::receive(const Runner& last, const Batch& batch) {
  ++lines_[0]->step;
  lines_[0]->recv(rows_of(last, kStageIn, batch), 1, lines_[0]->deadline);
}

void Stages::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = reason;
  }
  orders_[0]->abort(reason);
  lines_[0]->abort(reason);
}

std::string Stages::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace ingot
