#include "files/gguf/gguf_writer.h"

#include <bit>
#include <type_traits>
#include <utility>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/utf8.h"
#include "files/atomic_file.h"

namespace ingot {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

namespace {

constexpr uint64_t kAlignment = 32;
constexpr uint32_t kVersion = 3;

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void append_string(std::string& out, std::string_view text) {
  append(out, uint64_t{text.size()});
  out.append(text);
}

template <class T>
constexpr GgufKind kind_of() {
  if constexpr (std::is_same_v<T, uint8_t>) return GgufKind::kU8;
  if constexpr (std::is_same_v<T, int8_t>) return GgufKind::kI8;
  if constexpr (std::is_same_v<T, uint16_t>) return GgufKind::kU16;
  if constexpr (std::is_same_v<T, int16_t>) return GgufKind::kI16;
  if constexpr (std::is_same_v<T, uint32_t>) return GgufKind::kU32;
  if constexpr (std::is_same_v<T, int32_t>) return GgufKind::kI32;
  if constexpr (std::is_same_v<T, uint64_t>) return GgufKind::kU64;
  if constexpr (std::is_same_v<T, int64_t>) return GgufKind::kI64;
  if constexpr (std::is_same_v<T, float>) return GgufKind::kF32;
  if constexpr (std::is_same_v<T, double>) return GgufKind::kF64;
  return GgufKind::kBool;
}

}  // namespace

void GgufWriter::begin_value(std::string_view key, GgufKind kind) {
  if (key.empty()) throw Error("[gguf] a key is empty");
  if (key == "general.alignment")
    throw Error("[gguf] key 'general.alignment' is not for the caller: it is {}", kAlignment);
  if (!keys_.emplace(key).second) throw Error("[gguf] key '{}' is set twice", utf8_printable(key));
  append_string(metadata_, key);
  append(metadata_, static_cast<uint32_t>(kind));
  n_keys_++;
}

void GgufWriter::begin_array(std::string_view key, GgufKind element, uint64_t count) {
  begin_value(key, GgufKind::kArray);
  append(metadata_, static_cast<uint32_t>(element));
  append(metadata_, count);
}

template <GgufNumber T>
void GgufWriter::set(std::string_view key, T value) {
  begin_value(key, kind_of<T>());
  append(metadata_, value);
}

template <GgufNumber T>
void GgufWriter::set_array(std::string_view key, std::span<const T> values) {
  begin_array(key, kind_of<T>(), values.size());
  for (const T value : values) append(metadata_, value);
}

#define INGOT_NUMBER(T)                                  \
  template void GgufWriter::set<T>(std::string_view, T); \
  template void GgufWriter::set_array<T>(std::string_view, std::span<const T>);
INGOT_NUMBER(uint8_t)
INGOT_NUMBER(int8_t)
INGOT_NUMBER(uint16_t)
INGOT_NUMBER(int16_t)
INGOT_NUMBER(uint32_t)
INGOT_NUMBER(int32_t)
INGOT_NUMBER(uint64_t)
INGOT_NUMBER(int64_t)
INGOT_NUMBER(float)
INGOT_NUMBER(double)
INGOT_NUMBER(bool)
#undef INGOT_NUMBER

void GgufWriter::set(std::string_view key, std::string_view value) {
  begin_value(key, GgufKind::kString);
  append_string(metadata_, value);
}

void GgufWriter::set_array(std::string_view key, const std::vector<std::string_view>& values) {
  begin_array(key, GgufKind::kString, values.size());
  for (const std::string_view value : values) append_string(metadata_, value);
}

void GgufWriter::set_array(std::string_view key, const std::vector<std::string>& values) {
  set_array(key, std::vector<std::string_view>(values.begin(), values.end()));
}

void GgufWriter::set(std::string_view key, const GgufValue& value) {
  if (value.kind == GgufKind::kString) return set(key, value.string);
  if (value.is_array() && value.element == GgufKind::kString) return set_array(key, value.strings);
  if (value.is_array()) {
    begin_array(key, value.element, value.count);
  } else {
    begin_value(key, value.kind);
  }
  const auto size = static_cast<uint64_t>(gguf_kind_bytes(value.element));
  metadata_.append(reinterpret_cast<const char*>(value.data), (CheckedSize(value.count) * size).as_size());
}

void GgufWriter::add_tensor(std::string name, std::vector<int64_t> dims, uint32_t type, GgufProvider provider) {
  const std::string context = fmt::format("[gguf] tensor '{}'", utf8_printable(name));
  const GgufTypeInfo* info = gguf_type_info(type);
  if (name.empty()) throw Error("[gguf] a tensor has no name");
  if (info == nullptr || info->block == 0) throw Error("{} has the type {}, which cannot be written", context, type);
  if (dims.empty() || dims.size() > 4) throw Error("{} has {} dimensions, 1 to 4 allowed", context, dims.size());
  CheckedSize count(1, context);
  for (const int64_t dim : dims) {
    if (dim <= 0) throw Error("{} has a dimension of {}", context, dim);
    count *= dim;
  }
  if (dims[0] % info->block != 0) throw Error("{} has rows of {} values, not whole blocks", context, dims[0]);
  const CheckedSize bytes = count / info->block * info->bytes;
  if (!names_.insert(name).second) throw Error("{} is added twice", context);
  tensors_.push_back({std::move(name), std::move(dims), type, bytes.value(), data_bytes_, std::move(provider)});
  data_bytes_ = (bytes + data_bytes_).round_up(kAlignment).value();
}

void GgufWriter::add_tensor(std::string name, std::vector<int64_t> dims, uint32_t type,
                            std::span<const std::byte> data) {
  add_tensor(std::move(name), std::move(dims), type, [data](const GgufSink& sink) { sink(data); });
}

void GgufWriter::add_tensor(std::string name, std::vector<int64_t> dims, uint32_t type) {
  add_tensor(std::move(name), std::move(dims), type, [](const GgufSink&) {});
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  append(out, kVersion);
  append(out, uint64_t{tensors_.size()});
  append(out, n_keys_);
  out += metadata_;
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const int64_t dim : tensor.dims) append(out, static_cast<uint64_t>(dim));
    append(out, tensor.type);
    append(out, tensor.offset);
  }
  // A file without tensors has no data part to align.
  if (!tensors_.empty()) out.resize(CheckedSize(out.size()).round_up(kAlignment).as_size());
  return out;
}

void GgufWriter::emit(const GgufSink& sink) const {
  static constexpr std::byte kZeros[kAlignment] = {};
  sink(std::as_bytes(std::span<const char>(header())));
  for (const Tensor& tensor : tensors_) {
    uint64_t given = 0;
    tensor.provider([&](std::span<const std::byte> piece) {
      given += piece.size();
      if (given > tensor.bytes) return;
      sink(piece);
    });
    if (given != tensor.bytes) {
      throw Error("[gguf] tensor '{}' has {} bytes, but {} were given", utf8_printable(tensor.name), tensor.bytes,
                  given);
    }
    const uint64_t end = CheckedSize(tensor.bytes).round_up(kAlignment).value();
    sink(std::span(kZeros).first(static_cast<size_t>(end - tensor.bytes)));
  }
}

void GgufWriter::write(const std::string& path) const {
  AtomicFile file(path);
  emit([&](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
}

std::vector<std::byte> GgufWriter::bytes() const {
  std::vector<std::byte> out;
  emit([&](std::span<const std::byte> piece) { out.insert(out.end(), piece.begin(), piece.end()); });
  return out;
}

}  // namespace ingot
