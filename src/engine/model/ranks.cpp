#include "engine/model/ranks.h"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <utility>

#include "base/check.h"
#include "comm/comm_paper.h"
#include "comm/read_numbers.h"
#include "comm/world.h"
#include "engine/model/page_groups.h"
#include "graph/stages.h"

namespace ingot {

namespace {

// How often processes tell what they have counted: a message of 88 bytes each.
constexpr auto kReportEvery = std::chrono::milliseconds(250);

// Processes have met before: that is no part of a step.
RankCounts since(const RankCounts& before, const RankCounts& now) {
  RankCounts more = now;
  more.wait_ns -= before.wait_ns;
  more.collective_ns -= before.collective_ns;
  for (size_t i = 0; i < kCommKinds; ++i) more.bytes[i] -= before.bytes[i];
  return more;
}

// The rows of a stage's border.
std::span<std::byte> rows_of(const Runner& runner, const char* name, const Batch& batch) {
  const Tensor& t = runner.output(name);
  CHECK(t.stride == t.cols, "rows of {} with gaps", name);
  return {t.data, static_cast<size_t>(batch.n_rows * t.cols * dtype_bytes(t.dtype))};
}

void receive_rows(const RankLinks& links, const Runner& runner, const Batch& batch) {
  links.rows->recv(rows_of(runner, kStageIn, batch), links.rank_before(), links.rows->deadline);
}

}  // namespace

void follow(const Graph& part, const RunOptions& options, const std::vector<int>& pages, const RankLinks& links,
            const std::function<void(int rank)>& on_step, const std::function<void()>& on_ready) {
  RunOptions own = options;
  own.own_thread = true;
  own.comm = links.stage.get();
  Runner runner(part, own);
  KvStore kv(runner.program(), pages, options.limits.page_rows);
  runner.bind(kv);
  const int64_t kv_bytes = kv.bytes();
  if (on_ready) on_ready();
  links.whole().send(std::as_bytes(std::span(&kv_bytes, 1)), 0);  // ready
  const RankCounts before = links.counts();
  const std::vector<PageGroup> groups = page_groups(runner.program(), pages);
  const int n_groups = static_cast<int>(groups.size());
  std::vector<std::byte> message(static_cast<size_t>(StepMessage::most_bytes(options.limits, n_groups)));
  Batch batch(options.limits, n_groups);
  for (;;) {
    const int64_t bytes = links.steps().recv(message, 0, Comm::kForever);
    if (bytes == 0) return;  // the end
    const ReadStep read =
        read_step_message(std::span(message).first(static_cast<size_t>(bytes)), options.limits, groups, batch);
    links.begin_step(read.step);
    links.steps().step = read.step;
    const Timed timed([&](std::chrono::nanoseconds time) { links.meter().add_step(read.body, time); });
    if (read.body) {
      if (on_step) on_step(links.rank);
      for (const PageCopy& copy : read.copies) kv.copy_page(copy.group, copy.from, copy.to);
      if (!links.on_first_stage()) receive_rows(links, runner, batch);
      runner.run_body(batch);
      if (!links.on_last_stage()) links.rows->send(rows_of(runner, kStageOut, batch), links.rank_after());
    }
    if (read.report) {
      const RankCounts counts = since(before, links.counts());
      links.whole().send(std::as_bytes(std::span(&counts, 1)), 0);
    }
    if (batch.n_logits > 0) runner.run_head(batch);
  }
}

Ranks::Ranks(const Model& model, const RunOptions& options, const std::vector<int>& pages)
    : options_(options),
      pages_(pages),
      pp_(model.stages),
      tp_(static_cast<int>(model.ranks.size()) / pp_),
      paper_(dynamic_cast<PaperComm*>(options.comm)),
      processes_(paper_ == nullptr && World::joined() != nullptr) {
  const int n = tp_ * pp_;
  CHECK(n > 1 && n == static_cast<int>(model.ranks.size()), "{} ranks in {} stages", model.ranks.size(), pp_);
  const int64_t bytes = StepMessage::most_bytes(options_.limits, static_cast<int>(pages_.size()));
  order_.reserve(bytes);
  message_.reserve(bytes);
  logit_rows_.reserve(static_cast<size_t>(options_.limits.logits));
  if (paper_ != nullptr) {
    CHECK(paper_->rank() < tp_, "rank {} is of a stage before the last", paper_->rank());
    const std::shared_ptr<Comm> stage(options.comm, [](Comm*) {});  // the caller's own
    links_.push_back({.rank = paper_->rank(), .tp = tp_, .pp = pp_, .stage = stage, .rows = {}, .orders = {}});
    return;
  }
  if (processes_) {
    links_.push_back(world_links(*World::joined(), tp_, pp_));
    told_.resize(model.ranks.size());
    known_ = std::make_unique<KnownRanks>([this] { return use(); });
    return;
  }
  links_ = local_links(tp_, pp_, std::max(options.threads, n) <= available_cores());
  try {
    for (size_t r = 1; r < model.ranks.size(); ++r) threads_.emplace_back([this, &model, r] { run_rank(model, r); });
    known_ = std::make_unique<KnownRanks>([this] { return use(); });
  } catch (...) {
    join();  // those that began
    throw;
  }
}

Ranks::~Ranks() { join(); }

std::vector<RankUse> Ranks::use() const {
  std::vector<RankUse> all;
  const Comm& whole = own().whole();
  for (int r = 0; r < tp_ * pp_; ++r) {
    const auto at = static_cast<size_t>(r);
    RankUse one{.rank = r, .host = whole.host(r), .alive = whole.alive(r), .counts = {}};
    if (processes_) {
      const std::lock_guard lock(mutex_);
      one.counts = r == 0 ? since(told_[at], own().counts()) : told_[at];
    } else {
      one.alive = !links_[at].meter().ended();
      one.counts = links_[at].counts();
    }
    all.push_back(std::move(one));
  }
  return all;
}

void Ranks::join() {
  known_.reset();
  if (processes_) {
    try {
      for (int r = 1; r < tp_ * pp_; ++r) (r < tp_ ? *own().stage : *own().orders).send({}, r);  // the end
    } catch (const CommError&) {
      // They have gone, or know that another has.
    }
    return;
  }
  links_[0] = {};  // a rank that waits for rank 0 hears that it has gone
  for (std::thread& thread : threads_) thread.join();
}

RunOptions Ranks::options_of(int rank) const {
  RunOptions options = options_;
  options.own_thread = true;
  options.comm = links_[static_cast<size_t>(rank)].stage.get();
  if (paper_ != nullptr || processes_) return options;
  const auto own = ThreadPool::share(options_.threads, rank, tp_ * pp_);
  options.threads = std::max(1, static_cast<int>(own.end - own.begin));
  return options;
}

void Ranks::run_rank(const Model& model, size_t rank) {
  const RankLinks& links = links_[rank];
  try {
    follow(model.ranks[rank], options_of(links.rank), pages_, links, [this](int r) {
      if (on_step) on_step(r);
    });
  } catch (const CommError& error) {
    // Told to the one who made the wait fail; at the end rank 0 has gone. The waits of its other ends fail too.
    links.abort(error.what());
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      if (!threw_) threw_ = std::current_exception();
    }
    links.abort(error.what());
  }
  links.meter().end();
}

