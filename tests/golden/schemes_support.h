// Checkpoints of one small Llama as other tools compress and publish it: where they lie, and what the logits must be.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "golden/support.h"
#include "graph/traits.h"

namespace ingot {

inline std::string scheme_path(const std::string& name) { return test_data("quant/" + name); }
inline Json scheme_expected(const std::string& name) { return read_json_file(scheme_path(name) + "/expected.json"); }

// A new folder is a new test.
inline std::vector<std::string> scheme_names() {
  std::vector<std::string> names = test_data_names("quant");
  std::erase_if(names, [](const std::string& name) {
    if (!std::filesystem::exists(scheme_path(name) + "/expected.json")) return true;
    const Json all = scheme_expected(name);
    return find(as_object(all, "expected"), "checksums") == nullptr;
  });
  return names;
}

inline std::string scheme_test_name(const testing::TestParamInfo<std::string>& folder) {
  std::string name = folder.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

// Values that no format of ours holds are kept in f16, 11 bits: columns of one group that lie apart, tables of floats.
inline bool is_rounded(const Weight& weight) { return weight.format == Format::kF16; }

// The last row's error is at most `most` of its square; `exact`: every row's largest is the reference's, its
// log-sum-exp within a thousandth, five where weights are rounded.
inline void expect_scheme_logits(const std::string& name, const RunSetup& setup, double most, bool exact) {
  const Json all = scheme_expected(name);
  const JsonObject& want = as_object(all, "expected");
  const std::vector<int32_t> tokens = int_list(want, "token_ids"), argmax = int_list(want, "argmax");
  const std::vector<float> logsumexp = float_list(*find_array(want, "logsumexp"));
  TestEngine test(scheme_path(name), setup);
  double near = 1e-3;
  for (const Node& node : test.model->graph.nodes)
    each_matrix(node.op, [&](const Weight& w, const PackedWeight*) { near = is_rounded(w) ? 5e-3 : near; });
  const auto rows = all_logits(*test.engine, tokens);
  ASSERT_EQ(rows.size(), tokens.size());
  EXPECT_LE(nmse(rows.back(), float_list(*find_array(want, "logits_last"))), most);
  for (size_t i = 0; exact && i < rows.size(); ++i) {
    EXPECT_EQ(std::ranges::max_element(rows[i]) - rows[i].begin(), argmax[i]) << "position " << i;
    double sum = 0;
    for (const float logit : rows[i]) sum += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(std::log(sum), logsumexp[i], near) << "position " << i;
  }
}

}  // namespace ingot
