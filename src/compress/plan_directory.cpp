// A model as a directory of safetensors: the published names, plain or as compressed-tensors stores them.
#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/folder.h"
#include "base/sha256.h"
#include "compress/calibration_text.h"
#include "compress/directory_format.h"
#include "compress/fold/fold.h"
#include "compress/plan.h"
#include "files/manifest.h"
#include "models/model.h"
#include "tensor/memory.h"
#include "weights/config.h"
#include "weights/kv_scales.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using Kind = DirectoryFormat::Kind;

const DirectoryFormat& format_of(const std::string& name) {
  if (const DirectoryFormat* format = find_directory_format(name)) return *format;
  std::string known;
  for (const std::string& one : directory_formats()) known += (known.empty() ? "" : ", ") + one;
  throw Error("[quantize] '{}' is no format of directories; known are {} (others go into a .gguf file)", name, known);
}

bool is_float(std::string_view dtype) { return dtype == "F32" || dtype == "F16" || dtype == "BF16"; }

// The name that methods know a tensor by: multimodal checkpoints hold the decoder one level deeper.
std::string canonical_name(const std::string& name) {
  if (name.starts_with("language_model.")) return name.substr(15);
  if (name.starts_with("model.language_model.")) return "model." + name.substr(21);
  return name;
}

int layer_number(const std::string& canonical, const std::string& prefix) {
  return canonical.starts_with(prefix) ? std::atoi(canonical.c_str() + prefix.size()) : -1;
}

// Routers decide by small differences: they keep their bits.
bool is_router(std::string_view name) {
  return name.ends_with(".gate.weight") || name.ends_with(".router.weight") || name.ends_with("_gate.weight") ||
         name.ends_with(".router.layer.weight") || name.ends_with(".gate.wg.weight");
}

class DirectoryPlan : public QuantizePlan {
 public:
  explicit DirectoryPlan(const QuantizeOptions& options)
      : model_(ModelFiles::open(options.model)), format_(format_of(options.format)) {
    directory = true;
    check_source();
    recipe_ = recipe_text(options);
    source_ = source_hash(model_);
    choose_scales();
    texts_ = with_hash(calibration_hashes(model_), options.text_hash);
    kv_ = options.kv;
    read_tensors();
    add_kv_scales();
    if (options.fold) {
      options.fold->apply(model_tensors_, true, "lm_head.weight");
      unties_ = options.fold->unties();
    }
    for (size_t i = 0; i < model_tensors_.size(); ++i) add(i, options);
    place();
    std::string what = recipe_ + source_state(model_) + config_text();
    for (const auto& [spec, scales] : kv_values_)
      what.append(reinterpret_cast<const char*>(scales.data()), scales.size() * sizeof(float));
    identity = sha256_hex(std::as_bytes(std::span(what)));
    finish_notes();
  }

  void write_heads(const PartFiles& parts) const override {
    for (size_t f = 0; f < layout_.files.size(); ++f)
      parts.write(f, 0, std::as_bytes(std::span(layout_.files[f].header)));
    for (const auto& [spec, shape] : shapes_) {
      const SafeTensorPlace& place = layout_.places[spec];
      parts.write(place.file, place.offset, std::as_bytes(std::span(shape)));
    }
    for (const auto& [spec, scales] : kv_values_) {
      const SafeTensorPlace& place = layout_.places[spec];
      parts.write(place.file, place.offset, std::as_bytes(std::span(scales)));
    }
    const auto text = [&](const std::string& name, const std::string& content) {
      parts.add_file(name, std::as_bytes(std::span(content)));
    };
    text("config.json", config_text());
    if (!layout_.index.empty()) text("model.safetensors.index.json", layout_.index);
    int problem = 0;
    for (const std::string& name : names_in(model_.path, problem)) {
      if (!is_side_file(name) || name == "config.json" || name.ends_with(".index.json")) continue;
      text(name, read_text_file((fs::path(model_.path) / name).string()));
    }
  }