void Ranks::await_ready() {
  if (paper_ != nullptr) return;
  for (int r = 1; r < tp_ * pp_; ++r) {
    try {
      std::array<std::byte, sizeof(int64_t)> ready{};
      const int64_t length = own().whole().recv(ready, r, Comm::kForever);
      int64_t bytes = 0;
      read_numbers(std::span(ready).first(static_cast<size_t>(length)), fmt::format("bytes of the cache of rank {}", r),
                   0, std::numeric_limits<int64_t>::max() - kv_bytes_, {&bytes, 1});
      kv_bytes_ += bytes;
    } catch (const CommError&) {
      const std::lock_guard lock(mutex_);
      if (threw_) std::rethrow_exception(threw_);
      throw;
    }
  }
  const std::lock_guard lock(mutex_);
  if (processes_) told_[0] = own().counts();  // rank 0 tells nothing: what it had when all were ready
}

// Threads count where they are read.
void Ranks::ask_for_counts(int64_t step) {
  const auto now = std::chrono::steady_clock::now();
  if (!processes_ || counted_step_.load() != 0 || now - asked_ < kReportEvery) return;
  asked_ = now;
  counted_step_.store(step);
}

void Ranks::launch(const StepWork& work) {
  ++launched_;
  ask_for_counts(launched_);
  if (pp_ == 1) return;
  order_.write_step(work, options_.limits, launched_, {}, counted_step_.load() == launched_);
  if (paper_ != nullptr) return paper_->launched(std::ssize(order_.bytes()));
  own().orders->step = launched_;
  for (int r = tp_ * pp_ - 1; r >= tp_; --r) own().orders->send(order_.bytes(), r);
}

void Ranks::send(size_t logits, size_t first, const StepWork& work) {
  if (tp_ == 1) return;
  logit_rows_.clear();
  for (size_t i = first; i < first + logits; ++i) logit_rows_.push_back(work.logits[i].row);
  if (first == 0) {
    message_.write_step(work, options_.limits, step_, logit_rows_, counted_step_.load() == step_);
  } else {
    message_.write_head(step_, logit_rows_);
  }
  for (int r = 1; r < tp_; ++r) own().stage->send(message_.bytes(), r);
}

void Ranks::begin(const StepWork& work, size_t logits) {
  own().begin_step(++step_);
  send(logits, 0, work);
}

void Ranks::end() {
  if (paper_ != nullptr && pp_ > 1) paper_->end_step();
  if (counted_step_.load() != step_) return;
  for (int r = 1; r < tp_ * pp_; ++r) {
    std::array<std::byte, sizeof(RankCounts)> message{};
    Comm& whole = own().whole();
    const int64_t length = whole.recv(message, r, whole.deadline);
    const RankCounts counts = read_counts(std::span(message).first(static_cast<size_t>(length)), r);
    const std::lock_guard lock(mutex_);
    told_[static_cast<size_t>(r)] = counts;
  }
  counted_step_.store(0);
}

void Ranks::receive(const Runner& runner, const Batch& batch) {
  if (pp_ == 1) return;
  if (paper_ != nullptr) return paper_->await_rows(rows_of(runner, kStageIn, batch));
  receive_rows(own(), runner, batch);
}

void Ranks::run_head(const StepWork& work, size_t first, size_t count) {
  CHECK(first > 0, "the first run of the head begins with the step");
  send(count, first, work);
}

void Ranks::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = reason;
  }
  own().abort(reason);
}

std::string Ranks::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace ingot
