// Slots for the recurrent state of seqs (state-space and linear-attention layers), one for each running seq.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <vector>

#include "base/check.h"

namespace ingot {

class StateSlots {
 public:
  explicit StateSlots(int n) {
    for (int i = n - 1; i >= 0; --i) free_.push_back(i);
    used_.assign(static_cast<size_t>(n), false);
  }

  // A free slot, or -1 where there is none.
  int take() {
    if (free_.empty()) return -1;
    const int slot = free_.back();
    free_.pop_back();
    used_[static_cast<size_t>(slot)] = true;
    return slot;
  }
  // REQUIRES: the slot is taken.
  void give(int slot) {
    CHECK(slot >= 0 && static_cast<size_t>(slot) < used_.size() && used_[static_cast<size_t>(slot)], "slot {}", slot);
    used_[static_cast<size_t>(slot)] = false;
    free_.push_back(slot);
  }
  int n_free() const { return static_cast<int>(free_.size()); }

 private:
  std::vector<int> free_;
  std::vector<bool> used_;
};

}  // namespace ingot
