#include "ladder/decode_attention/decode_attention.h"

#include "ladder/paged_attention_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(DecodeAttentionLadder, EveryStep) {
  check_paged<DecodeAttention>({.past = {}}, 1, 1);
  check_paged<DecodeAttention>({.past = {0}}, 2, 1);
  check_paged<DecodeAttention>({.heads = 2, .kv_heads = 1, .past = {63, 0, 64}}, 3, 1);
  check_paged<DecodeAttention>({.heads = 12, .kv_heads = 3, .past = {30}, .page_rows = 64}, 4, 1);
  check_paged<DecodeAttention>({.heads = 16, .kv_heads = 1, .past = {700}, .page_rows = 64}, 5, 1);
}

// Scores far apart: a key counts for all, and the largest is replaced many times.
TEST(DecodeAttentionLadder, SteepScores) {
  check_paged<DecodeAttention>({.heads = 4, .kv_heads = 1, .past = {200, 331}}, 6, 30);
}

}  // namespace
}  // namespace ingot
