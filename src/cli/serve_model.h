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
  int seqs = 16;
  int max_queue = 256;
  uint64_t kv_bytes = 0;  // 0: one whole context, or 512 tokens for each seq where that is more
  double gap_ms = 75;     // between two tokens while prompts of others are read
  int step_rows = 256;
};

class ServeModel {
 public:
  // Throws Error, also where the KV cache would not hold one whole context.
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
