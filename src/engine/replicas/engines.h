// Several engines on one model, as one: each has its own threads, KV cache and prefix cache, and all read the same
// packed weights. A request goes to the engine that Router says, whole, and stays there; so an answer is what one
// engine would have given. With one engine nothing is added.
// Thread-safe, as an engine is.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/replicas/router.h"

namespace ingot {

class Engines {
 public:
  // config.engines of them, which share its threads, seqs, queue and KV cache. `model` must outlive this. `on_step` is
  // called by each engine's thread, as Engine says. Throws Error where there is less than one of each for everybody.
  Engines(const Model& model, const EngineConfig& config, const std::function<void(const StepFacts&)>& on_step = {});
  Engines(const Engines&) = delete;
  Engines& operator=(const Engines&) = delete;

  // All of these as Engine has them. Busy: all engines are.
  Submitted submit(Request request, std::function<void(const Event&)> on_event);
  void cancel(SeqId id);
  void cancel(SeqId id, int choice);
  bool drain(std::chrono::milliseconds time);
  EngineStats stats() const;       // of all together
  std::string lost() const;        // of the first that is
  double stalled_seconds() const;  // of the one that has made no step for the longest time
  DeviceUse device() const { return engines_[0]->device(); }
  // On one engine after the other.
  void call(const std::function<void(LocalEngine&)>& body);
  const EngineConfig& config() const { return config_; }  // of all together

  int size() const { return static_cast<int>(engines_.size()); }
  Engine& at(int engine) { return *engines_[static_cast<size_t>(engine)]; }
  const Engine& at(int engine) const { return *engines_[static_cast<size_t>(engine)]; }

 private:
  Engine& of(SeqId id);

  const EngineConfig config_;
  std::atomic<int64_t> busy_ = 0, late_ = 0;
  std::unique_ptr<Router> router_;  // null where there is one engine; engines tell it to their end
  std::vector<std::unique_ptr<Engine>> engines_;
};

// Throws Error that says why so many engines, of `ranks` ranks each, are not for this configuration.
void check_engines(const EngineConfig& config, int ranks);

}  // namespace ingot
