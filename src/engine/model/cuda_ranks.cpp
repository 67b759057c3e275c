#include "engine/model/cuda_ranks.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "comm/comm_local.h"
#include "cuda/peer_board.h"
#include "engine/model/page_groups.h"
#include "tensor/cuda.h"

namespace ingot {
namespace {

void begin_step(Comm& comm, int64_t step) {
  comm.step = step;
  comm.deadline = Comm::kStepWait;
}

std::span<const int32_t> logit_rows(const Batch& batch) {
  return std::span(batch.logit_row).first(static_cast<size_t>(batch.n_logits));
}

// What a rank gives the others in a step's collectives.
void count_bytes(const cuda::DeviceRunner& runner, const Batch& batch, bool body, Comm& comm) {
  const Shape shape{.tokens = batch.n_rows, .logits = batch.n_logits};
  const Program& program = runner.program();
  for (size_t n = body ? 0 : program.head_begin; n < program.nodes.size(); ++n) {
    const Op& op = program.nodes[n].op;
    const auto to_all = [&](const Tensor& x) { return static_cast<int64_t>(shape.bytes(x)) * (comm.ranks() - 1); };
    const auto add_reduced = [&](const Tensor& x) {
      const bool handed = static_cast<int64_t>(shape.bytes(x)) * comm.ranks() <= cuda::kPeerHandBytes;
      comm.meter.add_bytes(CommKind::kAllReduce, handed ? to_all(x) : 2 * to_all(x) / comm.ranks());
    };
    if (const auto* reduce = std::get_if<AllReduce>(&op)) add_reduced(reduce->x);
    if (const auto* norm = std::get_if<AllReduceAddNorm>(&op)) add_reduced(norm->x);
    const auto* gather = std::get_if<AllGather>(&op);
    if (gather == nullptr) continue;
    if (!gather->first_only) {
      comm.meter.add_bytes(CommKind::kAllGather, to_all(gather->x));
    } else if (comm.rank() > 0) {
      comm.meter.add_bytes(CommKind::kGather, static_cast<int64_t>(shape.bytes(gather->x)));
    }
  }
}

// The emulator has no time to lose: there a bucket is recorded when it comes for the second time.
void record(cuda::DeviceRunner& runner) {
  if (!cuda::is_emulated()) runner.record_all();
}

}  // namespace

CudaRanks::CudaRanks(const Model& model, const DeviceRunOptions& options) : options_(options) {
  const int ranks = static_cast<int>(model.ranks.size());
  CHECK(ranks > 1 && ranks == options.device.ranks(), "{} ranks on {} devices", ranks, options.device.ranks());
  // Threads that wait for others wait for what a device does, but for the message of a step.
  comms_ = make_local_comms(ranks, ranks <= available_cores());
  for (const auto& comm : comms_) comm->deadline = Comm::kForever;  // while others load
  try {
    for (size_t r = 1; r < model.ranks.size(); ++r) threads_.emplace_back([this, &model, r] { run_rank(model, r); });
    known_ = std::make_unique<KnownRanks>([this] { return use(); });
  } catch (...) {  // no thread more could be started
    comms_[0].reset();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

CudaRanks::~CudaRanks() {
  known_.reset();
  comms_[0].reset();  // a rank that waits for rank 0 hears that it has gone
  for (std::thread& thread : threads_) thread.join();
}

std::vector<RankUse> CudaRanks::use() const {
  std::vector<RankUse> all;
  for (const auto& comm : comms_)
    all.push_back({.rank = comm->rank(), .host = {}, .alive = !comm->meter.ended(), .counts = comm->meter.counts()});
  return all;
}

DeviceRunOptions CudaRanks::options_of(size_t rank) const {
  DeviceRunOptions options = options_;
  options.threads = std::max(1, options_.threads / static_cast<int>(comms_.size()));
  options.rank = static_cast<int>(rank);
  options.comm = comms_[rank].get();
  return options;
}

void CudaRanks::throw_first_error() const {
  const std::lock_guard lock(mutex_);
  if (threw_) std::rethrow_exception(threw_);
}

cuda::DeviceRunner CudaRanks::make_first(const Model& model) {
  try {
    return cuda::DeviceRunner(model.ranks[0], options_of(0));
  } catch (const CommError&) {
    throw_first_error();
    throw;
  }
}

void CudaRanks::await_ready() {
  for (size_t r = 1; r < comms_.size(); ++r) {
    Bytes own;
    try {
      comms_[0]->recv(std::as_writable_bytes(std::span(&own, 1)), static_cast<int>(r), Comm::kForever);
    } catch (const CommError&) {
      throw_first_error();
      throw;
    }
    bytes_.kv += own.kv;
    bytes_.weights += own.weights;
    bytes_.step += own.step;
  }
}

void CudaRanks::run_rank(const Model& model, size_t rank) {
  Comm& comm = *comms_[rank];
  try {
    cuda::DeviceRunner runner(model.ranks[rank], options_of(rank));
    try {
      follow(runner, rank);
    } catch (const std::exception& error) {
      comm.abort(error.what());
      runner.leave_peers();  // the devices of others do not wait for this one
      throw;
    }
  } catch (const CommError&) {
    // Told to the one who made the wait fail; at the end rank 0 has gone.
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      if (!threw_) threw_ = std::current_exception();
    }
    comm.abort(error.what());
  }
  comm.meter.end();
}

void CudaRanks::follow(cuda::DeviceRunner& runner, size_t rank) {
  Comm& comm = *comms_[rank];
  record(runner);
  const Bytes own{.kv = runner.kv_bytes(), .weights = runner.weight_bytes(), .step = runner.step_bytes()};
  comm.send(std::as_bytes(std::span(&own, 1)), 0);
  const std::vector<PageGroup> groups = page_groups(runner.program(), runner.pages());
  const int n_groups = static_cast<int>(groups.size());
  std::vector<std::byte> message(static_cast<size_t>(StepMessage::most_bytes(options_.limits, n_groups)));
  Batch batch(options_.limits, n_groups);
  for (;;) {
    const int64_t bytes = comm.recv(message, 0, Comm::kForever);
    const ReadStep read =
        read_step_message(std::span(message).first(static_cast<size_t>(bytes)), options_.limits, groups, batch);
    begin_step(comm, read.step);
    const Timed timed([&](std::chrono::nanoseconds time) { comm.meter.add_step(read.body, time); });
    if (read.body) {
      if (on_step) on_step(comm.rank());
      for (const PageCopy& copy : read.copies) runner.copy_page(copy.group, copy.from, copy.to);
      runner.run(batch, {});
    } else {
      runner.run_head(batch, {});
    }
    runner.synchronize();
    runner.check_peers();
    count_bytes(runner, batch, read.body, comm);
  }
}

void CudaRanks::send(const StepMessage& message) {
  for (size_t r = 1; r < comms_.size(); ++r) comms_[0]->send(message.bytes(), static_cast<int>(r));
}

void CudaRanks::begin(const StepWork& work) {
  began_ = std::chrono::steady_clock::now();
  begin_step(*comms_[0], ++step_);
  message_.write_step(work, options_.limits, step_, logit_rows(work.batch));
  send(message_);
}

void CudaRanks::run_head(const StepWork& work) {
  message_.write_head(step_, logit_rows(work.batch));
  send(message_);
}

void CudaRanks::end(const cuda::DeviceRunner& first, const StepWork& work) {
  first.check_peers();
  comms_[0]->meter.add_step(true, std::chrono::steady_clock::now() - began_);
  count_bytes(first, work.batch, true, *comms_[0]);
}

void CudaRanks::abort(cuda::DeviceRunner& first, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = reason;
  }
  comms_[0]->abort(reason);
  first.leave_peers();
}

std::string CudaRanks::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace ingot
