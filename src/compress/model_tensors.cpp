#include "compress/model_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "compress/fold/fold.h"
#include "compress/gguf_check.h"
#include "compress/gguf_numbers.h"
#include "compress/gguf_vocabulary.h"
#include "compress/row_readers.h"
#include "files/gguf/gguf_writer.h"
#include "models/model.h"
#include "tensor/memory.h"
#include "weights/config.h"
#include "weights/weights.h"

namespace ingot {
namespace {

int64_t rows_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end() - 1, int64_t{1}, std::multiplies<>());
}

}  // namespace

int layer_number(std::string_view name, std::string_view prefix) {
  int layer = -1;
  if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  return layer;
}

int64_t ModelTensor::rows() const { return rows_of(shape); }

GgufModel::GgufModel(const std::string& path) : files_(ModelFiles::open(path)) {
  if (files_.is_gguf()) {
    read_gguf();
  } else {
    read_safetensors();
  }
}

GgufModel::~GgufModel() = default;

void GgufModel::fold(const Fold& fold) {
  fold.apply(tensors_, false, "output.weight");
  if (fold.unties()) hp_.tied = false;
}

// Names, order and metadata stay as they are: any architecture will do.
void GgufModel::read_gguf() {
  const Gguf& gguf = *files_.gguf;
  const Config config(files_);
  const ArchNames* names = nullptr;
  for (const Architecture* arch : architectures()) {
    if (std::ranges::find(arch->gguf_types, config.type()) != arch->gguf_types.end()) names = &arch->names;
  }
  mix_model_.arch = config.type();
  const auto number = [&](const char* key) {
    const GgufValue* value = gguf.find(config.type() + "." + key);
    if (value == nullptr || value->kind == GgufKind::kString || value->element == GgufKind::kString) return 0;
    return value->count == 0 ? 0 : visit_number(*value, 0, [](auto v) { return static_cast<int>(v); });
  };
  mix_model_.layers = number("block_count");
  mix_model_.heads = number("attention.head_count");
  mix_model_.kv_heads =
      gguf.has(config.type() + ".attention.head_count_kv") ? number("attention.head_count_kv") : mix_model_.heads;
  mix_model_.experts = number("expert_count");
  for (const GgufTensor& stored : gguf.tensors()) {
    ModelTensor tensor;
    tensor.name = stored.name;
    tensor.canonical = names != nullptr ? canonical_from_gguf(stored.name, *names) : "";
    if (tensor.canonical.empty()) tensor.canonical = stored.name;
    tensor.layer = layer_number(stored.name, "blk.");
    tensor.shape.assign(stored.dims.rbegin(), stored.dims.rend());
    // NVFP4's values are those of its blocks times a scale in another tensor: copied as it is, never rounded again.
    if (stored.type != *gguf_type(Format::kNVFP4)) tensor.stored = format_by_gguf_type(stored.type);
    tensor.stored_type = stored.type;
    tensor.stored_bytes = static_cast<int64_t>(stored.bytes);
    tensor.open = [&stored, format = tensor.stored, cols = tensor.cols(), rows = tensor.rows()] {
      RowReader reader;
      reader.stored = stored.data;
      if (format) {
        Weight weight;
        weight.format = *format;
        weight.rows = rows;
        weight.cols = cols;
        weight.row_bytes = format_row_bytes(*format, cols);
        weight.data = stored.data;
        weight.mapped = true;
        reader = read_weights({weight}, 0);
      }
      reader.done = [&stored] { give_back_pages(stored.data, static_cast<int64_t>(stored.bytes)); };
      return reader;
    };
    tensors_.push_back(std::move(tensor));
  }
}

void GgufModel::write_metadata(GgufWriter& writer) const {
  if (!files_.is_gguf()) {
    writer.set("general.architecture", mix_model_.arch);
    writer.set("general.type", "model");
    std::string name = std::filesystem::path(files_.path).lexically_normal().filename().string();
    if (name.empty()) name = std::filesystem::path(files_.path).lexically_normal().parent_path().filename().string();
    writer.set("general.name", name);
    write_gguf_numbers(writer, mix_model_.arch, hp_);
    write_gguf_vocabulary(writer, files_, hp_.vocab);
    return;
  }
  constexpr std::array<std::string_view, 10> kLeftOut = {
      "general.file_type",     "general.quantization_version", "general.alignment",     "split.no",
      "split.count",           "split.tensors.count",          "ingot.quantize.recipe", "ingot.quantize.source_sha256",
      "ingot.quantize.search", "ingot.quantize.text_sha256"};
  for (const GgufEntry& entry : files_.gguf->metadata()) {
    if (entry.key.starts_with("ingot.kv.")) continue;
    if (std::ranges::find(kLeftOut, entry.key) == kLeftOut.end()) writer.set(entry.key, entry.value);
  }
}

void GgufModel::check_numbers(const ModelFiles& written) const {
  if (files_.is_gguf()) return;
  check_same_numbers(hp_, Model::read_numbers(written),
                     arch_->name != std::string_view("mistral") && arch_->name != std::string_view("mixtral"));
}

}  // namespace ingot