 private:
  void check_source() {
    if (model_.is_gguf())
      throw Error("[quantize] a directory is made of a Hugging Face directory, '{}' is GGUF", model_.path);
    std::error_code error;
    if (!fs::is_directory(model_.path, error))
      throw Error("[quantize] '{}' is no directory with config.json", model_.path);
    const Config config(model_);
    arch_ = &find_architecture(config);
    const Hparams hp = Model::read_numbers(model_);
    if (hp.transposed_linears && format_.kind != Kind::kFloat)
      throw Error("[quantize] '{}' keeps its matrices transposed: compressed-tensors has no layout for them", hp.arch);
    if (const JsonObject* quantized = find_object(model_.config, "quantization_config"))
      throw Error("[quantize] the model is compressed by '{}' already: a directory is made of the original",
                  get_string(*quantized, "quant_method", "another tool"));
  }

  // Scales are stored as the embedding is: readers load both in one type.
  void choose_scales() {
    for (const SafeTensor& tensor : model_.safetensors->tensors()) {
      if (tensor.name.find("embed") == std::string::npos && tensor.name.find("wte") == std::string::npos) continue;
      if (tensor.dtype == "F32") scales_ = ScaleType::kF32;
      if (tensor.dtype == "F16") scales_ = ScaleType::kF16;
      return;
    }
  }

  void read_tensors() {
    const std::vector<SafeTensor>& stored = model_.safetensors->tensors();
    for (const SafeTensor& one : stored) {
      if (kv_ != nullptr && is_kv_scale(one.name)) continue;
      ModelTensor tensor;
      tensor.name = one.name;
      tensor.canonical = canonical_name(one.name);
      tensor.layer = layer_number(tensor.canonical, arch_->names.layers_prefix);
      tensor.shape = one.shape.empty() ? std::vector<int64_t>{1} : one.shape;
      tensor.stored = format_by_name(one.dtype);
      tensor.stored_bytes = static_cast<int64_t>(one.bytes);
      tensor.open = [&one, format = tensor.stored.value_or(Format::kF32), cols = tensor.shape.back()] {
        RowReader reader;
        reader.stored = one.data;
        reader.read = [&one, format, cols](int64_t first, int64_t rows, float* out) {
          format_decode(format, one.data + first * format_row_bytes(format, cols), out, rows * cols);
        };
        reader.done = [&one] { give_back_pages(one.data, static_cast<int64_t>(one.bytes)); };
        return reader;
      };
      model_tensors_.push_back(std::move(tensor));
    }
  }

  // k_scale and v_scale of each layer with a cache, [kv heads, 1, 1], as compressed-tensors stores those of heads.
  void add_kv_scales() {
    for (size_t i = 0; kv_ != nullptr && i < kv_->layers.size(); ++i) {
      const KvScales::Layer& layer = kv_->layers[i];
      if (layer.k.empty()) continue;
      const std::string module = fmt::format("{}{}.self_attn", arch_->names.layers_prefix, i);
      const auto known = std::ranges::find_if(
          model_tensors_, [&](const ModelTensor& t) { return t.canonical.starts_with(module + "."); });
      if (known == model_tensors_.end())
        throw Error(
            "[kv] '{}' names its attention otherwise than 'self_attn': its directories have no place for scales",
            arch_->name);
      const std::string path = known->name.substr(0, known->name.find(".self_attn") + 10);
      const std::vector<int64_t> shape = {static_cast<int64_t>(layer.k.size()), 1, 1};
      for (const auto& [name, scales] : {std::pair{".k_scale", &layer.k}, std::pair{".v_scale", &layer.v}}) {
        kv_values_.emplace_back(specs_.size(), *scales);
        specs_.push_back({path + name, "F32", shape});
      }
    }
  }

  // The format of a tensor: what --tensor says, or the plan's for linears in layers; nothing: as it is stored.
  std::optional<DirectoryFormat> chosen(const ModelTensor& tensor, const QuantizeOptions& options) {
    const bool linear = tensor.shape.size() == 2 && tensor.name.ends_with(".weight") && tensor.shape[0] > 1;
    if (!tensor.stored || format_block(*tensor.stored) != 1 || !is_float(format_name_upper(*tensor.stored))) return {};
    for (const auto& [pattern, name] : options.tensors) {
      if (!name_matches(tensor.name, pattern) && !name_matches(tensor.canonical, pattern)) continue;
      const DirectoryFormat& format = format_of(name);
      if (format.kind != Kind::kFloat && format.kind != format_.kind)
        throw Error("[quantize] a directory has one kind of compression: '{}' does not go with '{}'", name,
                    format_.name);
      if (format.kind != Kind::kFloat && !linear) continue;
      return format;
    }
    if (format_.kind == Kind::kFloat) return format_;
    const bool ignored = std::ranges::any_of(arch_->names.ignorable,
                                             [&](const std::string& p) { return name_matches(tensor.canonical, p); });
    if (!linear || tensor.layer < 0 || is_router(tensor.name) || ignored ||
        tensor.name.find("norm") != std::string::npos)
      return {};
    return format_;
  }

