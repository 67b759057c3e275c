// Other libraries' versions of an operator, measured in turn with ours by a program that imports what is there
// (tools/rivals.py). It reads a line of JSON and answers with one:
//   {"op": "softmax", "size": [16384, 16384], "dtype": "f32", "variant": "", "device": "cuda", "threads": 0}
//                                    -> {"rivals": [{"name": "torch 2.9"}, {"name": "…", "absent": "no module …"}]}
//   {"run": "torch 2.9"}             -> {"seconds": 0.00066}, of one run on the operands of the case before
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::ladder {

struct RivalTime {
  std::string name;
  double seconds = 0;       // the median
  std::string absent = {};  // why there is no time, in words; empty: there is one
};

class Rivals {
 public:
  // Starts `python3 FILE`. Throws Error where that fails.
  explicit Rivals(const std::string& file);
  ~Rivals();
  Rivals(const Rivals&) = delete;
  Rivals& operator=(const Rivals&) = delete;

  // Those that know the case. Where the program has ended: one that says so.
  std::vector<RivalTime> begin(const std::string& op, const std::vector<int64_t>& size, const std::string& dtype,
                               const std::string& variant, const std::string& device);
  // Of the CPU, from the next case on; 0: as many as the rival likes.
  void use_threads(int threads) { threads_ = threads; }
  // Seconds of one run; 0 where it failed, with the reason in `absent` from then on.
  double run(RivalTime& rival);

 private:
  // The answer to one line; throws Error where the program has ended or does not answer in two minutes.
  std::string ask(const std::string& line);

  std::string file_;
  int threads_ = 0;
  int pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string buffer_;
};

}  // namespace ingot::ladder
