// A model opened for a server: what `ingot serve` hands to the handlers.
#pragma once

#include <functional>
#include <string>

#include "cli/session.h"
#include "serve/served_model.h"

namespace ingot {

struct ServeModelOptions {
  SessionOptions session;  // its `model` is a path
  std::string name;        // for clients; empty: of the file
  int seqs = 0;            // 0: 16, on a GPU 256
  int max_queue = 256;
  // 0: one whole context, or 512 tokens for each seq where that is more; on a GPU all that is free.
  uint64_t kv_bytes = 0;
  double gap_ms = 75;  // between two tokens while prompts of others are read
  int step_rows = 0;   // 0: 256, on a GPU 2048
};

// The same with what depends on the device filled in. Throws Error where the device is not there.
ServeModelOptions with_device_defaults(ServeModelOptions options);

class ServeModel {
 public:
  // REQUIRES: with_device_defaults() of the options. Throws Error, also where the KV cache would not hold one whole
  // context.
  ServeModel(const ServeModelOptions& options, std::function<void(const StepFacts&)> on_step);

  const ServedModel& served() const { return served_; }
  double load_seconds() const { return session_.load_seconds(); }
  // Why the model's chat template is not used; empty: it is, or there is none.
  const std::string& template_error() const { return template_error_; }

 private:
  Session session_;
  ServedModel served_;
  std::string template_error_;
};

}  // namespace ingot
