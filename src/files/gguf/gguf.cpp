// What a GGUF file holds, by name: tensors, and metadata as C++ types.
#include "files/gguf/gguf.h"

#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {

void Gguf::add_tensors(std::vector<GgufTensor> tensors, int file_index) {
  for (GgufTensor& tensor : tensors) {
    tensor.file_index = file_index;
    if (!names_.emplace(tensor.name, tensors_.size()).second) {
      throw Error("[gguf] {}: tensor '{}' is there twice", name_, utf8_printable(tensor.name));
    }
    tensors_.push_back(std::move(tensor));
  }
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &metadata_[found->second].value;
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto found = names_.find(std::string(name));
  return found == names_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue& Gguf::need(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) throw Error("[gguf] {}: key '{}' is missing", name_, utf8_printable(key));
  return *value;
}

void Gguf::wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const {
  throw Error("[gguf] {}: key '{}' is {}, not {}", name_, utf8_printable(key), value.type_name(), wanted);
}

template <class T>
T Gguf::number(std::string_view key, const GgufValue& value, uint64_t index) const {
  return visit_number(value, index, [&](auto number) -> T {
    using From = decltype(number);
    if constexpr (std::is_same_v<T, bool> != std::is_same_v<From, bool>) {
      wrong_type(key, value, std::is_same_v<T, bool> ? "a bool" : "a number");
    } else if constexpr (std::is_same_v<T, bool> || std::is_floating_point_v<T>) {
      return static_cast<T>(number);
    } else if constexpr (std::is_floating_point_v<From>) {
      wrong_type(key, value, "an integer");
    } else {
      if (!std::in_range<T>(number)) {
        throw Error("[gguf] {}: key '{}' is {}, which does not fit in {} {} bits", name_, utf8_printable(key), number,
                    sizeof(T) * 8, std::is_signed_v<T> ? "signed" : "unsigned");
      }
      return static_cast<T>(number);
    }
  });
}

template <class T>
T Gguf::scalar(std::string_view key) const {
  const GgufValue& value = need(key);
  if (value.is_array() || value.kind == GgufKind::kString) {
    wrong_type(key, value, std::is_same_v<T, bool> ? "a bool" : "a number");
  }
  return number<T>(key, value, 0);
}

template <class T>
std::vector<T> Gguf::array(std::string_view key) const {
  const GgufValue& value = need(key);
  if (!value.is_array() || value.element == GgufKind::kString) {
    wrong_type(key, value, std::is_same_v<T, bool> ? "an array of bools" : "an array of numbers");
  }
  std::vector<T> result;
  result.reserve(static_cast<size_t>(value.count));
  for (uint64_t i = 0; i < value.count; i++) result.push_back(number<T>(key, value, i));
  return result;
}

uint64_t Gguf::get_u64(std::string_view key) const { return scalar<uint64_t>(key); }
uint64_t Gguf::get_u64(std::string_view key, uint64_t fallback) const { return has(key) ? get_u64(key) : fallback; }
int64_t Gguf::get_i64(std::string_view key) const { return scalar<int64_t>(key); }
int64_t Gguf::get_i64(std::string_view key, int64_t fallback) const { return has(key) ? get_i64(key) : fallback; }
float Gguf::get_f32(std::string_view key) const { return scalar<float>(key); }
float Gguf::get_f32(std::string_view key, float fallback) const { return has(key) ? get_f32(key) : fallback; }
bool Gguf::get_bool(std::string_view key) const { return scalar<bool>(key); }
bool Gguf::get_bool(std::string_view key, bool fallback) const { return has(key) ? get_bool(key) : fallback; }

std::string Gguf::get_string(std::string_view key) const {
  const GgufValue& value = need(key);
  if (value.kind != GgufKind::kString) wrong_type(key, value, "a string");
  return std::string(value.string);
}
std::string Gguf::get_string(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : std::string(fallback);
}

std::vector<uint64_t> Gguf::get_u64_array(std::string_view key) const { return array<uint64_t>(key); }
std::vector<int64_t> Gguf::get_i64_array(std::string_view key) const { return array<int64_t>(key); }
std::vector<int32_t> Gguf::get_i32_array(std::string_view key) const { return array<int32_t>(key); }
std::vector<float> Gguf::get_f32_array(std::string_view key) const { return array<float>(key); }
std::vector<bool> Gguf::get_bool_array(std::string_view key) const { return array<bool>(key); }

const std::vector<std::string_view>& Gguf::get_string_array(std::string_view key) const {
  const GgufValue& value = need(key);
  if (!value.is_array() || value.element != GgufKind::kString) wrong_type(key, value, "an array of strings");
  return value.strings;
}

}  // namespace ingot