  static std::string format_name_upper(Format format) {
    return format == Format::kF32 ? "F32" : format == Format::kF16 ? "F16" : format == Format::kBF16 ? "BF16" : "";
  }

  void add(size_t i, const QuantizeOptions& options) {
    const ModelTensor& tensor = model_tensors_[i];
    std::optional<DirectoryFormat> format = chosen(tensor, options);
    const bool linear = tensor.shape.size() == 2 && tensor.name.ends_with(".weight");
    const std::string module = linear ? tensor.name.substr(0, tensor.name.size() - 7) : tensor.name;
    if (format && format->kind != Kind::kFloat) {
      const std::optional<DirectoryFormat> fitting = format_for_rows(*format, tensor.cols());
      if (!fitting) {
        ++unfit_;
      } else if (fitting->group != format->group) {
        ++shrunk_;
      }
      format = fitting;
    }
    WorkTensor work;
    work.source = &tensor;
    first_spec_.push_back(specs_.size());
    if (!format || (format->kind == Kind::kFloat && *tensor.stored == format->format)) {
      work.copied = !tensor.changed;
      work.format = tensor.stored.value_or(Format::kF32);
      specs_.push_back(kept_spec(tensor));
      if (linear && tensor.layer >= 0) ignored_.push_back(module);
    } else if (format->kind == Kind::kFloat) {
      work.format = format->format;
      specs_.push_back(kept_spec(tensor));
      specs_.back().dtype = format_name_upper(format->format);
      if (linear && tensor.layer >= 0) ignored_.push_back(module);
    } else {
      work.format = format->format;
      for (SafeTensorSpec& spec : stored_parts(*format, module, tensor.rows(), tensor.cols(), scales_)) {
        if (spec.dtype == "I64")
          shapes_.emplace_back(specs_.size(), std::vector<int64_t>{tensor.rows(), tensor.cols()});
        specs_.push_back(std::move(spec));
      }
      groups_[*format].push_back(module);
      work.slab_multiple = slab_multiple(*format);
      if (format->group != INT4::kGroup) work.group = format->group;
      formats_[i] = *format;
    }
    tensors.push_back(std::move(work));
  }

  // Of a tensor that keeps its type.
  SafeTensorSpec kept_spec(const ModelTensor& tensor) const {
    if (const SafeTensor* stored = model_.safetensors->find(tensor.name))
      return {stored->name, stored->dtype, stored->shape};
    return {tensor.name, format_name_upper(*tensor.stored), tensor.shape};
  }

  void place() {
    layout_ = lay_out_safetensors(specs_, {{"format", "pt"}, {"ingot.quantize.recipe", recipe_}});
    for (const SafeTensorsLayout::File& file : layout_.files) files.push_back({file.name, file.bytes});
    for (size_t i = 0; i < tensors.size(); ++i) {
      WorkTensor& work = tensors[i];
      const size_t end = i + 1 < first_spec_.size() ? first_spec_[i + 1] : specs_.size();
      int64_t bytes = 0;
      for (size_t s = first_spec_[i]; s < end; ++s) {
        const SafeTensorPlace& place = layout_.places[s];
        bytes += static_cast<int64_t>(place.bytes);
        if (specs_[s].dtype != "I64" || work.copied) work.ranges.push_back({place.file, place.offset, place.bytes});
      }
      const auto format = formats_.find(i);
      if (format != formats_.end()) {
        work.make = [format = format->second, scales = scales_, ranges = work.ranges](
                        const TensorJob& job, std::span<float> values, const Rounder& rounder, const PartFiles& parts) {
          store_slab(format, job, values, rounder, scales, ranges, parts);
        };
      }
      const std::string name = format != formats_.end() ? group_name(format->second)
                               : work.copied            ? specs_[first_spec_[i]].dtype
                                                        : std::string(format_name(work.format));
      count_tensor(summary, *work.source, name, bytes);
    }
  }

  static std::string group_name(const DirectoryFormat& format) {
    return format.group > 0 ? fmt::format("{} g{}", format_name(format.format), format.group)
                            : std::string(format.name);
  }

