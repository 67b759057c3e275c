#include "engine/replicas/engines.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"

namespace ingot {
namespace {

// What one of the engines has of what is for all.
EngineConfig share_of(const EngineConfig& all, int engine) {
  const auto part = [&](int whole) {
    const auto own = ThreadPool::share(whole, engine, all.engines);
    return static_cast<int>(own.end - own.begin);
  };
  EngineConfig config = all;
  config.engines = 1;
  config.threads = part(all.threads);
  config.max_seqs = part(all.max_seqs);
  config.max_waiting = part(all.max_waiting);
  // Equal, so that what one can never serve none can.
  config.pages = all.pages / all.engines;
  config.kv_bytes = all.kv_bytes / all.engines;
  config.kv_eager_bytes = all.kv_eager_bytes / all.engines;
  return config;
}

// Pages that the prefix cache of an engine may hold.
int cache_pages(Engine& engine) {
  if (!engine.config().prefix_cache) return 0;
  int pages = 0;
  engine.call([&](LocalEngine& local) {
    for (const PageGroup& group : local.core().options().groups) {
      const int own = group.eager > 0 ? group.eager : group.pages;
      pages = pages == 0 ? own : std::min(pages, own);
    }
  });
  return pages;
}

uint64_t random_key() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

void check_engines(const EngineConfig& config, int ranks) {
  const int engines = config.engines;
  if (engines == 1) return;
  if (config.device.cuda >= 0) throw Error("[dp] several engines are the CPU's: --device cpu");
  if (engines * ranks > config.threads) {
    throw Error("[dp] {} engines of {} rank{} each need {} threads, and there are {}", engines, ranks,
                ranks == 1 ? "" : "s", engines * ranks, config.threads);
  }
  if (engines > config.max_seqs) {
    throw Error("[dp] {} engines, and {} requests may run at once: each engine needs one", engines, config.max_seqs);
  }
}

Engines::Engines(const Model& model, const EngineConfig& config, const std::function<void(const StepFacts&)>& on_step)
    : config_(config) {
  check_engines(config, static_cast<int>(std::max<size_t>(1, model.ranks.size())));
  // One after the other: the first packs the weights, and the others find them packed.
  for (int e = 0; e < config.engines; ++e) {
    engines_.push_back(std::make_unique<Engine>(model, share_of(config, e), on_step, Engine::kIds * (e + 1)));
  }
  if (config.engines == 1) return;
  router_ = std::make_unique<Router>(RouterOptions{.engines = config.engines,
                                                   .page_rows = config.page_rows,
                                                   .pages = cache_pages(*engines_[0]),
                                                   .key = random_key()});
}

Submitted Engines::submit(Request request, std::function<void(const Event&)> on_event) {
  if (router_ == nullptr) return engines_[0]->submit(std::move(request), std::move(on_event));
  if (std::string reason = engines_[0]->refuse(request); !reason.empty()) {
    return {.id = -1, .refused = std::move(reason)};
  }
  const Router::Prompt prompt = router_->address(request);
  std::vector<char> tried(engines_.size());
  Submitted first;
  for (size_t i = 0; i < engines_.size(); ++i) {
    const std::shared_ptr<Router::Ticket> ticket = router_->assign(request, prompt, tried);
    std::function<void(const Event&)> hear = [ticket, on_event](const Event& event) {
      ticket->take(event);
      on_event(event);
    };
    Submitted submitted = at(ticket->engine()).offer(request, hear);
    if (submitted.id >= 0) return submitted;
    ticket->withdraw(prompt);
    tried[static_cast<size_t>(ticket->engine())] = 1;
    if (i == 0) first = std::move(submitted);
  }
  ++busy_;
  late_ += first.late;
  return first;
}

Engine& Engines::of(SeqId id) {
  const SeqId engine = id / Engine::kIds - 1;
  return *engines_[static_cast<size_t>(std::clamp<SeqId>(engine, 0, size() - 1))];
}

void Engines::cancel(SeqId id) { of(id).cancel(id); }
void Engines::cancel(SeqId id, int choice) { of(id).cancel(id, choice); }

bool Engines::drain(std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + time;
  for (const auto& engine : engines_) engine->drain(std::chrono::milliseconds(0));  // from now on nobody takes more
  bool all = true;
  for (const auto& engine : engines_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    all &= engine->drain(std::max(left, std::chrono::milliseconds(0)));
  }
  return all;
}

EngineStats Engines::stats() const {
  EngineStats all = engines_[0]->stats();
  for (size_t e = 1; e < engines_.size(); ++e) all.add(engines_[e]->stats());
  all.busy += busy_;
  all.late += late_;
  return all;
}

std::string Engines::lost() const {
  for (const auto& engine : engines_) {
    if (std::string why = engine->lost(); !why.empty()) return why;
  }
  return {};
}

double Engines::stalled_seconds() const {
  double longest = 0;
  for (const auto& engine : engines_) longest = std::max(longest, engine->stalled_seconds());
  return longest;
}

void Engines::call(const std::function<void(LocalEngine&)>& body) {
  for (const auto& engine : engines_) engine->call(body);
}

}  // namespace ingot
