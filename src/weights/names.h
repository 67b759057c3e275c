// One naming of weights whatever the file: the Hugging Face one. What an architecture says about its
// published names is an ArchNames; the tables here serve all.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

struct ArchNames {
  // What every weight of the decoder begins with ("model."). Files of the bare decoder leave it out.
  std::string prefix = "model.";
  // GGUF names of this architecture where they differ from the common table: {"ffn_up", "mlp.gate_up_proj"}.
  // A layer's are given without "blk.N." and map below layers_prefix; others map to whole names.
  std::vector<std::pair<std::string, std::string>> gguf_layer = {};
  std::vector<std::pair<std::string, std::string>> gguf_global = {};
  std::string layers_prefix = "model.layers.";
  // GGUF files of this architecture hold the rows of q and k in the order of interleaved rotation.
  bool gguf_permuted_qk = false;
  // Stored weights that no graph reads, as patterns with '*' for any run of characters.
  std::vector<std::string> ignorable = {};
};

// The canonical name of a GGUF tensor ("blk.3.attn_q.weight" → "model.layers.3.self_attn.q_proj.weight"), or an
// empty string where the table has none.
std::string canonical_from_gguf(std::string_view gguf_name, const ArchNames& arch);

// The inverse, for the writer. Throws Error where there is none.
std::string gguf_from_canonical(std::string_view name, const ArchNames& arch);

// Whether `name` matches `pattern`, where '*' stands for any run of characters.
bool name_matches(std::string_view name, std::string_view pattern);

}  // namespace ingot
