// A model as a directory of safetensors: the published names, plain or as compressed-tensors stores them.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/sha256.h"
#include "compress/calibration_text.h"
#include "compress/directory/directory_model.h"
#include "compress/directory_format.h"
#include "compress/fold/fold.h"
#include "compress/plan.h"
#include "models/model.h"
#include "weights/kv_scales.h"

namespace ingot {
namespace {

using Kind = DirectoryFormat::Kind;

const DirectoryFormat& format_of(const std::string& name) {
  if (const DirectoryFormat* format = find_directory_format(name)) return *format;
  std::string known;
  for (const std::string& one : directory_formats()) known += (known.empty() ? "" : ", ") + one;
  throw Error("[quantize] '{}' is no format of directories; known are {} (others go into a .gguf file)", name, known);
}

std::string format_name_upper(Format format) {
  return format == Format::kF32 ? "F32" : format == Format::kF16 ? "F16" : format == Format::kBF16 ? "BF16" : "";
}

// The one of directories that holds floats in this format.
const DirectoryFormat& float_format(Format format) { return *find_directory_format(format_name(format)); }

// Routers decide by small differences: they keep their bits.
bool is_router(std::string_view name) {
  return name.ends_with(".gate.weight") || name.ends_with(".router.weight") || name.ends_with("_gate.weight") ||
         name.ends_with(".router.layer.weight") || name.ends_with(".gate.wg.weight");
}

class DirectoryPlan : public QuantizePlan {
 public:
  explicit DirectoryPlan(const QuantizeOptions& options)
      : model_(DirectoryModel::open(options.model)),
        arch_(model_.arch),
        format_(format_of(options.format)),
        scales_(model_.scales),
        tensors_(model_.tensors) {
    directory = true;
    check_source(options);
    recipe_ = recipe_text(options);
    source_ = source_hash(model_.files);
    texts_ = with_hash(calibration_hashes(model_.files), options.text_hash);
    choose_kv_scales(options);
    add_kv_scales();
    if (options.fold) {
      options.fold->apply(tensors_, true, "lm_head.weight");
      unties_ = options.fold->unties();
    }
    for (size_t i = 0; i < tensors_.size(); ++i) add(i, options);
    place();
    std::string what = recipe_ + source_state(model_.files) + config_text();
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
    if (model_.files.is_gguf()) model_.check_numbers(plain_config(), parts.view(0, 0, files[0].bytes));
    text("config.json", config_text());
    if (!layout_.index.empty()) text("model.safetensors.index.json", layout_.index);
    model_.each_side_file(text);
  }

 private:
  void check_source(const QuantizeOptions& options) {
    if (model_.hp.transposed_linears && format_.kind != Kind::kFloat)
      throw Error("[quantize] '{}' keeps its matrices transposed: compressed-tensors has no layout for them",
                  model_.hp.arch);
    // Its factors are found for norms as GGUF has them; less 1 they would be rounded once more.
    if (options.fold && model_.norms_less_one)
      throw Error("[quantize] {} makes a directory of '{}' from its published directory, not from a GGUF file",
                  options.method, arch_->name);
  }

  // A GGUF file has them as metadata; those of a directory are tensors like others. A fold changes what they were
  // found for.
  void choose_kv_scales(const QuantizeOptions& options) {
    kv_ = options.kv;
    if (kv_ != nullptr) std::erase_if(tensors_, [](const ModelTensor& tensor) { return is_kv_scale(tensor.name); });
    if (kv_ != nullptr || options.fold || !model_.files.is_gguf()) return;
    if (std::optional<KvScales> own = KvScales::read(model_.files))
      kv_ = std::make_shared<const KvScales>(*std::move(own));
  }

