#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/seeded_hash.h"
#include "base/thread_pool.h"
#include "weights/schemes/scheme.h"

namespace ingot {

const std::vector<const Scheme*>& schemes() {
  static const std::vector<const Scheme*> all = {&scheme_gptq,
                                                 &scheme_awq,
                                                 &scheme_packed_ints,
                                                 &scheme_packed_floats,
                                                 &scheme_ints,
                                                 &scheme_mxfp8,
                                                 &scheme_modelopt_nvfp4,
                                                 &scheme_bitsandbytes_4bit,
                                                 &scheme_bitsandbytes_int8,
                                                 &scheme_torchao_int8};
  return all;
}

bool scheme_method_known(std::string_view method) {
  static constexpr std::array kKnown = {"fp8",      "mxfp4",        "gptq",       "awq",    "compressed-tensors",
                                        "modelopt", "bitsandbytes", "auto-round", "torchao"};
  return std::ranges::find(kKnown, method) != kKnown.end();
}

const StoredWeight* Module::find(std::string_view suffix) const {
  return source_->find(name_ + std::string(suffix), {});
}

const StoredWeight& Module::get(std::string_view suffix, std::string_view dtype, size_t dims) const {
  const StoredWeight* stored = find(suffix);
  if (stored == nullptr) throw Error("[weights] '{}{}' is missing", name_, suffix);
  if (!dtype.empty() && stored->dtype != dtype)
    throw Error("[weights] '{}' is stored as {}, expected {}", stored->name, stored->dtype, dtype);
  if (stored->shape.size() != dims || std::ranges::any_of(stored->shape, [](int64_t d) { return d < 1; }))
    throw Error("[weights] '{}' has {} dimensions, or none in one of them; expected {}", stored->name,
                stored->shape.size(), dims);
  return *stored;
}

std::vector<float> Module::floats(std::string_view suffix) const {
  const StoredWeight* stored = find(suffix);
  if (stored == nullptr) throw Error("[weights] '{}{}' is missing", name_, suffix);
  if (stored->bytes || format_block(stored->format) != 1)
    throw Error("[weights] '{}' is stored as {}, not as floats", stored->name, stored->dtype);
  std::vector<float> values(static_cast<size_t>(stored->values()));
  format_decode(stored->format, stored->data, values.data(), stored->values());
  if (std::ranges::any_of(values, [](float v) { return !std::isfinite(v); }))
    throw Error("[weights] '{}' holds a value that is not finite", stored->name);
  return values;
}

namespace {

// Blocks of 4-bit floats and their scales, which Weights puts together itself.
bool known_bytes(std::string_view name) { return name.ends_with("_blocks") || name.ends_with("_scales"); }

class SchemeSource : public WeightSource {
 public:
  SchemeSource(std::unique_ptr<WeightSource> source, const JsonObject& settings)
      : source_(std::move(source)), settings_(settings) {
    const std::vector<std::string> stored = source_->names();
    for (const std::string& name : stored) add_module(name);
    for (const std::string& name : stored) {
      if (parts_.contains(name)) continue;
      const StoredWeight* weight = source_->find(name, {});
      if (weight->bytes && !known_bytes(name))
        throw Error("[weights] '{}' is stored as {}, which is not supported", name, weight->dtype);
      names_.push_back(name);
    }
    for (const auto& [name, made] : modules_) names_.push_back(name);
  }

  bool empty() const { return modules_.empty(); }
  std::unique_ptr<WeightSource> inner() { return std::move(source_); }

  const StoredWeight* find(const std::string& name, const std::vector<int64_t>& wanted) override {
    const auto it = modules_.find(name);
    if (it != modules_.end()) return &made(it->second);
    if (const auto scales = scales_.find(name); scales != scales_.end()) return &scales->second->scales;
    return parts_.contains(name) ? nullptr : source_->find(name, wanted);
  }
  bool has(const std::string& name) const override {
    return modules_.contains(name) || scales_.contains(name) || (!parts_.contains(name) && source_->has(name));
  }
  std::vector<std::string> names() const override { return names_; }
  bool permuted_qk() const override { return source_->permuted_qk(); }
  void release(const std::function<bool(const std::byte*)>& done) override {
    for (auto& [name, made] : modules_) {
      if (made.unpacked.data.bytes() > 0 && done(made.unpacked.data.data())) made.unpacked.data = Memory();
    }
  }

 private:
  struct Made {
    const Scheme* scheme = nullptr;
    std::string module;
    Unpacked unpacked;
    StoredWeight weight, scales;
  };

  void add_module(const std::string& name) {
    for (const Scheme* scheme : schemes()) {
      if (!name.ends_with(scheme->parts[0])) continue;
      Module module(name.substr(0, name.size() - scheme->parts[0].size()), *source_, settings_);
      if (!scheme->fits(module)) continue;
      for (const std::string_view part : scheme->parts) parts_.insert(module.name() + std::string(part));
      modules_[module.name() + ".weight"] = {
          .scheme = scheme, .module = module.name(), .unpacked = {}, .weight = {}, .scales = {}};
      return;
    }
  }

  const StoredWeight& made(Made& m) {
    if (!m.weight.name.empty()) return m.weight;
    if (!threads_) threads_ = std::make_unique<ThreadPool>(available_cores(), Pinning::kOff);
    const Module module(m.module, *source_, settings_);
    m.unpacked = m.scheme->unpack(module, *threads_);
    const Unpacked& u = m.unpacked;
    m.weight.format = u.format;
    m.weight.shape = {u.rows, u.cols};
    m.weight.data = u.stored != nullptr ? u.stored : u.data.data();
    m.weight.mapped = u.stored != nullptr;
    if (!u.scales.empty()) {
      m.scales.name = m.module + ".weight_scale";
      m.scales.shape = {u.scales_down, u.scales_across};
      m.scales.data = reinterpret_cast<const std::byte*>(u.scales.data());
      scales_[m.scales.name] = &m;
    }
    // Its pages of the file would be in memory beside what was made of them.
    for (const std::string_view part : m.scheme->parts) {
      const StoredWeight* stored = module.find(part);
      if (stored != nullptr && stored->mapped && stored->data != m.weight.data)
        give_back_pages(stored->data, stored->stored_bytes);
    }
    m.weight.name = m.module + ".weight";
    return m.weight;
  }

  std::unique_ptr<WeightSource> source_;
  const JsonObject settings_;
  std::map<std::string, Made> modules_;  // by the name of their weight
  std::map<std::string, Made*> scales_;  // those made, by the name of their scales
  SeededSet parts_;
  std::vector<std::string> names_;
  std::unique_ptr<ThreadPool> threads_;
};

}  // namespace

std::unique_ptr<WeightSource> with_schemes(std::unique_ptr<WeightSource> source, const JsonObject& settings) {
  auto schemed = std::make_unique<SchemeSource>(std::move(source), settings);
  return schemed->empty() ? schemed->inner() : std::move(schemed);
}

}  // namespace ingot
