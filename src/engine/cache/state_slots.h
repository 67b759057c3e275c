// Slots for the recurrent state of seqs (state-space and linear-attention layers): one for each running seq, and
// others for snapshots that the prefix cache keeps. No model has such state yet; the simulation does.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <vector>

#include "base/check.h"

namespace ingot {

// What happens to states before the rows of the next step run, in this order.
struct StateOp {
  enum class Kind : uint8_t {
    kClear,   // slot `to` is a new seq's
    kCopy,    // `from` goes to `to`: a snapshot is taken or brought back
    kAccept,  // of the last step's rows of slot `to` the first `rows` stand
  };
  Kind kind;
  int from = -1;
  int to = -1;
  int rows = 0;
};

class StateSlots {
 public:
  // The slots [first, first + n).
  StateSlots(int first, int n) : first_(first) {
    for (int i = n - 1; i >= 0; --i) free_.push_back(first + i);
    used_.assign(static_cast<size_t>(n), false);
  }

  // A free slot, or -1 where there is none.
  int take() {
    if (free_.empty()) return -1;
    const int slot = free_.back();
    free_.pop_back();
    used_[static_cast<size_t>(slot - first_)] = true;
    return slot;
  }
  // REQUIRES: the slot is taken.
  void give(int slot) {
    const auto i = static_cast<size_t>(slot - first_);
    CHECK(slot >= first_ && i < used_.size() && used_[i], "slot {}", slot);
    used_[i] = false;
    free_.push_back(slot);
  }
  int size() const { return static_cast<int>(used_.size()); }

 private:
  const int first_;
  std::vector<int> free_;
  std::vector<bool> used_;
};

}  // namespace ingot
