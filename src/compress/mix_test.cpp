#include "compress/mix.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace ingot {
namespace {

// A Llama of 16 layers, 32 heads and 8 of keys, untied.
std::vector<MixTensor> tensors_of(int64_t hidden, int64_t ffn, bool tied) {
  std::vector<MixTensor> all = {{"token_embd.weight", {32000, hidden}}, {"output_norm.weight", {hidden}}};
  if (!tied) all.push_back({"output.weight", {32000, hidden}});
  for (int i = 0; i < 16; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    all.push_back({blk + "attn_norm.weight", {hidden}});
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      all.push_back({blk + name + ".weight", {hidden, hidden}});
    for (const char* name : {"ffn_gate", "ffn_up"}) all.push_back({blk + name + ".weight", {ffn, hidden}});
    all.push_back({blk + "ffn_down.weight", {hidden, ffn}});
  }
  return all;
}

std::map<std::string, Format> chosen(const char* mix, const std::vector<MixTensor>& tensors,
                                     const MixOptions& options = {}) {
  const MixModel model{.arch = "llama", .layers = 16, .heads = 32, .kv_heads = 8, .experts = 0};
  const std::vector<MixChoice> choices = choose_mix(*find_mix(mix), model, tensors, options);
  std::map<std::string, Format> result;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (choices[i].format) result[tensors[i].name] = *choices[i].format;
  }
  return result;
}

TEST(Mix, GivesMoreBitsWhereLlamaCppDoes) {
  const auto q4 = chosen("q4_k_m", tensors_of(2048, 8192, false));
  EXPECT_FALSE(q4.contains("output_norm.weight"));
  EXPECT_EQ(q4.at("output.weight"), Format::kQ6_K);
  EXPECT_EQ(q4.at("token_embd.weight"), Format::kQ4_K);
  // Of 16 layers the first and last two, and every third from the fourth on.
  for (int i = 0; i < 16; ++i) {
    const bool more = i < 2 || i >= 14 || (i - 2) % 3 == 2;
    for (const char* name : {"attn_v", "ffn_down"})
      EXPECT_EQ(q4.at(fmt::format("blk.{}.{}.weight", i, name)), more ? Format::kQ6_K : Format::kQ4_K) << i;
    EXPECT_EQ(q4.at(fmt::format("blk.{}.attn_q.weight", i)), Format::kQ4_K);
  }
  const auto q3 = chosen("q3_k_m", tensors_of(2048, 8192, true));
  EXPECT_EQ(q3.at("token_embd.weight"), Format::kQ6_K);  // it is the head
  EXPECT_EQ(q3.at("blk.0.attn_v.weight"), Format::kQ5_K);
  EXPECT_EQ(q3.at("blk.2.attn_v.weight"), Format::kQ4_K);
  EXPECT_EQ(q3.at("blk.0.ffn_down.weight"), Format::kQ5_K);
  EXPECT_EQ(q3.at("blk.1.ffn_down.weight"), Format::kQ4_K);
  EXPECT_EQ(q3.at("blk.1.attn_output.weight"), Format::kQ4_K);
  EXPECT_EQ(q3.at("blk.1.ffn_up.weight"), Format::kQ3_K);
}

TEST(Mix, TakesTheFormatThatFits) {
  const auto q4 = chosen("q4_k_m", tensors_of(576, 1536, true));
  EXPECT_EQ(q4.at("token_embd.weight"), Format::kQ8_0);
  EXPECT_EQ(q4.at("blk.3.attn_q.weight"), Format::kQ5_0);
  EXPECT_EQ(q4.at("blk.0.attn_v.weight"), Format::kQ8_0);
  EXPECT_EQ(q4.at("blk.0.ffn_down.weight"), Format::kQ6_K);
  EXPECT_EQ(chosen("iq4_xs", tensors_of(576, 1536, true)).at("blk.3.attn_q.weight"), Format::kIQ4_NL);
  EXPECT_EQ(chosen("q8_0", tensors_of(100, 100, true)).at("blk.3.attn_q.weight"), Format::kF16);
}

TEST(Mix, PureAndImportances) {
  for (const auto& [name, format] : chosen("q4_k_m", tensors_of(2048, 8192, false), {.pure = true, .tensors = {}}))
    EXPECT_EQ(format, Format::kQ4_K) << name;
  EXPECT_EQ(chosen("iq4_xs", tensors_of(2048, 8192, false)).at("blk.0.ffn_down.weight"), Format::kQ5_K);
  const MixOptions known{.importances = true, .tensors = {}};
  EXPECT_EQ(chosen("iq4_xs", tensors_of(2048, 8192, false), known).at("blk.0.ffn_down.weight"), Format::kIQ4_XS);
  EXPECT_THROW(chosen("q2_k_s", tensors_of(2048, 8192, false)), Error);
  EXPECT_EQ(chosen("q2_k_s", tensors_of(2048, 8192, false), known).at("blk.4.ffn_up.weight"), Format::kQ2_K);
  EXPECT_EQ(find_mix("Q4_K"), find_mix("q4_k_m"));
  EXPECT_EQ(find_mix("q7"), nullptr);
}

}  // namespace
}  // namespace ingot
