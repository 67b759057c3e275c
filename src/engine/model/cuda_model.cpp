#include "engine/model/cuda_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ingot {
namespace {

// Of the logit rows from `first` on, those of this run of the head that are sampled.
std::span<const SampleRow> samples_of(const StepWork& work, size_t first) {
  if (first >= work.samples.size()) return {};
  return std::span(work.samples)
      .subspan(first, std::min(work.samples.size() - first, static_cast<size_t>(work.batch.n_logits)));
}

}  // namespace

std::string cuda_refusal(int index) {
  try {
    cuda::use_device(index);
    cuda::require_kernels();
    return {};
  } catch (const Error& e) {
    const std::string why = e.what();
    return why.starts_with("[cuda] ") ? why.substr(7) : why;
  }
}

std::unique_ptr<DeviceModel> make_cuda_model(const Model& model, const DeviceRunOptions& options) {
  return std::make_unique<CudaModel>(model, options);
}

CudaModel::CudaModel(const Model& model, const DeviceRunOptions& options)
    : options_(options),
      ranks_(model.ranks.empty() ? nullptr : std::make_unique<CudaRanks>(model, options)),
      runner_(ranks_ ? ranks_->make_first(model) : cuda::DeviceRunner(model.graph, options)) {
  record();
  if (ranks_) ranks_->await_ready();
}

void CudaModel::record() {
  // The emulator has no time to lose: there a bucket is recorded when it comes for the second time.
  if (cuda::is_emulated()) return;
  const auto begin = std::chrono::steady_clock::now();
  runner_.record_all();
  graph_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  graphs_ = runner_.recorded();
}

// CUDA keeps the device in use for each thread, and asking for it takes longer than some kernels.
void CudaModel::use_device() {
  if (thread_ == std::this_thread::get_id()) return;
  cuda::use_device(options_.device.place(0));
  thread_ = std::this_thread::get_id();
}

DeviceUse CudaModel::use() const {
  const cuda::DeviceFacts now = cuda::device_facts();
  const CudaRanks::Bytes others = ranks_ ? ranks_->bytes() : CudaRanks::Bytes{};
  return {.name = fmt::format("{} {}{}", device_name(options_.device), now.name,
                              runner_.meets_on_host() ? ", by the host's memory" : ""),
          .total_bytes = now.total_bytes,
          .free_bytes = now.free_bytes,
          .weight_bytes = runner_.weight_bytes() + others.weights,
          .step_bytes = runner_.step_bytes() + others.step,
          .graphs = graphs_,
          .graph_seconds = graph_seconds_};
}

void CudaModel::profile(bool on) {
  runner_.synchronize();  // one that was launched ahead
  runner_.profile(on);
}

void CudaModel::launch(StepWork& work) {
  Running& step = running_[running_[oldest_].work ? 1 - oldest_ : oldest_];
  CHECK(step.work == nullptr, "two steps are running");
  step.work = &work;
  step.failed = false;
  step.drawn = !work.undrawn;
  try {
    use_device();
    begin(work, step.done);
  } catch (const CommError& error) {
    fail(error.what());
  } catch (...) {
    fail();
  }
}

void CudaModel::draw(StepWork& work) {
  Running& step = newest();
  CHECK(step.work == &work && !step.drawn, "another step is to be drawn");
  step.drawn = true;
  if (step.failed) return;
  try {
    use_device();
    runner_.draw(samples_of(work, 0));
    step.done.record(runner_.stream());
  } catch (...) {
    fail();
  }
}

bool CudaModel::body_ended() {
  const Running& step = newest();
  return step.failed || step.done.done();
}

// What was given to the device still reads the host's memory, and which tokens it would make is not known any more.
void CudaModel::fail(const char* why) {
  for (Running& step : running_) step.failed = true;
  if (ranks_) ranks_->abort(runner_, why);
  runner_.give_up();
}

void CudaModel::begin(StepWork& work, cuda::Event& done) {
  CHECK(work.states.empty(), "{} operations on states, and the model has none", work.states.size());
  set_logit_rows(work, 0);
  if (ranks_) ranks_->begin(work);
  for (const PageCopy& copy : work.copies) runner_.copy_page(copy.group, copy.from, copy.to);
  runner_.run(work.batch, work.undrawn ? std::span<const SampleRow>() : samples_of(work, 0));
  done.record(runner_.stream());
}

std::string CudaModel::wait() {
  Running& step = running_[oldest_];
  oldest_ = 1 - oldest_;
  StepWork& work = *std::exchange(step.work, nullptr);
  if (!step.failed) {
    try {
      step.done.synchronize();
      if (ranks_) ranks_->end(runner_, work);
      if (step.drawn) finish(work);
    } catch (const CommError& error) {
      fail(error.what());
    } catch (...) {
      fail();
    }
  }
  if (!step.failed) return "";
  return ranks_ ? ranks_->lost() : "the step threw";  // short enough to need no memory
}

void CudaModel::set_logit_rows(StepWork& work, size_t first) {
  const size_t count = std::min(static_cast<size_t>(options_.limits.logits), work.logits.size() - first);
  work.batch.n_logits = static_cast<int>(count);
  for (size_t i = 0; i < count; ++i) work.batch.logit_row[i] = work.logits[first + i].row;
}

// What the host wants of the step, and the logit rows that one run of the head did not hold.
void CudaModel::finish(StepWork& work) {
  runner_.count_times();
  if (on_body) on_body(work.batch, runner_);
  report_hidden(work);
  for (size_t first = 0; first < work.logits.size();) {
    if (first > 0) {
      set_logit_rows(work, first);
      if (ranks_) ranks_->run_head(work);
      runner_.run_head(work.batch, samples_of(work, first));
      runner_.synchronize();
      runner_.check_peers();
      runner_.count_times();
    }
    runner_.collect(
        std::span(work.results).subspan(std::min(first, work.results.size()), samples_of(work, first).size()));
    report_logits(work, first);
    first += static_cast<size_t>(work.batch.n_logits);
  }
}

void CudaModel::report_hidden(StepWork& work) {
  if (work.hidden.empty()) return;
  const Tensor& hidden = runner_.device_output(kLastHidden);
  rows_.resize(static_cast<size_t>(hidden.cols));
  for (HiddenRow& row : work.hidden) {
    runner_.read_row(hidden, row.row, rows_.data());
    runner_.synchronize();
    try {
      (*row.on_hidden)(row.position, rows_);
    } catch (...) {
      row.threw = true;  // its own request ends
    }
  }
}

void CudaModel::report_logits(StepWork& work, size_t first) {
  const Tensor& logits = runner_.device_output("logits");
  for (size_t i = 0; i < static_cast<size_t>(work.batch.n_logits); ++i) {
    const LogitRow& row = work.logits[first + i];
    if (!row.on_logits) continue;
    rows_.resize(static_cast<size_t>(logits.cols));
    runner_.read_row(logits, static_cast<int64_t>(i), rows_.data());
    runner_.synchronize();
    try {
      (*row.on_logits)(row.position, rows_);
    } catch (...) {
      work.threw[first + i] = 1;  // its own request ends
    }
  }
}

}  // namespace ingot
