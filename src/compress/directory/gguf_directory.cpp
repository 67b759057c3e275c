// The tensors of a GGUF file as a directory has them: the inverse of model_tensors_directory.cpp.
#include <algorithm>

#include "base/error.h"
#include "compress/directory/directory_config.h"
#include "compress/directory/directory_model.h"
#include "compress/directory/directory_vocabulary.h"
#include "compress/row_readers.h"
#include "models/model.h"
#include "tensor/memory.h"
#include "weights/config.h"

namespace ingot {
namespace {

const Architecture& architecture_named(std::string_view name) {
  return **std::ranges::find_if(architectures(), [&](const Architecture* arch) { return arch->name == name; });
}

// Experts that are a stack in GGUF are tensors of their own here.
std::string published_name(const GgufTensor& stored, const Architecture& arch) {
  std::string name = canonical_from_gguf(stored.name, arch.names);
  const size_t at = name.find(".experts.");
  if (at == std::string::npos) return name;
  name.insert(at + 9, "*.");
  if (std::string_view(arch.name) != "mixtral") return name;
  for (const auto& [usual, own] : {std::pair{".mlp.", ".block_sparse_moe."},
                                   {".gate_proj.", ".w1."},
                                   {".up_proj.", ".w3."},
                                   {".down_proj.", ".w2."}}) {
    if (const size_t part = name.find(usual); part != std::string::npos)
      name.replace(part, std::string_view(usual).size(), own);
  }
  return name;
}

// The rows of one head where the file has them in the order of interleaved rotation; else 0.
int64_t permuted_head_rows(const std::string& name, int64_t rows, const DirectoryModel& model) {
  const bool q = name.find(".attn_q.") != std::string::npos, k = name.find(".attn_k.") != std::string::npos;
  if (!model.arch->names.gguf_permuted_qk || !(q || k)) return 0;
  const int heads = q ? model.hp.heads : model.hp.kv_heads;
  if (rows % (2 * heads) != 0) throw Error("[quantize] '{}': {} rows are not {} heads", name, rows, heads);
  return rows / heads;
}

RowReader vector_reader(const GgufTensor& stored, Format format, int64_t head_rows, float offset) {
  const int64_t n = stored.dims[0];
  std::vector<float> values(static_cast<size_t>(n)), out(values);
  format_decode(format, stored.data, values.data(), n);
  Weight order;
  order.head_rows = head_rows;
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] = values[static_cast<size_t>(order.stored_row(i))] + offset;
  return read_floats(std::move(out), n);
}

RowReader matrix_reader(const GgufTensor& stored, Format format, int64_t rows, int64_t head_rows) {
  Weight weight;
  weight.name = stored.name;
  weight.format = format;
  weight.rows = rows;
  weight.cols = stored.dims[0];
  weight.row_bytes = format_row_bytes(format, weight.cols);
  weight.data = stored.data;
  weight.head_rows = head_rows;
  weight.mapped = true;
  RowReader reader = read_weights({weight}, 0);
  reader.stored = nullptr;
  reader.done = [&stored] { give_back_pages(stored.data, static_cast<int64_t>(stored.bytes)); };
  return reader;
}

ModelTensor tensor_of(const GgufTensor& stored, const DirectoryModel& model, const Architecture& named) {
  ModelTensor tensor;
  tensor.canonical = canonical_from_gguf(stored.name, model.arch->names);
  tensor.name = published_name(stored, named);
  if (tensor.canonical.empty() || tensor.name.empty())
    throw Error("[quantize] '{}' has no name in a directory of {}", stored.name, named.name);
  tensor.stored = format_by_gguf_type(stored.type);
  if (!tensor.stored) throw Error("[quantize] '{}' is stored as type {}, which is not read", stored.name, stored.type);
  if (tensor.stored == Format::kNVFP4)
    throw Error("[quantize] '{}' is in nvfp4 with a scale beside it: no directory is made of it", stored.name);
  tensor.layer = layer_number(stored.name, "blk.");
  tensor.shape.assign(stored.dims.rbegin(), stored.dims.rend());
  tensor.stored_bytes = static_cast<int64_t>(stored.bytes);
  const Format format = *tensor.stored;
  if (tensor.shape.size() == 1) {
    if (format_block(format) != 1) throw Error("[quantize] '{}' is a vector in {}", stored.name, format_name(format));
    const float offset = model.norms_less_one && stored.name.ends_with("norm.weight") ? -1.0f : 0.0f;
    tensor.open = [&stored, format, offset, head_rows = permuted_head_rows(stored.name, stored.dims[0], model)] {
      return vector_reader(stored, format, head_rows, offset);
    };
    return tensor;
  }
  const int64_t rows = tensor.rows();
  tensor.open = [&stored, format, rows, head_rows = permuted_head_rows(stored.name, rows, model)] {
    return matrix_reader(stored, format, rows, head_rows);
  };
  return tensor;
}

// The type of the embedding, where it is one that directories have.
void choose_kept(DirectoryModel& model) {
  const GgufTensor* embedding = model.files.gguf->find_tensor("token_embd.weight");
  const std::optional<Format> stored =
      embedding != nullptr ? format_by_gguf_type(embedding->type) : std::optional<Format>();
  model.kept = stored == Format::kF32 || stored == Format::kF16 ? *stored : Format::kBF16;
  model.scales = model.kept == Format::kF32   ? ScaleType::kF32
                 : model.kept == Format::kF16 ? ScaleType::kF16
                                              : ScaleType::kBF16;
}

}  // namespace

void read_gguf_as_directory(DirectoryModel& model) {
  const Gguf& gguf = *model.files.gguf;
  const Config config(model.files);
  const bool experts = config.number("", "expert_count").value_or(0) > 0;
  const DirectoryTarget& target = directory_target(config.type(), experts);
  const Architecture& named = architecture_named(target.arch);
  model.arch = &find_architecture(config);
  // A file that the engine refuses becomes no directory: one that lacks a tensor, or has one that nobody reads.
  model.hp = Model::load(model.files.path, {}).hp;
  model.norms_less_one = target.gguf == "gemma2" || target.gguf == "gemma3";
  choose_kept(model);
  const char* dtype = model.kept == Format::kF32 ? "float32" : model.kept == Format::kF16 ? "float16" : "bfloat16";
  model.config = directory_config(target, model.hp, dtype);
  DirectoryVocabulary vocabulary = directory_vocabulary(gguf, model.hp.context);
  for (const auto& id : vocabulary.ids) model.config[id.key()] = id.value();
  if (vocabulary.files.empty()) model.notes.emplace_back("the file has no vocabulary: neither has the directory");
  model.made = std::move(vocabulary.files);
  for (const GgufTensor& stored : gguf.tensors()) {
    // The factors of rope are numbers of config.json.
    if (stored.name.starts_with("rope_")) continue;
    ModelTensor tensor = tensor_of(stored, model, named);
    if (tensor.layer < model.hp.layers) model.tensors.push_back(std::move(tensor));
  }
}

}  // namespace ingot
