// A model as one GGUF file.
#include <algorithm>

#include "base/error.h"
#include "base/sha256.h"
#include "compress/calibration_text.h"
#include "compress/mix.h"
#include "compress/plan.h"
#include "files/gguf/gguf_writer.h"
#include "weights/kv_scales.h"
#include "weights/names.h"

namespace ingot {
namespace {

constexpr uint32_t kQuantizationVersion = 2;  // of the formats' layouts, as llama.cpp counts them

Format gguf_format(const std::string& name) {
  const std::optional<Format> format = format_by_name(name);
  if (!format) throw Error("[quantize] '{}' is no format", name);
  if (!gguf_type(*format)) throw Error("[quantize] GGUF has no type for {}: it goes into a directory", name);
  if (*format == Format::kNVFP4) throw Error("[quantize] nvfp4, with a scale for each tensor, is read and not written");
  return *format;
}

const Mix& mix_of(const std::string& name) {
  if (const Mix* mix = find_mix(name)) return *mix;
  if (const std::optional<Format> format = format_by_name(name); format && !gguf_type(*format))
    throw Error("[quantize] GGUF has no type for {}: it goes into a directory", name);
  const std::vector<std::string> others = directory_formats();
  if (std::ranges::find(others, name) != others.end())
    throw Error("[quantize] GGUF has no type for {}: it goes into a directory", name);
  std::string known;
  for (const std::string& one : mix_names()) known += (known.empty() ? "" : ", ") + one;
  throw Error("[quantize] '{}' is no format of GGUF files; known are {}", name, known);
}

class GgufPlan : public QuantizePlan {
 public:
  explicit GgufPlan(const QuantizeOptions& options) : model_(options.model) {
    const Mix& mix = mix_of(options.format);
    if (options.fold) model_.fold(*options.fold);
    choose(mix, options);
    model_.write_metadata(writer_);
    writer_.set("general.file_type", mix.file_type);
    writer_.set("general.quantization_version", kQuantizationVersion);
    const std::string recipe = recipe_text(options), source = source_hash(model_.files());
    writer_.set("ingot.quantize.recipe", recipe);
    writer_.set("ingot.quantize.source_sha256", source);
    if (!options.search.empty()) writer_.set("ingot.quantize.search", options.search);
    const std::string texts = with_hash(calibration_hashes(model_.files()), options.text_hash);
    if (!texts.empty()) writer_.set("ingot.quantize.text_sha256", texts);
    write_kv_scales(options);
    for (WorkTensor& work : tensors) add(work, options);
    header_ = writer_.header();
    for (size_t i = 0; i < tensors.size(); ++i)
      tensors[i].ranges = {{0, writer_.tensor_offset(i, header_.size()), writer_.tensor_bytes(i)}};
    files = {{.name = "", .bytes = writer_.file_bytes(header_.size())}};
    if (kept_ > 0) summary.notes.push_back(fmt::format("{} matrices in nvfp4 stay as they are", kept_));
    summary.notes.insert(summary.notes.end(), model_.warnings().begin(), model_.warnings().end());
    const std::string what = recipe + source_state(model_.files()) + header_;
    identity = sha256_hex(std::as_bytes(std::span(what)));
  }

  void write_heads(const PartFiles& parts) const override {
    parts.write(0, 0, std::as_bytes(std::span(header_)));
    // The factors of rope are numbers of the model, too: they are read with it.
    for (const WorkTensor& work : tensors) {
      if (!work.source->name.starts_with("rope_") || model_.files().is_gguf()) continue;
      const RowReader reader = work.source->open();
      const PartRange& range = work.ranges[0];
      parts.write(0, range.offset, {reader.stored, static_cast<size_t>(range.bytes)});
    }
    ModelFiles written;
    written.gguf = std::make_unique<Gguf>(Gguf::parse(parts.view(0, 0, files[0].bytes), "the file to write"));
    model_.check_numbers(written);
  }

 private:
  // A fold changes values: what was found before it does not fit them.
  void write_kv_scales(const QuantizeOptions& options) {
    std::optional<KvScales> own;
    if (options.kv == nullptr && options.fold == nullptr) own = KvScales::read(model_.files());
    if (options.kv != nullptr) own = *options.kv;
    if (own) own->write(writer_);
  }

  void choose(const Mix& mix, const QuantizeOptions& options) {
    std::vector<MixTensor> named;
    for (const ModelTensor& tensor : model_.tensors()) named.push_back({tensor.name, tensor.shape});
    MixOptions choice{.pure = options.pure, .importances = static_cast<bool>(options.importances), .tensors = {}};
    for (const auto& [pattern, format] : options.tensors) {
      choice.tensors.emplace_back(pattern, gguf_format(format));
      // A pattern may also mean the names of Hugging Face.
      bool met = false;
      for (size_t i = 0; i < named.size(); ++i) {
        met = met || name_matches(named[i].name, pattern);
        if (!name_matches(model_.tensors()[i].canonical, pattern)) continue;
        choice.tensors.emplace_back(named[i].name, gguf_format(format));
        met = true;
      }
      if (!met) throw Error("[quantize] no tensor is named like '{}'", pattern);
    }
    const std::vector<MixChoice> choices = choose_mix(mix, model_.mix_model(), named, choice);
    for (size_t i = 0; i < choices.size(); ++i) {
      WorkTensor work;
      work.source = &model_.tensors()[i];
      summary.fallbacks += choices[i].fallback;
      const ModelTensor& source = *work.source;
      // NVFP4's scales lie in another tensor: it is never rounded again (model_tensors.cpp).
      const bool kept = source.stored_type == *gguf_type(Format::kNVFP4);
      kept_ += kept && choices[i].format;
      work.copied = (!choices[i].format || kept) && model_.files().is_gguf() && !source.changed;
      if (!work.copied) work.format = choices[i].format.value_or(Format::kF32);
      tensors.push_back(std::move(work));
    }
  }

  void add(WorkTensor& work, const QuantizeOptions& options) {
    const ModelTensor& source = *work.source;
    const std::vector<int64_t> dims(source.shape.rbegin(), source.shape.rend());
    if (!work.copied && !source.stored)
      throw Error("[quantize] '{}' is stored as type {}, which is not read", source.name, source.stored_type);
    const bool whole = model_.files().is_gguf() || source.as_stored;
    if (!work.copied && *source.stored == work.format && whole && !source.changed) work.copied = true;
    if (!work.copied) check_requantize(source, work.format, options);
    const uint32_t type = work.copied ? source.stored_type : *gguf_type(work.format);
    writer_.add_tensor(source.name, dims, type);
    const auto bytes = static_cast<int64_t>(writer_.tensor_bytes(written_++));
    std::string format = work.copied && !source.stored
                             ? fmt::format("type {}", type)
                             : std::string(format_name(work.copied ? *source.stored : work.format));
    count_tensor(summary, source, format, bytes);
  }

  GgufModel model_;
  GgufWriter writer_;
  std::string header_;
  size_t written_ = 0;
  int kept_ = 0;  // matrices that the mix would round
};

}  // namespace

std::unique_ptr<QuantizePlan> plan_gguf(const QuantizeOptions& options) { return std::make_unique<GgufPlan>(options); }

}  // namespace ingot
