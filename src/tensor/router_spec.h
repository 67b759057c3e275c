// How a router chooses experts for a row and weighs them: what models differ in.
#pragma once

#include <cstdint>

namespace ingot {

enum class RouterScore : uint8_t {
  kSoftmax,  // over all experts
  kSigmoid,  // of each expert alone
  // Two experts: the largest logit, weighed by a softmax over those that lie within 2 · jitter of it, then the same
  // again without the first.
  kSparsemixer,
};

// The score of a group of experts: those outside the best groups are not chosen.
enum class GroupScore : uint8_t {
  kLargest,  // of its experts
  kBestTwo,  // the sum of its two largest
};

struct RouterSpec {
  RouterScore score = RouterScore::kSoftmax;
  int groups = 1;  // of as many experts each
  int groups_used = 1;
  GroupScore group_score = GroupScore::kLargest;
  bool renormalize = false;  // the chosen experts' weights are divided by their sum
  float least_sum = 1e-20f;  //   or by this where that is smaller
  float scale = 1;           // of the weights, after that
  float jitter = 0;          // of kSparsemixer
};

// The most experts of a layer, and of a row.
inline constexpr int kMostExperts = 1024, kMostExpertsUsed = 64;

}  // namespace ingot
