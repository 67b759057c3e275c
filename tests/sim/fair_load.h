// Tenants with endless work on the real core: a model that only takes time, and a clock that only steps move.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/core.h"

namespace ingot::sim {

// Makes token 1 of everything.
class TimedModel : public StepModel {
 public:
  double step_seconds = 0.002, row_seconds = 0.00002;
  int64_t now_ns = 1;
  int64_t rows = 0;
  double longest_step = 0;
  bool ahead = false;
  std::function<bool()> body_ends;  // as that of ScriptedModel

  bool runs_ahead() const override { return ahead; }
  bool body_ended() override { return body_ends && body_ends(); }
  void launch(StepWork& work) override { flying_.push_back(&work); }
  std::string wait() override {
    StepWork& work = *flying_.front();
    flying_.erase(flying_.begin());
    for (SampleResult& result : work.results) result.token = 1;
    rows += work.batch.n_rows;
    const double seconds = step_seconds + row_seconds * work.batch.n_rows;
    longest_step = std::max(longest_step, seconds);
    now_ns += static_cast<int64_t>(1e9 * seconds);
    return {};
  }

 private:
  std::vector<StepWork*> flying_;
};

struct FairTenant {
  std::string name;
  double weight = 1;
  int open = 20;  // requests that it keeps in the engine
  int prompt_from = 10, prompt_to = 100;
  int answer_from = 10, answer_to = 100;
  int priority = 0;
  std::shared_ptr<TokenConstraint> constraint = {};
};

class FairLoad {
 public:
  FairLoad(const EngineConfig& config, int pages, uint64_t seed, MaskWorkers* masks = nullptr) : random_(seed) {
    CoreOptions options;
    options.context = 1 << 14;
    options.logit_rows = config.max_seqs;
    options.vocab = 1000;
    options.groups = {{.pages = pages}};
    options.now_ns = [this] { return model.now_ns; };
    options.masks = masks;
    core = std::make_unique<EngineCore>(model, config, options);
  }

  TimedModel model;
  std::unique_ptr<EngineCore> core;
  std::vector<FairTenant> tenants;
  std::map<std::string, int64_t> tokens;  // of prompts and answers
  std::map<std::string, int64_t> busy;    // requests that were sent away
  std::map<SeqId, double> first;          // seconds of each request's first token

  double now() const { return 1e-9 * static_cast<double>(model.now_ns); }
  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1)); }

  void reseed(uint64_t seed) { random_.seed(seed); }

  SeqId submit(const FairTenant& tenant) {
    Request r;
    for (int i = pick(tenant.prompt_from, tenant.prompt_to); i > 0; --i) r.prompt.push_back(pick(2, 999));
    r.max_tokens = pick(tenant.answer_from, tenant.answer_to);
    r.tenant = tenant.name;
    r.weight = tenant.weight;
    r.priority = tenant.priority;
    r.constraint = tenant.constraint;
    const auto prompt = static_cast<int64_t>(r.prompt.size());
    const Submitted submitted = core->submit(std::move(r));
    busy[tenant.name] += submitted.busy;
    if (submitted.id >= 0) live_[submitted.id] = {tenant.name, prompt};
    if (submitted.id >= 0) ++open_[tenant.name];
    return submitted.id;
  }

  // Takes back a request that is not over; true: it was there.
  bool cancel(SeqId id) {
    const auto it = live_.find(id);
    if (it == live_.end()) return false;
    CHECK(core->cancel(id), "request {} is gone", id);
    --open_[it->second.tenant];
    live_.erase(it);
    return true;
  }

  void step() {
    for (const FairTenant& tenant : tenants) {
      while (open_[tenant.name] < tenant.open && submit(tenant) >= 0) {
      }
    }
    for (const Event& event : core->step()) {
      const auto it = live_.find(event.request);
      if (it == live_.end()) continue;
      Live& live = it->second;
      if (event.sample.token >= 0) {
        tokens[live.tenant] += 1 + std::exchange(live.prompt, 0);
        first.try_emplace(event.request, now());
      }
      if (event.finish == FinishReason::kNone) continue;
      --open_[live.tenant];
      live_.erase(it);
    }
  }
  void run(double seconds) {
    for (const double until = now() + seconds; now() < until;) {
      step();
      CHECK(!core->idle(), "nobody has work at {} s", now());
    }
  }

 private:
  struct Live {
    std::string tenant;
    int64_t prompt = 0;  // tokens that are not counted yet
  };
  std::mt19937_64 random_;
  std::map<SeqId, Live> live_;
  std::map<std::string, int> open_;
};

}  // namespace ingot::sim
