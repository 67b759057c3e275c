#include "compress/model_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/error.h"
#include "compress/fold/fold.h"
#include "compress/gguf_numbers.h"
#include "compress/gguf_vocabulary.h"
#include "files/gguf/gguf_writer.h"
#include "models/model.h"
#include "tensor/memory.h"
#include "weights/config.h"
#include "weights/weights.h"

namespace ingot {
namespace {

// The architectures of Hugging Face whose GGUF files are known: ours and GGUF's name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kTargets = {{{"llama", "llama"},
                                                                                     {"mistral", "llama"},
                                                                                     {"mixtral", "llama"},
                                                                                     {"qwen2", "qwen2"},
                                                                                     {"qwen3", "qwen3"},
                                                                                     {"qwen2_moe", "qwen2moe"},
                                                                                     {"qwen3_moe", "qwen3moe"},
                                                                                     {"olmoe", "olmoe"},
                                                                                     {"gemma2", "gemma2"},
                                                                                     {"gemma3", "gemma3"},
                                                                                     {"granite", "granite"},
                                                                                     {"phi3", "phi3"},
                                                                                     {"olmo2", "olmo2"},
                                                                                     {"smollm3", "smollm3"},
                                                                                     {"glm4", "glm4"},
                                                                                     {"gpt2", "gpt2"}}};

std::string_view gguf_name_of(std::string_view arch) {
  std::string known;
  for (const auto& [ours, gguf] : kTargets) {
    if (ours == arch) return gguf;
    known += (known.empty() ? "" : ", ") + std::string(ours);
  }
  throw Error("[quantize] '{}' cannot be written as GGUF; {} can", arch, known);
}

// The number behind the layers' prefix; -1: the tensor lies in no layer.
int layer_number(std::string_view name, std::string_view prefix) {
  int layer = -1;
  if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  return layer;
}

bool is_scale(std::string_view name) {
  return name.ends_with("_scale") || name.ends_with("_scale_inv") || name.ends_with(".input_scale");
}

int64_t rows_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end() - 1, int64_t{1}, std::multiplies<>());
}

// Row r of a file whose heads are in the order of interleaved rotation, in the order of a model.
int64_t rotated_row(int64_t r, int64_t head_rows) {
  const int64_t in_head = r % head_rows;
  return r - in_head + in_head % 2 * (head_rows / 2) + in_head / 2;
}

// Matrices of one shape one behind the other.
RowReader read_weights(std::vector<Weight> parts, int64_t head_rows) {
  RowReader reader;
  const Weight& first = parts[0];
  if (parts.size() == 1 && head_rows == 0 && first.scale == nullptr) reader.stored = first.data;
  auto shared = std::make_shared<const std::vector<Weight>>(std::move(parts));
  reader.read = [shared, head_rows](int64_t begin, int64_t rows, float* out) {
    const int64_t each = (*shared)[0].rows, cols = (*shared)[0].cols;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t r = head_rows > 0 ? rotated_row(begin + i, head_rows) : begin + i;
      (*shared)[static_cast<size_t>(r / each)].decode_row(r % each, out + i * cols);
    }
  };
  reader.done = [shared] {
    for (const Weight& weight : *shared) {
      if (weight.mapped) give_back_pages(weight.data, weight.bytes());
    }
  };
  return reader;
}

RowReader read_floats(std::vector<float> values) {
  auto shared = std::make_shared<const std::vector<float>>(std::move(values));
  RowReader reader;
  reader.stored = reinterpret_cast<const std::byte*>(shared->data());
  reader.read = [shared](int64_t begin, int64_t rows, float* out) {
    CHECK(begin == 0 && rows == 1, "rows {} + {} of a vector", begin, rows);
    std::copy(shared->begin(), shared->end(), out);
  };
  reader.done = [] {};
  return reader;
}

}  // namespace

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

void GgufModel::read_safetensors() {
  const Config config(files_);
  arch_ = &find_architecture(config);
  mix_model_.arch = gguf_name_of(arch_->name);
  hp_ = Model::read_numbers(files_);
  mix_model_.layers = hp_.layers;
  mix_model_.heads = hp_.heads;
  mix_model_.kv_heads = hp_.kv_heads;
  mix_model_.experts = hp_.experts.count;
  if (mix_model_.arch == "llama" && std::ranges::any_of(hp_.sliding, [](bool s) { return s; }))
    warnings_.push_back(
        fmt::format("GGUF's 'llama' has no sliding window: that of {} positions is left out", hp_.window));
  weights_ = std::make_unique<Weights>(open_source(files_, arch_->names));
  std::set<std::string> experts;
  for (const std::string& name : weights_->source().names()) {
    if (is_scale(name) || (hp_.tied && name == "lm_head.weight")) continue;
    const size_t at = name.find(".experts.");
    if (at == std::string::npos) {
      add_stored(name);
    } else if (const std::string path = name.substr(0, at + 8); experts.insert(path).second) {
      add_experts(path, layer_number(name, arch_->names.layers_prefix));
    }
  }
  add_rope_factors();
}

