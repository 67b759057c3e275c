#include "engine/model/ranks.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "base/check.h"
#include "comm/comm_local.h"

namespace ingot {

Ranks::Ranks(const Model& model, const RunOptions& options, const std::vector<int>& pages)
    : options_(options), pages_(pages) {
  const int ranks = static_cast<int>(model.ranks.size());
  CHECK(ranks > 1, "{} ranks", ranks);
  comms_ = make_local_comms(ranks, std::max(options.threads, ranks) <= available_cores());
  threw_.resize(model.ranks.size());
  message_.reserve(StepMessage::most_bytes(options_.limits, static_cast<int>(pages_.size())));
  logit_rows_.reserve(static_cast<size_t>(options_.limits.logits));
  try {
    for (size_t r = 1; r < model.ranks.size(); ++r) threads_.emplace_back([this, &model, r] { run_rank(model, r); });
  } catch (...) {
    join();  // those that began
    throw;
  }
}

Ranks::~Ranks() { join(); }

// A rank that waits for rank 0 hears that it has gone.
void Ranks::join() {
  comms_[0].reset();
  for (std::thread& thread : threads_) thread.join();
}

RunOptions Ranks::options_of(int rank) const {
  RunOptions options = options_;
  const auto own = ThreadPool::share(options_.threads, rank, static_cast<int64_t>(comms_.size()));
  options.threads = std::max(1, static_cast<int>(own.end - own.begin));
  options.comm = comms_[static_cast<size_t>(rank)].get();
  options.own_thread = true;
  return options;
}

void Ranks::run_rank(const Model& model, size_t rank) {
  Comm& comm = *comms_[rank];
  const std::array<std::byte, 1> ready{};
  try {
    Runner runner(model.ranks[rank], options_of(static_cast<int>(rank)));
    KvStore kv(runner.program(), pages_, options_.limits.page_rows);
    runner.bind(kv);
    {
      const std::lock_guard lock(mutex_);
      kv_bytes_ += kv.bytes();
    }
    comm.send(ready, 0);
    run_steps(runner, kv, comm);
  } catch (const CommError&) {
    // Told to the one who made the wait fail; at the end rank 0 has gone.
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      threw_[rank] = std::current_exception();
    }
    comm.abort(error.what());
  }
}

void Ranks::run_steps(Runner& runner, KvStore& kv, Comm& comm) {
  const int groups = static_cast<int>(pages_.size());
  std::vector<std::byte> message(static_cast<size_t>(StepMessage::most_bytes(options_.limits, groups)));
  Batch batch(options_.limits, groups);
  for (;;) {
    const int64_t bytes = comm.recv(message, 0, Comm::kForever);
    const ReadStep read =
        read_step_message(std::span(message).first(static_cast<size_t>(bytes)), options_.limits, pages_, batch);
    comm.step = read.step;
    if (read.body) {
      if (on_step) on_step(comm.rank());
      for (const PageCopy& copy : read.copies) kv.copy_page(copy.group, copy.from, copy.to);
      runner.run_body(batch);
    }
    if (batch.n_logits > 0) runner.run_head(batch);
  }
}

void Ranks::await_ready() {
  std::array<std::byte, 1> ready{};
  for (size_t r = 1; r < comms_.size(); ++r) {
    try {
      comms_[0]->recv(ready, static_cast<int>(r), Comm::kForever);
    } catch (const CommError&) {
      const std::lock_guard lock(mutex_);
      for (const std::exception_ptr& threw : threw_)
        if (threw) std::rethrow_exception(threw);
      throw;
    }
  }
}

void Ranks::send(size_t logits, size_t first, const StepWork& work) {
  logit_rows_.clear();
  for (size_t i = first; i < first + logits; ++i) logit_rows_.push_back(work.logits[i].row);
  if (first == 0) {
    message_.write_step(work, options_.limits, ++step_, logit_rows_);
  } else {
    message_.write_head(step_, logit_rows_);
  }
  comms_[0]->step = step_;
  for (size_t r = 1; r < comms_.size(); ++r) comms_[0]->send(message_.bytes(), static_cast<int>(r));
}

void Ranks::begin(const StepWork& work, size_t logits) { send(logits, 0, work); }

void Ranks::run_head(const StepWork& work, size_t first, size_t count) {
  CHECK(first > 0, "the first run of the head begins with the step");
  send(count, first, work);
}

void Ranks::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = reason;
  }
  comms_[0]->abort(reason);
}

std::string Ranks::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace ingot