  void finish_notes() {
    summary.fallbacks = shrunk_ + unfit_;
    if (shrunk_ > 0)
      summary.notes.push_back(fmt::format(
          "{} matrices have rows that are no whole groups of {}: their groups are smaller", shrunk_, format_.group));
    if (unfit_ > 0)
      summary.notes.push_back(
          fmt::format("{} matrices have rows that are no multiple of 32: they stay as they are", unfit_));
  }

  std::string config_text() const {
    JsonObject config = model_.config;
    if (format_.kind == Kind::kFloat) {
      const char* dtype = format_.format == Format::kBF16  ? "bfloat16"
                          : format_.format == Format::kF16 ? "float16"
                                                           : "float32";
      for (const char* key : {"torch_dtype", "dtype"}) {
        if (find(config, key) != nullptr) config[key] = dtype;
      }
    }
    if (unties_) config["tie_word_embeddings"] = false;
    if (!groups_.empty() || kv_ != nullptr) config["quantization_config"] = quantization_config();
    JsonObject own{{"recipe", recipe_}, {"source_sha256", source_}};
    if (!texts_.empty()) own["text_sha256"] = texts_;
    config["ingot_quantize"] = own;
    const std::vector<int> kept = kv_ != nullptr ? kv_->kept() : std::vector<int>();
    if (!kept.empty()) config["ingot_kv"] = JsonObject{{"keep", JsonArray(kept.begin(), kept.end())}};
    return to_json_pretty(config) + "\n";
  }

  // The largest group means all linears; others are named.
  JsonObject quantization_config() const {
    const auto most = std::ranges::max_element(
        groups_, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    JsonObject config_groups;
    for (const auto& [format, modules] : groups_) {
      JsonArray targets;
      if (&modules == &most->second) {
        targets.push_back("Linear");
      } else {
        for (const std::string& module : modules) targets.push_back(Json(module));
      }
      config_groups[fmt::format("group_{}", config_groups.size())] = config_group(format, std::move(targets));
    }
    JsonArray ignored{"lm_head"};
    for (const std::string& module : ignored_) ignored.push_back(Json(module));
    return {{"config_groups", config_groups},      {"format", groups_.empty() ? "dense" : compression_name(format_)},
            {"global_compression_ratio", nullptr}, {"ignore", ignored},
            {"kv_cache_scheme", kv_scheme()},      {"quant_method", "compressed-tensors"},
            {"quantization_status", "compressed"}};
  }

  Json kv_scheme() const {
    if (kv_ == nullptr) return nullptr;
    return JsonObject{{"num_bits", 8},           {"type", kv_->format == DType::kInt8 ? "int" : "float"},
                      {"strategy", "attn_head"}, {"symmetric", true},
                      {"dynamic", false},        {"group_size", nullptr}};
  }

  struct ByGroup {
    bool operator()(const DirectoryFormat& a, const DirectoryFormat& b) const {
      return std::pair(a.zero_points, a.group) < std::pair(b.zero_points, b.group);
    }
  };

  const ModelFiles model_;
  const DirectoryFormat& format_;
  const Architecture* arch_ = nullptr;
  std::string recipe_, source_;
  ScaleType scales_ = ScaleType::kBF16;
  std::vector<ModelTensor> model_tensors_;
  std::vector<SafeTensorSpec> specs_;
  std::vector<size_t> first_spec_;                               // of each tensor
  std::map<size_t, DirectoryFormat> formats_;                    // of those that become several tensors
  std::vector<std::pair<size_t, std::vector<int64_t>>> shapes_;  // tensors that hold a shape
  std::map<DirectoryFormat, std::vector<std::string>, ByGroup> groups_;
  std::vector<std::string> ignored_;
  SafeTensorsLayout layout_;
  std::shared_ptr<const KvScales> kv_;
  std::vector<std::pair<size_t, std::vector<float>>> kv_values_;  // tensors that hold scales of caches
  std::string texts_;                                             // hashes of those that the model was run with
  int shrunk_ = 0, unfit_ = 0;
  bool unties_ = false;  // the head gets a matrix of its own
};

}  // namespace

std::unique_ptr<QuantizePlan> plan_directory(const QuantizeOptions& options) {
  return std::make_unique<DirectoryPlan>(options);
}

}  // namespace ingot