void GgufModel::add_stored(const std::string& name) {
  const StoredWeight& stored = *weights_->source().find(name, {});
  if (stored.bytes) throw Error("[quantize] '{}' is stored as plain bytes, not as numbers", name);
  ModelTensor tensor;
  tensor.name = gguf_from_canonical(name, arch_->names);
  tensor.canonical = name;
  tensor.layer = layer_number(name, arch_->names.layers_prefix);
  tensor.shape = stored.shape;
  while (tensor.shape.size() > 1 && tensor.shape[0] == 1) tensor.shape.erase(tensor.shape.begin());
  if (tensor.shape.empty()) throw Error("[quantize] '{}' is a single number, which GGUF has no place for", name);
  const bool q = tensor.name.find(".attn_q.") != std::string::npos;
  const bool k = tensor.name.find(".attn_k.") != std::string::npos;
  const int heads = !arch_->names.gguf_permuted_qk || !(q || k) ? 0 : q ? hp_.heads : hp_.kv_heads;
  tensor.stored_bytes = stored.stored_bytes > 0 ? stored.stored_bytes : 0;
  if (tensor.shape.size() == 1) {
    tensor.stored = Format::kF32;
    const float offset = name.ends_with("norm.weight") ? hp_.norm_offset : 0.0f;
    tensor.open = [this, name, heads, offset, n = tensor.cols()] {
      const Weight vector = weights_->vector(name, n, offset);
      const auto* values = reinterpret_cast<const float*>(vector.data);
      std::vector<float> copy(values, values + n);
      for (int64_t i = 0; heads > 0 && i < n; ++i) copy[static_cast<size_t>(i)] = values[rotated_row(i, n / heads)];
      return read_floats(std::move(copy));
    };
    tensors_.push_back(std::move(tensor));
    return;
  }
  // GPT-2 publishes its linears transposed, and its tables as they are.
  const bool turned = hp_.transposed_linears && tensor.layer >= 0;
  if (turned) std::swap(tensor.shape[0], tensor.shape[1]);
  const int64_t rows = tensor.rows(), cols = tensor.cols();
  if (heads > 0 && rows % (2 * heads) != 0) throw Error("[quantize] '{}': {} rows are not {} heads", name, rows, heads);
  tensor.stored = stored.format;
  tensor.open = [this, name, rows, cols, turned, head_rows = heads > 0 ? rows / heads : 0] {
    RowReader reader = read_weights({weights_->take(name, rows, cols, {.transposed = turned})}, head_rows);
    reader.done = [this, given = reader.done] {
      given();
      weights_->source().release([](const std::byte*) { return true; });
    };
    return reader;
  };
  tensors_.push_back(std::move(tensor));
}

void GgufModel::add_experts(const std::string& path, int layer) {
  const ExpertParams& experts = hp_.experts;
  constexpr std::array<std::pair<ExpertPart, std::string_view>, 3> kParts = {
      {{ExpertPart::kGate, "gate"}, {ExpertPart::kUp, "up"}, {ExpertPart::kDown, "down"}}};
  for (const auto& [part, word] : kParts) {
    const bool down = part == ExpertPart::kDown;
    const int64_t rows = down ? hp_.hidden : experts.ffn, cols = down ? experts.ffn : hp_.hidden;
    ModelTensor tensor;
    tensor.name = fmt::format("blk.{}.ffn_{}_exps.weight", layer, word);
    tensor.canonical = fmt::format("{}.{}_proj.weight", path, word);
    tensor.layer = layer;
    tensor.shape = {experts.count, rows, cols};
    const std::vector<Weight> all = weights_->experts(path, part, experts.count, rows, cols);
    tensor.stored = all[0].format;
    tensor.stored_bytes = experts.count * all[0].bytes();
    tensor.open = [this, path, part = part, rows, cols] {
      return read_weights(weights_->experts(path, part, hp_.experts.count, rows, cols), 0);
    };
    tensors_.push_back(std::move(tensor));
  }
}

void GgufModel::add_rope_factors() {
  if (std::ranges::none_of(hp_.uses_rope, [](bool r) { return r; })) return;
  if (hp_.rope.kind == RopeKind::kLlama3 && mix_model_.arch != "llama" && mix_model_.arch != "granite")
    throw Error("[quantize] GGUF's '{}' has no rope of the kind 'llama3'", mix_model_.arch);
  for (RopeFactors& factors : rope_factors(hp_.rope)) add_vector(factors.name, std::move(factors.values));
}

void GgufModel::add_vector(const std::string& name, std::vector<float> values) {
  ModelTensor tensor;
  tensor.name = tensor.canonical = name;
  tensor.shape = {static_cast<int64_t>(values.size())};
  tensor.stored = Format::kF32;
  tensor.open = [values = std::move(values)] { return read_floats(values); };
  tensors_.push_back(std::move(tensor));
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