  // k_scale and v_scale of each layer with a cache, [kv heads, 1, 1], as compressed-tensors stores those of heads.
  void add_kv_scales() {
    for (size_t i = 0; kv_ != nullptr && i < kv_->layers.size(); ++i) {
      const KvScales::Layer& layer = kv_->layers[i];
      if (layer.k.empty()) continue;
      const std::string module = fmt::format("{}{}.self_attn", arch_->names.layers_prefix, i);
      const auto known =
          std::ranges::find_if(tensors_, [&](const ModelTensor& t) { return t.canonical.starts_with(module + "."); });
      if (known == tensors_.end())
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

  // A matrix that rows are multiplied with; or the experts of a GGUF file, which become one each.
  bool is_linear(const ModelTensor& tensor) const {
    return (tensor.shape.size() == 2 || is_stack(tensor)) && tensor.name.ends_with(".weight");
  }
  bool is_stack(const ModelTensor& tensor) const { return model_.kept && tensor.shape.size() > 2; }

  bool means(const std::string& pattern, const ModelTensor& tensor) const {
    return name_matches(tensor.name, pattern) || name_matches(tensor.canonical, pattern) ||
           (model_.files.is_gguf() && name_matches(gguf_from_canonical(tensor.canonical, arch_->names), pattern));
  }

  // The format of a tensor: what --tensor says, or the plan's for linears in layers; nothing: as it is stored.
  std::optional<DirectoryFormat> chosen(const ModelTensor& tensor, const QuantizeOptions& options) const {
    const bool linear = is_linear(tensor) && tensor.rows() > 1;
    if (!model_.kept && (!tensor.stored || format_name_upper(*tensor.stored).empty())) return {};
    for (const auto& [pattern, name] : options.tensors) {
      if (!means(pattern, tensor)) continue;
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

  // As format_for_rows() has it, counted. A scale for each 8 bits is a rounding as int8's.
  std::optional<DirectoryFormat> fitted(const ModelTensor& tensor, const DirectoryFormat& format,
                                        const QuantizeOptions& options) {
    const std::optional<DirectoryFormat> fitting = format_for_rows(format, tensor.cols());
    if (!fitting) {
      ++unfit_;
    } else {
      shrunk_ += fitting->group != format.group;
      const Format to = format_block(format.format) == 1 ? Format::kINT8 : format.format;
      check_requantize(tensor, to, options, format.name);
    }
    return fitting;
  }

  void add(size_t i, const QuantizeOptions& options) {
    const ModelTensor& tensor = tensors_[i];
    std::optional<DirectoryFormat> format = chosen(tensor, options);
    if (format && format->kind != Kind::kFloat) format = fitted(tensor, *format, options);
    if (!format && model_.kept) format = float_format(*model_.kept);
    const bool stack = is_stack(tensor);
    WorkTensor work;
    work.source = &tensor;
    first_spec_.push_back(specs_.size());
    work.format = format ? format->format : tensor.stored.value_or(Format::kF32);
    if (!format || format->kind == Kind::kFloat) {
      work.copied = !tensor.changed && !model_.kept && (!format || *tensor.stored == format->format);
      if (!stack) specs_.push_back(kept_spec(tensor, format));
    } else {
      work.slab_multiple = slab_multiple(*format);
      if (format->group != INT4::kGroup) work.group = format->group;
    }
    if (format && (stack || format->kind != Kind::kFloat)) {
      for (int64_t e = 0; e < (stack ? tensor.shape[0] : 1); ++e) add_parts(tensor, *format, e);
      formats_[i] = *format;
    }
    if ((!format || format->kind == Kind::kFloat) && is_linear(tensor) && tensor.layer >= 0) ignore(tensor);
    tensors.push_back(std::move(work));
  }

  // Its modules keep their type: readers know them by their whole names, each expert's apart.
  void ignore(const ModelTensor& tensor) {
    const std::string module = tensor.name.substr(0, tensor.name.size() - 7);
    const int64_t experts = is_stack(tensor) ? tensor.shape[0] : 1;
    for (int64_t e = 0; e < experts; ++e) ignored_.push_back(expert_name(module, e));
  }

  // The tensors that stand for a matrix, or for that of an expert.
  void add_parts(const ModelTensor& tensor, const DirectoryFormat& format, int64_t expert) {
    const std::string module = expert_name(tensor.name.substr(0, tensor.name.size() - 7), expert);
    for (SafeTensorSpec& spec : stored_parts(format, module, tensor.expert_rows(), tensor.cols(), scales_)) {
      if (spec.dtype == "I64")
        shapes_.emplace_back(specs_.size(), std::vector<int64_t>{tensor.expert_rows(), tensor.cols()});
      specs_.push_back(std::move(spec));
    }
    if (format.kind != Kind::kFloat) groups_[format].push_back(module);
  }

  // Of a tensor that keeps its type, or becomes another float.
  SafeTensorSpec kept_spec(const ModelTensor& tensor, const std::optional<DirectoryFormat>& format) const {
    SafeTensorSpec spec{tensor.name, format_name_upper(tensor.stored.value_or(Format::kF32)), tensor.shape};
    const SafeTensor* stored = model_.kept ? nullptr : model_.files.safetensors->find(tensor.name);
    if (stored != nullptr) spec = {stored->name, stored->dtype, stored->shape};
    if (format) spec.dtype = format_name_upper(format->format);
    return spec;
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
        const auto each = work.ranges.size() / static_cast<size_t>(work.source->rows() / work.source->expert_rows());
        work.make = [format = format->second, scales = scales_, ranges = work.ranges, each](
                        const TensorJob& job, std::span<float> values, const Rounder& rounder, const PartFiles& parts) {
          const PartRange* first = ranges.data() + static_cast<size_t>(std::max(job.expert, 0)) * each;
          store_slab(format, job, values, rounder, scales, PartItem(first, first + each), parts);
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
    summary.notes = model_.notes;
    if (shrunk_ > 0)
      summary.notes.push_back(fmt::format(
          "{} matrices have rows that are no whole groups of {}: their groups are smaller", shrunk_, format_.group));
    if (unfit_ > 0)
      summary.notes.push_back(
          fmt::format("{} matrices have rows that are no multiple of 32: they stay as they are", unfit_));
  }

  JsonObject plain_config() const {
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
    return config;
  }

  std::string config_text() const {
    JsonObject config = plain_config();
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

  DirectoryModel model_;
  const Architecture* arch_;
  const DirectoryFormat& format_;
  const ScaleType scales_;
  std::vector<ModelTensor>& tensors_;
  std::string recipe_, source_;
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
