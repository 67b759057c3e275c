// What rank 0 tells the others of a step: one flat message of fixed layout, in 32-bit words, without pointers. A step
// is its rows, page tables as far as its seqs reach, copies of pages and the logit rows of the first run of the head;
// further runs are messages of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/step_model.h"
#include "ops/batch.h"

namespace ingot {

class StepMessage {
 public:
  // The longest message of such steps, in bytes.
  static int64_t most_bytes(const StepLimits& limits, int groups);

  void reserve(int64_t bytes) { words_.reserve(static_cast<size_t>(bytes) / sizeof(int32_t)); }
  // Writes the step number `step`, with the logit rows of its first run of the head. `report`: the others tell what
  // they have counted, once they have run it.
  void write_step(const StepWork& work, const StepLimits& limits, int64_t step, std::span<const int32_t> logit_rows,
                  bool report = false);
  // Writes another run of the head of the step that was written last.
  void write_head(int64_t step, std::span<const int32_t> logit_rows);
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_)); }

 private:
  void put(std::span<const int32_t> words) { words_.insert(words_.end(), words.begin(), words.end()); }
  void begin(int32_t kind, int64_t step);

  std::vector<int32_t> words_;
};

// What a message says.
struct ReadStep {
  int64_t step = 0;
  bool body = false;    // a step; else another run of the head
  bool report = false;  // rank 0 asks for counts
  std::vector<PageCopy> copies;
};

// Fills `batch` and returns the rest: what is read can be run. Each seq has rows, which are its last positions, in
// order; each row's slot is its own in its seq's pages; and a page is missing only where the group's window has left it
// behind for all of the seq's rows. Tokens may be any that are not negative. Throws Error where the message is not one
// that write_step() or write_head() makes for these limits; then `batch` is of no use.
// REQUIRES: `batch` is of these limits and groups, and holds the step that was read last.
ReadStep read_step_message(std::span<const std::byte> bytes, const StepLimits& limits,
                           const std::vector<PageGroup>& groups, Batch& batch);

}  // namespace ingot
