#include "ladder/prompt_attention/prompt_attention.h"

#include "ladder/paged_attention_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(PromptAttentionLadder, EveryStep) {
  check_paged<PromptAttention>({.rows = 1, .past = {}}, 1, 1);
  check_paged<PromptAttention>({.rows = 1, .past = {0}}, 2, 1);
  check_paged<PromptAttention>({.heads = 2, .kv_heads = 2, .rows = 65, .past = {0}}, 3, 1);
  check_paged<PromptAttention>({.heads = 4, .kv_heads = 1, .rows = 40, .past = {0}, .page_rows = 64}, 4, 1);
  check_paged<PromptAttention>({.heads = 3, .kv_heads = 1, .rows = 33, .past = {70, 5}}, 5, 1);
}

TEST(PromptAttentionLadder, SteepScores) {
  check_paged<PromptAttention>({.heads = 2, .kv_heads = 1, .rows = 70, .past = {64}}, 6, 30);
}

}  // namespace
}  // namespace ingot
