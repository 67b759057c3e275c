#include "compress/directory/directory_model.h"

#include <filesystem>

#include "base/error.h"
#include "base/folder.h"
#include "compress/gguf_check.h"
#include "files/manifest.h"
#include "models/model.h"
#include "tensor/memory.h"
#include "weights/config.h"
#include "weights/kv_scales.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// The name that methods know a tensor by: multimodal checkpoints hold the decoder one level deeper.
std::string canonical_name(const std::string& name) {
  if (name.starts_with("language_model.")) return name.substr(15);
  if (name.starts_with("model.language_model.")) return "model." + name.substr(21);
  return name;
}

ModelTensor published_tensor(const SafeTensor& stored, const ArchNames& names) {
  ModelTensor tensor;
  tensor.name = stored.name;
  tensor.canonical = canonical_name(stored.name);
  tensor.layer = layer_number(tensor.canonical, names.layers_prefix);
  tensor.shape = stored.shape.empty() ? std::vector<int64_t>{1} : stored.shape;
  tensor.stored = format_by_name(stored.dtype);
  tensor.stored_bytes = static_cast<int64_t>(stored.bytes);
  tensor.open = [&stored, format = tensor.stored.value_or(Format::kF32), cols = tensor.shape.back()] {
    RowReader reader;
    reader.stored = stored.data;
    reader.read = [&stored, format, cols](int64_t first, int64_t rows, float* out) {
      format_decode(format, stored.data + first * format_row_bytes(format, cols), out, rows * cols);
    };
    reader.done = [&stored] { give_back_pages(stored.data, static_cast<int64_t>(stored.bytes)); };
    return reader;
  };
  return tensor;
}

void read_directory(DirectoryModel& model) {
  std::error_code error;
  if (!fs::is_directory(model.files.path, error))
    throw Error("[quantize] '{}' is no directory with config.json", model.files.path);
  if (const JsonObject* quantized = find_object(model.files.config, "quantization_config"))
    throw Error("[quantize] the model is compressed by '{}' already: a directory is made of the original",
                get_string(*quantized, "quant_method", "another tool"));
  model.config = model.files.config;
  for (const SafeTensor& tensor : model.files.safetensors->tensors())
    model.tensors.push_back(published_tensor(tensor, model.arch->names));
  // Readers load scales and embedding in one type.
  for (const SafeTensor& tensor : model.files.safetensors->tensors()) {
    if (tensor.name.find("embed") == std::string::npos && tensor.name.find("wte") == std::string::npos) continue;
    if (tensor.dtype == "F32") model.scales = ScaleType::kF32;
    if (tensor.dtype == "F16") model.scales = ScaleType::kF16;
    return;
  }
}

}  // namespace

DirectoryModel DirectoryModel::open(const std::string& path) {
  DirectoryModel model;
  model.files = ModelFiles::open(path);
  const Config config(model.files);
  if (model.files.is_gguf()) {
    read_gguf_as_directory(model);
    return model;
  }
  model.arch = &find_architecture(config);
  model.hp = Model::read_numbers(model.files);
  read_directory(model);
  return model;
}

void DirectoryModel::each_side_file(
    const std::function<void(const std::string& name, const std::string& content)>& write) const {
  for (const auto& [name, content] : made) write(name, content);
  if (files.is_gguf()) return;
  int problem = 0;
  for (const std::string& name : names_in(files.path, problem)) {
    if (!is_side_file(name) || name == "config.json" || name.ends_with(".index.json")) continue;
    write(name, read_text_file((fs::path(files.path) / name).string()));
  }
}

void DirectoryModel::check_numbers(const JsonObject& written, std::span<const std::byte> safetensors) const {
  ModelFiles read;
  read.path = files.path;
  read.config = written;
  read.safetensors = std::make_unique<SafeTensors>(SafeTensors::parse(safetensors, "the file to write"));
  Hparams want = hp;
  want.tied = get_bool(written, "tie_word_embeddings");
  check_same_numbers(want, Model::read_numbers(read), true, "config.json");
}

std::string expert_name(std::string name, int64_t expert) {
  if (const size_t star = name.find('*'); star != std::string::npos) name.replace(star, 1, fmt::format("{}", expert));
  return name;
}

}  // namespace ingot
