// When the rows of a step reach the last stage, on paper: the stages before it do not exist. Each is taken to need for
// a step what the last stage needed for its latest step of as many bytes of rows, and to begin one when it has ended
// the step before and has what it reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "comm/link_model.h"

namespace ingot {

// Single-threaded. Times are nanoseconds of any one clock.
class PaperStages {
 public:
  // REQUIRES: stages >= 1, with the last.
  PaperStages(int stages, const LinkModel& links) : links_(links), free_(static_cast<size_t>(stages) - 1) {}

  // When the rows of the next step, so many bytes, are on the last stage. `launched`: when rank 0 told the first stage
  // of it, in a message of so many bytes.
  int64_t arrival(int64_t launched, int64_t message_bytes, int64_t row_bytes);
  // The last stage has needed so long for the step whose rows arrived last.
  void ended(int64_t time) { needed_[row_bytes_] = time; }

 private:
  int64_t needed(int64_t row_bytes) const;

  const LinkModel links_;
  std::vector<int64_t> free_;          // when each stage before the last has ended its latest step
  std::map<int64_t, int64_t> needed_;  // by the bytes of rows
  int64_t row_bytes_ = 0;
};

}  // namespace ingot
