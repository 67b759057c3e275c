// How many rows of prompts may join a step, so that the tokens of those who decode stay near a target apart. Learns
// from the steps that ran: the seconds of a step without prompts, and the seconds that a row of a prompt adds.
#pragma once

#include <algorithm>

namespace ingot {

class Pace {
 public:
  // Even where the target cannot be met prompts go on: `least` rows a step. target 0: no limit.
  Pace(double target_seconds, int least, int most) : target_(target_seconds), least_(least), most_(most) {}

  // Rows of prompts for a step in which others decode.
  int prompt_rows() const {
    if (target_ <= 0) return most_;
    if (row_seconds_ <= 0) return std::min(most_, kFirstRows);
    const double rows = (kShare * target_ - decode_seconds_) / row_seconds_;
    const int whole = static_cast<int>(std::clamp(rows, 0.0, static_cast<double>(most_)));
    // Kernels take 16 rows at a time.
    return std::clamp(whole / 16 * 16, std::min(least_, most_), most_);
  }

  // A step of `decode` rows of seqs that decode and `prompt` rows of prompts took so long.
  void measured(int decode, int prompt, double seconds) {
    if (prompt == 0) {
      decode_seconds_ = mix(decode_seconds_, seconds);
    } else if (prompt < least_) {
      return;  // too few to tell from noise
    } else if (decode == 0 || decode_seconds_ <= 0 || row_seconds_ <= 0) {
      const double added = decode == 0 ? seconds : std::max(seconds - decode_seconds_, 0.1 * seconds);
      row_seconds_ = mix(row_seconds_, added / prompt);
    } else {
      // Which of the two was misjudged cannot be told: both are.
      const double ratio = seconds / (decode_seconds_ + prompt * row_seconds_);
      decode_seconds_ = mix(decode_seconds_, decode_seconds_ * ratio);
      row_seconds_ = mix(row_seconds_, row_seconds_ * ratio);
    }
  }

  // That a row of a prompt adds to a step; 0: not known yet.
  double row_seconds() const { return row_seconds_; }

 private:
  // Before anything is known: a chunk that a slow machine reads in 0.2 s.
  static constexpr int kFirstRows = 64;
  // Of the target that is planned for: a step takes longer than foreseen as often as shorter.
  static constexpr double kShare = 0.9;
  // Half of what is known is the last step's: a row at position 8,000 costs twice one at the beginning, so what was
  // learned long ago misleads.
  static double mix(double known, double now) { return known <= 0 ? now : 0.5 * known + 0.5 * now; }

  const double target_;
  const int least_;
  const int most_;
  double decode_seconds_ = 0;
  double row_seconds_ = 0;
};

}  // namespace ingot
