// The flat arrays of one step: read by ops, filled by the engine. Prefill, decode, a chunk of a long
// prompt and draft verification are the same thing here: seq s owns the rows [q_start[s], q_start[s+1]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ingot {

// The largest step. Everything is sized once from it; addresses never move.
struct StepLimits {
  int rows = 0;       // T
  int seqs = 0;       // S
  int logits = 0;     // L, of one run of the head
  int context = 0;    // positions of one seq
  int page_rows = 0;  // slots of a KV page
  int pages_per_seq() const { return (context + page_rows - 1) / page_rows; }
};

struct Batch {
  // What the rows of one KV group read and write.
  struct Group {
    std::vector<int32_t> page_table;  // [S, pages_per_seq] page of each page_rows positions; -1 where none
    std::vector<int32_t> slot;        // [T] page · page_rows + place: where the row's K and V go
  };

  int n_rows = 0;    // T of this step
  int n_seqs = 0;    // S of this step
  int n_logits = 0;  // L of this run of the head

  std::vector<int32_t> token;       // [T]
  std::vector<int32_t> position;    // [T]
  std::vector<int32_t> seq;         // [T] the row's seq, an index in this batch
  std::vector<int32_t> q_start;     // [S + 1] rows of seq s: [q_start[s], q_start[s + 1])
  std::vector<int32_t> kv_len;      // [S] positions that the seq's rows may see, this step's included
  std::vector<int32_t> state_slot;  // [S] slot of the seq's recurrent state, -1 for none
  std::vector<int32_t> logit_row;   // [L] the rows whose logits are wanted
  std::vector<Group> groups;        // one for each KV group of the model
  int pages_per_seq = 0;            // row length of each page_table

  Batch() = default;
  Batch(const StepLimits& limits, int n_groups);

  const int32_t* pages(int group, int s) const {
    return groups[static_cast<size_t>(group)].page_table.data() + static_cast<int64_t>(s) * pages_per_seq;
  }
};

inline Batch::Batch(const StepLimits& limits, int n_groups)
    : token(static_cast<size_t>(limits.rows)),
      position(static_cast<size_t>(limits.rows)),
      seq(static_cast<size_t>(limits.rows)),
      q_start(static_cast<size_t>(limits.seqs) + 1),
      kv_len(static_cast<size_t>(limits.seqs)),
      state_slot(static_cast<size_t>(limits.seqs), -1),
      logit_row(static_cast<size_t>(limits.logits)),
      groups(static_cast<size_t>(n_groups)),
      pages_per_seq(limits.pages_per_seq()) {
  for (Group& group : groups) {
    group.page_table.assign(static_cast<size_t>(limits.seqs) * static_cast<size_t>(pages_per_seq), -1);
    group.slot.resize(static_cast<size_t>(limits.rows));
  }
}

}  // namespace ingot
