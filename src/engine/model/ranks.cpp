#include "engine/model/ranks.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "comm/comm_local.h"

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

// What a rank is given for each wait of a step.
void begin_step(Comm& comm, int64_t step) {
  comm.step = step;
  comm.deadline = step <= 1 ? Comm::kFirstStepWait : Comm::kStepWait;
}

}  // namespace

void follow(const Graph& part, const RunOptions& options, const std::vector<int>& pages,
            const std::function<void(int rank)>& on_step) {
  Comm& comm = *options.comm;
  Runner runner(part, options);
  KvStore kv(runner.program(), pages, options.limits.page_rows);
  runner.bind(kv);
  const int64_t kv_bytes = kv.bytes();
  comm.send(std::as_bytes(std::span(&kv_bytes, 1)), 0);  // ready
  const RankCounts before = comm.meter.counts();
  const int groups = static_cast<int>(pages.size());
  std::vector<std::byte> message(static_cast<size_t>(StepMessage::most_bytes(options.limits, groups)));
  Batch batch(options.limits, groups);
  for (;;) {
    const int64_t bytes = comm.recv(message, 0, Comm::kForever);
    if (bytes == 0) return;  // the end
    const ReadStep read =
        read_step_message(std::span(message).first(static_cast<size_t>(bytes)), options.limits, pages, batch);
    begin_step(comm, read.step);
    if (read.report) {
      const RankCounts counts = since(before, comm.meter.counts());
      comm.send(std::as_bytes(std::span(&counts, 1)), 0);
    }
    const Timed timed([&](std::chrono::nanoseconds time) { comm.meter.add_step(read.body, time); });
    if (read.body) {
      if (on_step) on_step(comm.rank());
      for (const PageCopy& copy : read.copies) kv.copy_page(copy.group, copy.from, copy.to);
      runner.run_body(batch);
    }
    if (batch.n_logits > 0) runner.run_head(batch);
  }
}

Ranks::Ranks(const Model& model, const RunOptions& options, const std::vector<int>& pages)
    : options_(options), pages_(pages), ranks_(static_cast<int>(model.ranks.size())), first_(options.comm) {
  CHECK(ranks_ > 1, "{} ranks", ranks_);
  message_.reserve(StepMessage::most_bytes(options_.limits, static_cast<int>(pages_.size())));
  logit_rows_.reserve(static_cast<size_t>(options_.limits.logits));
  if (first_ != nullptr) {
    CHECK(first_->ranks() == ranks_, "{} ranks, not {}", first_->ranks(), ranks_);
    told_.resize(model.ranks.size());
    known_ = std::make_unique<KnownRanks>([this] { return use(); });
    return;
  }
  comms_ = make_local_comms(ranks_, std::max(options.threads, ranks_) <= available_cores());
  first_ = comms_[0].get();
  threw_.resize(model.ranks.size());
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
  for (int r = 0; r < ranks_; ++r) {
    const auto at = static_cast<size_t>(r);
    RankUse one{.rank = r, .host = first_->host(r), .alive = first_->alive(r), .counts = {}};
    if (comms_.empty()) {
      const std::lock_guard lock(mutex_);
      one.counts = r == 0 ? since(told_[at], first_->meter.counts()) : told_[at];
    } else {
      one.alive = !comms_[at]->meter.ended();
      one.counts = comms_[at]->meter.counts();
    }
    all.push_back(std::move(one));
  }
  return all;
}

void Ranks::join() {
  known_.reset();
  if (comms_.empty()) {
    try {
      for (int r = 1; r < ranks_; ++r) first_->send({}, r);  // the end
    } catch (const CommError&) {
      // They have gone, or know that another has.
    }
    return;
  }
  comms_[0].reset();  // a rank that waits for rank 0 hears that it has gone
  for (std::thread& thread : threads_) thread.join();
}

RunOptions Ranks::options_of(int rank) const {
  RunOptions options = options_;
  options.own_thread = true;
  if (comms_.empty()) return options;
  const auto own = ThreadPool::share(options_.threads, rank, ranks_);
  options.threads = std::max(1, static_cast<int>(own.end - own.begin));
  options.comm = comms_[static_cast<size_t>(rank)].get();
  return options;
}

void Ranks::run_rank(const Model& model, size_t rank) {
  try {
    follow(model.ranks[rank], options_of(static_cast<int>(rank)), pages_, [this](int r) {
      if (on_step) on_step(r);
    });
  } catch (const CommError&) {
    // Told to the one who made the wait fail; at the end rank 0 has gone.
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      threw_[rank] = std::current_exception();
    }
    comms_[rank]->abort(error.what());
  }
  comms_[rank]->meter.end();
}

void Ranks::await_ready() {
  for (int r = 1; r < ranks_; ++r) {
    try {
      int64_t bytes = 0;
      first_->recv(std::as_writable_bytes(std::span(&bytes, 1)), r, Comm::kForever);
      kv_bytes_ += bytes;
    } catch (const CommError&) {
      const std::lock_guard lock(mutex_);
      for (const std::exception_ptr& threw : threw_)
        if (threw) std::rethrow_exception(threw);
      throw;
    }
  }
  const std::lock_guard lock(mutex_);
  if (comms_.empty()) told_[0] = first_->meter.counts();  // rank 0 tells nothing: what it had when all were ready
}

void Ranks::send(size_t logits, size_t first, const StepWork& work) {
  logit_rows_.clear();
  for (size_t i = first; i < first + logits; ++i) logit_rows_.push_back(work.logits[i].row);
  if (first == 0) {
    reports_ = time_to_report();
    message_.write_step(work, options_.limits, ++step_, logit_rows_, reports_);
  } else {
    message_.write_head(step_, logit_rows_);
  }
  begin_step(*first_, step_);
  for (int r = 1; r < ranks_; ++r) first_->send(message_.bytes(), r);
}

void Ranks::begin(const StepWork& work, size_t logits) { send(logits, 0, work); }

void Ranks::run_head(const StepWork& work, size_t first, size_t count) {
  CHECK(first > 0, "the first run of the head begins with the step");
  send(count, first, work);
}

// Threads count where they are read.
bool Ranks::time_to_report() {
  const auto now = std::chrono::steady_clock::now();
  if (!comms_.empty() || now - reported_ < kReportEvery) return false;
  reported_ = now;
  return true;
}

void Ranks::end() {
  if (!std::exchange(reports_, false)) return;
  for (int r = 1; r < ranks_; ++r) {
    RankCounts counts;
    first_->recv(std::as_writable_bytes(std::span(&counts, 1)), r, first_->deadline);
    const std::lock_guard lock(mutex_);
    told_[static_cast<size_t>(r)] = counts;
  }
}

void Ranks::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = reason;
  }
  first_->abort(reason);
}

std::string Ranks::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace ingot
