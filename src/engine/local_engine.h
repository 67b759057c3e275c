// The engine's core on a real model, for one thread: what Engine puts a thread around, and what tests step by hand.
#pragma once

#include <memory>

#include "engine/config.h"
#include "engine/core.h"
#include "engine/mask/mask_pool.h"
#include "engine/model/device_model.h"
#include "models/model.h"

namespace ingot {

class LocalEngine {
 public:
  LocalEngine(const Model& model, const EngineConfig& config);

  Submitted submit(Request request) { return core_.submit(std::move(request)); }
  bool cancel(SeqId id) { return core_.cancel(id); }
  bool cancel(SeqId id, int choice) { return core_.cancel(id, choice); }
  std::span<Event> step() { return core_.step(); }
  bool idle() const { return core_.idle(); }

  EngineCore& core() { return core_; }
  const EngineCore& core() const { return core_; }
  DeviceModel& device() { return *device_; }
  const DeviceModel& device() const { return *device_; }
  // REQUIRES: it runs on the CPU.
  Runner& runner();
  const Model& model() const { return model_; }
  const EngineConfig& config() const { return config_; }

 private:
  const Model& model_;
  const EngineConfig config_;
  std::unique_ptr<DeviceModel> device_;
  MaskPool masks_;
  EngineCore core_;
};

}  // namespace ingot
