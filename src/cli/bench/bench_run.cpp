#include "cli/bench/bench_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "cli/interrupt.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// Prompts of different tokens; and nothing is left of one run for the next: no seq shares another's work.
Request request_of(int seq, int vocab, const BenchWork& work) {
  Request request;
  for (int i = 0; i < work.prompt; ++i) {
    const auto mixed = (static_cast<uint64_t>(seq) * 7919 + static_cast<uint64_t>(i) * 104729 + 13) * 2654435761u;
    request.prompt.push_back(static_cast<int32_t>((mixed >> 16) % static_cast<uint64_t>(vocab)));
  }
  request.max_tokens = work.gen;
  request.sampling.temperature = 0;
  request.reuse_prefix = false;
  return request;
}

BenchSpeed run_once(Engine& engine, int batch, const BenchWork& work) {
  std::vector<Submission> seqs;
  const auto tell = [&](BenchMoment moment) {
    if (work.at) work.at(moment);
  };
  tell(BenchMoment::kBegin);
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  // Between two steps: so all of them begin together.
  engine.call([&](LocalEngine&) {
    for (int s = 0; s < batch; ++s) seqs.push_back(engine.submit(request_of(s, engine.model().hp.vocab, work)));
  });
  for (const Submission& seq : seqs) {
    if (!seq.stream) throw Error("[bench] {}", seq.refused);
  }
  BenchSpeed speed{.batch = batch};
  for (const Submission& seq : seqs) seq.stream->next();
  speed.first = elapsed();
  tell(BenchMoment::kAllFirst);
  for (const Submission& seq : seqs) {
    while (seq.stream->next()) throw_if_interrupted();
  }
  speed.whole = elapsed();
  tell(BenchMoment::kEnd);
  if (const std::string lost = engine.lost(); !lost.empty()) throw Error("[bench] {}", lost);
  return speed;
}

}  // namespace

BenchSpeed measure_speed(Engine& engine, int batch, const BenchWork& work) {
  run_once(engine, batch, work);  // touches weights, KV pages and the arena
  std::vector<double> first, rest;
  for (int i = 0; i < work.repeat; ++i) {
    const BenchSpeed run = run_once(engine, batch, work);
    first.push_back(run.first);
    rest.push_back(run.whole - run.first);
    if (work.verbose) {
      fmt::print(stderr, "batch {} run {}: first {:.3f} s, whole {:.3f} s\n", batch, i + 1, run.first, run.whole);
    }
  }
  return {.batch = batch, .first = median(first), .whole = median(first) + median(rest)};
}

StepProfiles profile_work(Engine& engine, int batch, const BenchWork& work) {
  run_once(engine, batch, work);
  const int rows = std::min(engine.config().step_rows, batch * work.prompt);
  const ProfileStep reading{.rows = rows,
                            .logits = std::clamp(rows / work.prompt, 1, batch),
                            .cache_rows = rows >= work.prompt ? rows : (work.prompt + rows) / 2.0,
                            .pairs = rows * (work.prompt + 1) / 2.0};
  const double seen = batch * (work.prompt + work.gen / 2.0);
  const ProfileStep making{.rows = batch, .logits = batch, .cache_rows = seen, .pairs = seen};
  StepProfiles profiles;
  engine.call([&](LocalEngine& local) {
    for (int s = 0; s < batch; ++s) local.submit(request_of(s, local.model().hp.vocab, work));
    std::set<SeqId> started;
    profiles.prefill = profile_steps(local, reading, [&] {
      if (local.idle() || started.size() == static_cast<size_t>(batch) || interrupted()) return false;
      for (const Event& event : local.step()) started.insert(event.request);
      return true;
    });
    profiles.decode = profile_steps(local, making, [&] {
      if (local.idle() || interrupted()) return false;
      local.step();
      return true;
    });
  });
  throw_if_interrupted();
  return profiles;
}

}  // namespace ingot
