// A model whose step is a script: what a row writes into its KV slot is a hash of its token and of what it reads
// through the page tables, and the token that it makes is a hash of that. So a seq that is ever shown a wrong page,
// position or state makes other tokens than it makes alone, and expected_tokens() tells what these are.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "engine/core.h"
#include "engine/model/step_message.h"
#include "engine/sampler.h"
#include "sim/simulation.h"

namespace ingot::sim {

inline uint64_t mix(uint64_t a, uint64_t b = 0) {
  uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

struct Shape {
  std::vector<PageGroup> groups;
  int page_rows = 4;
  int vocab = 50;
  bool has_state = false;
  int slots = 0;  // of states, those of snapshots included
};

// What one row leaves behind.
struct Cell {
  uint64_t value = 0;
  int position = -1;
};

inline uint64_t next_value(uint64_t before, int32_t token, int position) {
  return mix(before ^ mix(static_cast<uint64_t>(token), 7), static_cast<uint64_t>(position));
}

// The token after a row, from what the row saw.
inline int32_t draw(uint64_t seen, uint64_t seed, int choice, int vocab, std::span<const uint32_t> mask) {
  const uint64_t drawn = mix(seen ^ mix(seed, static_cast<uint64_t>(choice)), 3);
  for (int i = 0; i < vocab; ++i) {
    const auto token = static_cast<size_t>((drawn + static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab));
    // Tokens beyond the end of a mask are not allowed.
    const bool allowed = token / 32 < mask.size() && (mask[token / 32] >> (token % 32) & 1) != 0;
    if (mask.empty() || allowed) return static_cast<int32_t>(token);
  }
  return -1;
}

// What the parameters make of the tokens so far: 0 where they do not ask.
inline uint64_t past(const SamplingParams& params, std::span<const int32_t> history) {
  uint64_t all = 0;
  if (!reads_history(params)) return all;
  for (const int32_t token : history) all = mix(all, static_cast<uint64_t>(token));
  return all;
}

// The plain model beside the real one: one seq, no pages, all values kept.
class Alone {
 public:
  explicit Alone(const Shape& shape) : shape_(shape) {}

  void add(int32_t token) {
    const int position = static_cast<int>(values_.size());
    values_.push_back(next_value(values_.empty() ? 0 : values_.back(), token, position));
    state_ = mix(state_, static_cast<uint64_t>(token) + 11);
  }
  // What the last row sees.
  uint64_t seen() const {
    uint64_t all = shape_.has_state ? state_ : 0;
    const int position = static_cast<int>(values_.size()) - 1;
    for (const PageGroup& group : shape_.groups) {
      const int first = group.window ? std::max(0, position - group.window + 1) : 0;
      all = mix(all ^ values_.back(), values_[static_cast<size_t>(first)]);
    }
    return all;
  }

 private:
  const Shape& shape_;
  std::vector<uint64_t> values_;
  uint64_t state_ = 0;
};

class ScriptedModel : public StepModel {
 public:
  explicit ScriptedModel(const Shape& shape) : shape_(shape) {
    for (const PageGroup& group : shape.groups) {
      cells_.emplace_back(static_cast<size_t>(group.pages) * static_cast<size_t>(shape.page_rows));
    }
    states_.resize(static_cast<size_t>(shape.slots));
    candidates_.resize(static_cast<size_t>(shape.slots));
  }
  ~ScriptedModel() override { CHECK(steps_.empty(), "{} steps were never waited for", steps_.size()); }

  // Called first in each step, on the thread that waits for it. Throwing fails the step, and scrambles memory as a
  // real failure might.
  std::function<void(const StepWork& work)> on_step;
  // Called first in each launch().
  std::function<void()> on_launch;
  // Whether the logits of this row are not numbers.
  std::function<bool(const SampleRow& row)> is_nan;
  // Whether the rows of a step that waits for masks have run.
  std::function<bool()> body_ends;
  bool ahead = false;  // a step may be launched while others run
  size_t flights = 2;  // so many at once
  int64_t launched = 0;
  int64_t drawn_later = 0;    // steps
  int64_t guessed_ahead = 0;  // seqs with guesses in steps that were launched before the token in front was known
  size_t most_in_flight = 0;
  int64_t copies = 0;

  // A rank or a stage has gone: the oldest `passed` steps in flight still end well, and no other ever does.
  void lose(size_t passed) { passed_ = std::min(passed, steps_.size()); }
  bool lost() const { return passed_.has_value(); }
  bool dead() const { return passed_ == 0u; }  // whatever runs from now on fails
  size_t in_flight() const { return steps_.size(); }

  bool runs_ahead() const override { return ahead; }

  void launch(StepWork& work) override {
    if (on_launch) on_launch();
    CHECK(steps_.size() < (ahead ? flights : 1), "{} steps run already", steps_.size());
    const StepWork* before = steps_.empty() ? nullptr : steps_.back().work;
    for (int row = 0; row < work.batch.n_rows; ++row) {
      const int32_t token = work.batch.token[static_cast<size_t>(row)];
      if (token >= 0) continue;
      const auto next = static_cast<size_t>(row) + 1;
      guessed_ahead += row + 1 < work.batch.n_rows && work.batch.seq[next] == work.batch.seq[next - 1];
      CHECK(before && static_cast<size_t>(-1 - token) < before->samples.size(), "row {} reads result {}", row,
            -1 - token);
    }
    if (before) CHECK(!before->undrawn, "a step is launched behind one that is not drawn");
    if (before) CHECK(!reports(*before) && !reports(work), "a step that reports runs beside another");
    pause_allocation_failure();
    send(work);
    steps_.push_back({&work, {}, {}, {}, false});
    if (!work.undrawn) keep_samples(steps_.back());
    resume_allocation_failure();
    ++launched;
    most_in_flight = std::max(most_in_flight, steps_.size());
  }

  void draw(StepWork& work) override {
    CHECK(!steps_.empty() && steps_.back().work == &work && steps_.back().masks.empty(), "another step is to be drawn");
    pause_allocation_failure();
    keep_samples(steps_.back());
    resume_allocation_failure();
    ++drawn_later;
  }

  bool body_ended() override { return body_ends && body_ends(); }

  std::string wait() override {
    CHECK(!steps_.empty(), "no step runs");
    const Step step = std::move(steps_.front());
    steps_.pop_front();
    StepWork& work = *step.work;
    try {
      if (on_step) on_step(work);
      if (passed_ && (*passed_)-- == 0) {
        passed_ = 0;
        throw std::runtime_error("a rank has gone");
      }
    } catch (const std::exception& error) {
      scramble(work);
      made_.assign(work.samples.size(), 0);
      return error.what();
    }
    for (const PageCopy& copy : work.copies) copy_page(copy);
    copies += static_cast<int64_t>(work.copies.size());
    for (const StateOp& op : work.states) apply(op);
    std::vector<uint64_t> seen(static_cast<size_t>(work.batch.n_rows));
    for (int s = 0; s < work.batch.n_seqs; ++s) run_seq(work.batch, s, seen);
    for (size_t i = 0; i < work.samples.size() && step.drawn; ++i) {
      const SampleRow& row = work.samples[i];
      CHECK(row.position == work.logits[i].position + 1, "row {} samples position {}", i, row.position);
      const uint64_t all = seen[static_cast<size_t>(work.logits[i].row)] ^ step.past[i];
      work.results[i].token =
          is_nan && is_nan(row) ? -1 : sim::draw(all, row.params->seed, row.choice, shape_.vocab, row.mask);
    }
    made_.clear();
    for (const SampleResult& result : work.results) made_.push_back(result.token);
    report(work);
    return {};
  }

 private:
  // A step under way. What its samples point to may be gone before it has run.
  struct Step {
    StepWork* work;
    std::vector<SamplingParams> params;
    std::vector<std::vector<uint32_t>> masks;
    std::vector<uint64_t> past;
    bool drawn;
  };

  // Other ranks are told of the step, and read what they are told. (Awaited tokens are there once it is sent.)
  void send(StepWork& work) {
    Batch& batch = work.batch;
    const StepLimits limits{.rows = static_cast<int>(batch.token.size()),
                            .seqs = static_cast<int>(batch.kv_len.size()),
                            .logits = static_cast<int>(batch.logit_row.size()),
                            .context = batch.pages_per_seq * shape_.page_rows,
                            .page_rows = shape_.page_rows};
    const std::vector<int32_t> tokens = batch.token;
    for (int32_t& token : batch.token) token = std::max(0, token);
    message_.write_step(work, limits, launched, {});
    batch.token = tokens;
    if (read_.groups.empty()) read_ = Batch(limits, static_cast<int>(shape_.groups.size()));
    std::string refused;
    try {
      read_step_message(message_.bytes(), limits, shape_.groups, read_);
    } catch (const Error& error) {
      refused = error.what();
    }
    CHECK(refused.empty(), "{}", refused);
  }

  static bool reports(const StepWork& work) {
    return !work.hidden.empty() || std::ranges::any_of(work.logits, [](const LogitRow& row) { return row.on_logits; });
  }

  static void keep_samples(Step& step) {
    step.drawn = true;
    step.params.reserve(step.work->samples.size());
    for (SampleRow& row : step.work->samples) {
      step.past.push_back(past(*row.params, row.history));
      step.params.push_back(*row.params);
      step.masks.emplace_back(row.mask.begin(), row.mask.end());
      row.params = &step.params.back();
      row.mask = step.masks.back();
      row.history = {};
    }
  }

  void report(StepWork& work) const {
    const std::vector<float> logits(1);
    for (HiddenRow& row : work.hidden) {
      try {
        (*row.on_hidden)(row.position, logits);
      } catch (...) {
        row.threw = true;
      }
    }
    for (size_t i = 0; i < work.logits.size(); ++i) {
      if (!work.logits[i].on_logits) continue;
      try {
        (*work.logits[i].on_logits)(work.logits[i].position, logits);
      } catch (...) {
        work.threw[i] = 1;
      }
    }
  }

  Cell& cell(const Batch& batch, size_t group, int s, int position) {
    const int32_t page = batch.pages(static_cast<int>(group), s)[position / shape_.page_rows];
    CHECK(page >= 0, "seq {} has no page for position {}", s, position);
    return cells_[group][static_cast<size_t>(page) * static_cast<size_t>(shape_.page_rows) +
                         static_cast<size_t>(position % shape_.page_rows)];
  }

  void run_seq(const Batch& batch, int s, std::vector<uint64_t>& seen) {
    const auto slot = static_cast<size_t>(batch.state_slot[static_cast<size_t>(s)]);
    if (shape_.has_state) candidates_[slot] = {states_[slot]};
    const auto end = static_cast<size_t>(batch.q_start[static_cast<size_t>(s) + 1]);
    for (auto row = static_cast<size_t>(batch.q_start[static_cast<size_t>(s)]); row < end; ++row) {
      const int position = batch.position[row];
      int32_t token = batch.token[row];
      if (token < 0) token = std::max(0, made_.at(static_cast<size_t>(-1 - token)));
      if (shape_.has_state) {
        states_[slot] = mix(states_[slot], static_cast<uint64_t>(token) + 11);
        candidates_[slot].push_back(states_[slot]);
      }
      uint64_t all = shape_.has_state ? states_[slot] : 0;
      for (size_t g = 0; g < cells_.size(); ++g) {
        Cell& mine = cell(batch, g, s, position);
        const auto at = static_cast<size_t>(&mine - cells_[g].data());
        CHECK(at == static_cast<size_t>(batch.groups[g].slot[row]), "row {} writes another slot than it reads", row);
        const uint64_t before = position == 0 ? 0 : read(batch, g, s, position - 1);
        mine = {next_value(before, token, position), position};
        const int window = shape_.groups[g].window;
        all = mix(all ^ mine.value, read(batch, g, s, window ? std::max(0, position - window + 1) : 0));
      }
      seen[row] = all;
    }
  }

  uint64_t read(const Batch& batch, size_t group, int s, int position) {
    const Cell& c = cell(batch, group, s, position);
    return c.position == position ? c.value : 0xbad;
  }

  void copy_page(const PageCopy& copy) {
    const auto rows = static_cast<std::ptrdiff_t>(shape_.page_rows);
    std::vector<Cell>& cells = cells_[static_cast<size_t>(copy.group)];
    std::copy_n(cells.begin() + copy.from * rows, rows, cells.begin() + copy.to * rows);
  }

  void apply(const StateOp& op) {
    const auto to = static_cast<size_t>(op.to);
    if (op.kind == StateOp::Kind::kClear) states_[to] = 0;
    if (op.kind == StateOp::Kind::kCopy) states_[to] = states_[static_cast<size_t>(op.from)];
    if (op.kind == StateOp::Kind::kAccept) states_[to] = candidates_[to].at(static_cast<size_t>(op.rows));
  }

  void scramble(const StepWork& work) {
    for (int row = 0; row < work.batch.n_rows; ++row) {
      for (size_t g = 0; g < cells_.size(); ++g) {
        cells_[g][static_cast<size_t>(work.batch.groups[g].slot[static_cast<size_t>(row)])].value ^= 0xdead;
      }
    }
    for (int s = 0; s < work.batch.n_seqs && shape_.has_state; ++s) {
      states_[static_cast<size_t>(work.batch.state_slot[static_cast<size_t>(s)])] ^= 0xdead;
    }
  }

  const Shape shape_;
  std::vector<std::vector<Cell>> cells_;           // [group][page · rows]
  std::vector<uint64_t> states_;                   // [slot]
  std::vector<std::vector<uint64_t>> candidates_;  // [slot] before the last step's rows, and after each
  StepMessage message_;
  Batch read_;                    // by other ranks
  std::deque<Step> steps_;        // the oldest first
  std::vector<int32_t> made_;     // by the last step that ran
  std::optional<size_t> passed_;  // steps that have passed the rank that was lost
};

// The tokens that a request's choice makes when it has the model for itself, until max_tokens, an end token or the
// context's end.
inline std::vector<int32_t> expected_tokens(const Shape& shape, const Request& request, int choice, int context,
                                            const std::function<bool(const SampleRow&)>& is_nan = {},
                                            TokenConstraint* constraint = nullptr) {
  Alone alone(shape);
  std::vector<int32_t> tokens = request.prompt, made;
  if (tokens.empty()) return made;
  for (const int32_t token : tokens) alone.add(token);
  while ((request.max_tokens < 0 || static_cast<int>(made.size()) < request.max_tokens) &&
         static_cast<int>(tokens.size()) < context) {
    std::vector<uint32_t> mask((static_cast<size_t>(shape.vocab) + 31) / 32, ~0u);
    if (constraint) constraint->mask(mask);
    if (static_cast<int>(made.size()) < request.min_tokens) {
      std::vector<uint32_t> longer = mask;
      for (const int32_t token : request.end_tokens) longer[static_cast<size_t>(token) / 32] &= ~(1u << (token % 32));
      if (draw(0, 0, 0, shape.vocab, longer) >= 0) mask = longer;  // an end that the constraint demands comes
    }
    SampleRow row;
    row.params = &request.sampling;
    row.position = static_cast<int>(tokens.size());
    const bool nan = is_nan && is_nan(row);
    const uint64_t seen = alone.seen() ^ past(request.sampling, tokens);
    const int32_t token = nan ? -1 : draw(seen, request.sampling.seed, choice, shape.vocab, mask);
    if (token < 0) break;
    if (constraint) constraint->advance(token);
    made.push_back(token);
    tokens.push_back(token);
    alone.add(token);
    if (std::ranges::find(request.end_tokens, token) != request.end_tokens.end()) break;
  }
  return made;
}

}  // namespace ingot::sim
