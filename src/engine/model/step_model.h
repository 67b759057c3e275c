// What the engine needs of a model: to run one step. The real ones are DeviceModels; tests and the simulation have
// scripted ones.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/state_slots.h"
#include "ops/batch.h"
#include "ops/sample/sample.h"

namespace ingot {

// A row whose logits are wanted.
struct LogitRow {
  int row = 0;
  int position = 0;
  const std::function<void(int position, std::span<const float> logits)>* on_logits = nullptr;
};

// A row whose last hidden state is wanted.
struct HiddenRow {
  int row = 0;
  int position = 0;
  const std::function<void(int position, std::span<const float> hidden)>* on_hidden = nullptr;
  bool threw = false;  // set by the model: its on_hidden did
};

// One step: all that the model reads, and its answer. Each of two buffers is filled while the other's step runs.
//
// A step that is launched ahead, before the one in front of it was waited for, has rows whose tokens that one makes: a
// token of -1 - i is that of its results[i] (any where that is -1). A sample whose last token is not known has an empty
// history. Nothing of either step is reported, and once the second was launched the `samples` of neither are valid.
struct StepWork {
  Batch batch;
  std::vector<PageCopy> copies;  // before the rows run, in this order
  std::vector<StateOp> states;   // likewise
  // The rows to sample come first: samples[i] and results[i] belong to logits[i].
  std::vector<LogitRow> logits;
  std::vector<SampleRow> samples;
  std::vector<SampleResult> results;  // token -1 where the logits are not numbers
  std::vector<char> threw;            // [logits] its on_logits threw
  std::vector<HiddenRow> hidden;      // reported before any logits
};

// Steps run in the order of their launches: what a later one writes is never seen by an earlier one.
class StepModel {
 public:
  virtual ~StepModel() = default;
  // Whether a step may be launched ahead. It may change between two steps.
  virtual bool runs_ahead() const { return false; }
  // Begins the step and returns before it ends. `work` belongs to the model until wait() returns for it.
  // REQUIRES: no step is running, or one is, runs_ahead() holds and that one reports nothing and has as many logit rows
  // as one run of the head at most.
  virtual void launch(StepWork& work) = 0;
  // Until the oldest step has ended. Returns why it failed: then what is in the pages that it wrote and in the states
  // is not known. Empty where it did not.
  virtual std::string wait() = 0;
};

}  // namespace ingot
