// Experts of published checkpoints as GGUF files hold them: one tensor for each part, whatever they were stored in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ingot {

struct GgufStacks {
  struct Stack {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Stack> all;  // by their GGUF names

  // Takes what is an expert's, or several's. False: it is none.
  bool add(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    const std::string layers = "model.layers.";
    if (!name.starts_with(layers)) return false;
    const std::string layer = "blk." + name.substr(layers.size(), name.find('.', layers.size()) - layers.size()) + ".";
    if (name.find(".experts.gate_up_proj") != std::string::npos) return join(layer, "_exps", turned(shape, values));
    if (name.ends_with(".experts.down_proj")) return put(layer + "ffn_down_exps.weight", turned(shape, values));
    if (name.ends_with("moe.input_linear.weight")) return join(layer, "_exps", {shape, values});
    if (name.ends_with("moe.output_linear.weight")) return put(layer + "ffn_down_exps.weight", {shape, values});
    if (name.ends_with("shared_mlp.input_linear.weight"))
      return join(layer, "_shexp", {{1, shape[0], shape[1]}, values});
    if (name.ends_with("shared_mlp.output_linear.weight")) return put(layer + "ffn_down_shexp.weight", {shape, values});
    const size_t at = name.find(".experts.");
    if (at == std::string::npos) return false;
    return one(layer, name.substr(at + 9), shape, values);
  }

 private:
  // [E, K, N] as [E, N, K].
  static Stack turned(const std::vector<int64_t>& shape, const std::vector<float>& values) {
    Stack out{{shape[0], shape[2], shape[1]}, std::vector<float>(values.size())};
    const auto k_most = static_cast<size_t>(shape[1]), n_most = static_cast<size_t>(shape[2]);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t e = i / (k_most * n_most), k = i / n_most % k_most, n = i % n_most;
      out.values[(e * n_most + n) * k_most + k] = values[i];
    }
    return out;
  }

  bool put(const std::string& name, Stack stack) {
    all[name] = std::move(stack);
    return true;
  }

  // Gate before up in each expert.
  bool join(const std::string& layer, const std::string& suffix, const Stack& both) {
    const int64_t count = both.shape[0], half = both.shape[1] / 2 * both.shape[2];
    for (const bool up : {false, true}) {
      Stack part{{count, both.shape[1] / 2, both.shape[2]}, {}};
      for (int64_t e = 0; e < count; ++e) {
        const auto first = both.values.begin() + (2 * e + (up ? 1 : 0)) * half;
        part.values.insert(part.values.end(), first, first + half);
      }
      if (suffix == "_shexp") part.shape.erase(part.shape.begin());
      all[layer + (up ? "ffn_up" : "ffn_gate") + suffix + ".weight"] = std::move(part);
    }
    return true;
  }

  // "3.gate_proj.weight", or "3.w1.weight".
  bool one(const std::string& layer, const std::string& rest, const std::vector<int64_t>& shape,
           const std::vector<float>& values) {
    const auto index = static_cast<size_t>(std::stoi(rest));
    std::string part = rest.substr(rest.find('.') + 1);
    part = part.substr(0, part.find_first_of("_."));
    if (part == "w1") part = "gate";
    if (part == "w2") part = "down";
    if (part == "w3") part = "up";
    Stack& stack = all[layer + "ffn_" + part + "_exps.weight"];
    if (stack.values.size() < (index + 1) * values.size()) stack.values.resize((index + 1) * values.size());
    std::ranges::copy(values, stack.values.begin() + static_cast<int64_t>(index * values.size()));
    stack.shape = {static_cast<int64_t>(stack.values.size() / values.size()), shape[0], shape[1]};
    return true;
  }
};

}  // namespace ingot
