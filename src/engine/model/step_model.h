// What the engine needs of a model: to run one step. The real ones are DeviceModels; tests and the simulation have
// scripted ones.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/cache/kv_pages.h"
#include "engine/cache/state_slots.h"
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

// One step: all that the model reads, and its answer. One is filled while another's step runs.
//
// A step that is launched ahead, before the one in front of it was waited for, has rows whose tokens that one makes: a
// token of -1 - i is that of its results[i] (any where that is -1). A sample whose last token is not known has an empty
// history. Nothing of steps that are in flight together is reported, and once one was launched behind it the `samples`
// of a step are not valid any more.
struct StepWork {
  Batch batch;
  std::vector<PageCopy> copies;  // before the rows run, in this order
  std::vector<StateOp> states;   // likewise; empty for every model so far but the simulation's
  // The rows to sample come first: samples[i] and results[i] belong to logits[i].
  std::vector<LogitRow> logits;
  std::vector<SampleRow> samples;
  std::vector<SampleResult> results;  // token -1 where the logits are not numbers
  std::vector<char> threw;            // [logits] its on_logits threw
  std::vector<HiddenRow> hidden;      // reported before any logits
  // Masks of its samples are still missing: its rows run, and its tokens are drawn after draw().
  bool undrawn = false;
};

// Steps run in the order of their launches: what a later one writes is never seen by an earlier one.
class StepModel {
 public:
  virtual ~StepModel() = default;
  // Whether a step may be launched while others are in flight. It may change between two steps.
  virtual bool runs_ahead() const { return false; }
  // Begins the step and returns before it ends. `work` belongs to the model until wait() returns for it.
  // REQUIRES: no step is in flight; or runs_ahead() holds, fewer are than the engine has flights
  // (EngineCore::kFlights), those are drawn, report nothing and have as many logit rows as one run of the head at most.
  virtual void launch(StepWork& work) = 0;
  // The tokens of the newest step, which was launched undrawn, may be drawn: its samples are complete now. A model that
  // draws in wait() has nothing to do here.
  virtual void draw(StepWork& /*work*/) {}
  // Whether the rows of the newest step, which was launched undrawn, have run: the model has nothing to do any more.
  virtual bool body_ended() { return false; }
  // Until the oldest step has ended; one that was never drawn makes no tokens. Returns why it failed: then what is in
  // the pages that it wrote and in the states is not known. Empty where it did not.
  virtual std::string wait() = 0;
};

}  // namespace ingot
