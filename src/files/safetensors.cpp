#include "files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"

namespace ingot {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in the file");

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the format's own library allows
constexpr size_t kMaxHeaderValues = 8'000'000;     // 7 or more for each tensor; bounds the parsed header to 200 MB
constexpr size_t kMaxDims = 16;

struct DtypeBits {
  std::string_view name;
  int bits;
};
constexpr std::array kDtypes = {
    DtypeBits{"F64", 64},    DtypeBits{"F32", 32},    DtypeBits{"F16", 16},    DtypeBits{"BF16", 16},
    DtypeBits{"F8_E4M3", 8}, DtypeBits{"F8_E5M2", 8}, DtypeBits{"F8_E8M0", 8}, DtypeBits{"F6_E2M3", 6},
    DtypeBits{"F6_E3M2", 6}, DtypeBits{"F4", 4},      DtypeBits{"I64", 64},    DtypeBits{"I32", 32},
    DtypeBits{"I16", 16},    DtypeBits{"I8", 8},      DtypeBits{"U64", 64},    DtypeBits{"U32", 32},
    DtypeBits{"U16", 16},    DtypeBits{"U8", 8},      DtypeBits{"BOOL", 8},    DtypeBits{"C64", 64},
};

// Reads the header of one file. Nothing of the data is touched.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  // The tensors in the order of their data.
  std::vector<SafeTensor> read(std::map<std::string, std::string>& metadata) {
    const Json root = parse_json(
        header_text(), fmt::format("[safetensors] {}", file_),
        {.max_depth = 4, .max_bytes = kMaxHeaderBytes, .reject_duplicate_keys = true, .max_values = kMaxHeaderValues});
    if (!root.is_object()) fail("its header is not a JSON object");
    for (const auto& member : root.get_object()) {
      const std::string name(member.key().data(), member.key().size());
      if (name == "__metadata__") {
        read_metadata(member.value(), metadata);
      } else {
        read_tensor(name, member.value());
      }
    }
    check_cover();
    return std::move(tensors_);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error("[safetensors] {}: {}", file_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view header_text() {
    if (bytes_.empty()) fail("the file is empty");
    if (bytes_.size() < 8) fail("{} bytes are too few for a header", bytes_.size());
    uint64_t n = 0;
    std::memcpy(&n, bytes_.data(), sizeof(n));
    if (n > kMaxHeaderBytes) fail("is not a safetensors file: its header would have {} bytes", n);
    if (n > bytes_.size() - 8) fail("its header has {} bytes, but the file ends at {}", n, bytes_.size());
    data_ = bytes_.subspan(8 + static_cast<size_t>(n));
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + 8, static_cast<size_t>(n));
    if (!text.starts_with('{')) fail("is not a safetensors file: its header does not begin with '{{'");
    return text;
  }

  void read_metadata(const Json& value, std::map<std::string, std::string>& metadata) const {
    if (!value.is_object()) fail("'__metadata__' is not an object");
    for (const auto& member : value.get_object()) {
      const std::string key(member.key().data(), member.key().size());
      if (!member.value().is_string()) fail("'__metadata__' has a value that is no string: '{}'", utf8_printable(key));
      metadata.emplace(key, as_string(member.value(), key));
    }
  }

  void read_tensor(const std::string& name, const Json& value) {
    const std::string what = fmt::format("[safetensors] {}: tensor '{}'", file_, utf8_printable(name));
    const JsonObject& fields = as_object(value, what);
    if (fields.size() != 3) throw Error("{} has {} fields, not dtype, shape and data_offsets", what, fields.size());
    SafeTensor tensor;
    tensor.name = name;
    tensor.dtype = as_string(field(fields, "dtype", what), what);
    const int bits = safetensors_dtype_bits(tensor.dtype);
    if (bits == 0) throw Error("{} has the unknown dtype '{}'", what, utf8_printable(tensor.dtype));
    const JsonArray& shape = as_array(field(fields, "shape", what), what);
    if (shape.size() > kMaxDims) throw Error("{} has {} dimensions, at most {} allowed", what, shape.size(), kMaxDims);
    CheckedSize size_bits(bits, what);
    for (const Json& dim : shape) {
      tensor.shape.push_back(as_int(dim, what, 0));
      size_bits *= tensor.shape.back();
    }
    if (size_bits.value() % 8 != 0) throw Error("{} is not a whole number of bytes", what);
    const JsonArray& offsets = as_array(field(fields, "data_offsets", what), what);
    if (offsets.size() != 2) throw Error("{} has {} data_offsets, not 2", what, offsets.size());
    const auto begin = static_cast<uint64_t>(as_int(offsets[0], what, 0));
    const auto end = static_cast<uint64_t>(as_int(offsets[1], what, 0));
    if (begin > end) throw Error("{} begins at {} and ends before it at {}", what, begin, end);
    if (end > data_.size()) {
      throw Error("{} ends at byte {} of the data, but there are only {}: the file is cut short", what, end,
                  data_.size());
    }
    tensor.bytes = static_cast<size_t>(end - begin);
    if (tensor.bytes != size_bits.value() / 8) {
      throw Error("{} has {} bytes of data, but its shape and dtype need {}", what, tensor.bytes,
                  size_bits.value() / 8);
    }
    tensor.data = data_.data() + begin;
    tensors_.push_back(std::move(tensor));
  }

  static const Json& field(const JsonObject& fields, std::string_view key, const std::string& what) {
    const Json* value = ingot::find(fields, key);
    if (value == nullptr) throw Error("{} has no '{}'", what, key);
    return *value;
  }

  // Every byte of the data belongs to exactly one tensor.
  void check_cover() {
    std::ranges::sort(tensors_, [](const SafeTensor& a, const SafeTensor& b) {
      return std::pair(a.data, a.data + a.bytes) < std::pair(b.data, b.data + b.bytes);
    });
    const std::byte* end = data_.data();
    for (const SafeTensor& tensor : tensors_) {
      const std::string name = utf8_printable(tensor.name);
      if (tensor.data < end) fail("the data of tensor '{}' overlaps that of another", name);
      if (tensor.data > end) fail("{} bytes before tensor '{}' belong to none", tensor.data - end, name);
      end += tensor.bytes;
    }
    const auto rest = data_.size() - static_cast<size_t>(end - data_.data());
    if (rest > 0) fail("the last {} bytes belong to no tensor", rest);
  }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> data_;
  const std::string& file_;
  std::vector<SafeTensor> tensors_;
};

}  // namespace

int safetensors_dtype_bits(std::string_view dtype) {
  for (const DtypeBits& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

void SafeTensors::add_file(std::span<const std::byte> bytes, const std::string& name, int file_index) {
  for (SafeTensor& tensor : HeaderReader(bytes, name).read(metadata_)) {
    tensor.file_index = file_index;
    if (!names_.emplace(tensor.name, tensors_.size()).second) {
      throw Error("[safetensors] {}: tensor '{}' is in another file too", name, utf8_printable(tensor.name));
    }
    tensors_.push_back(std::move(tensor));
  }
}

const SafeTensor* SafeTensors::find(std::string_view name) const {
  const auto found = names_.find(std::string(name));
  return found == names_.end() ? nullptr : &tensors_[found->second];
}

SafeTensors SafeTensors::parse(std::span<const std::byte> bytes, std::string_view name) {
  SafeTensors result;
  result.add_file(bytes, utf8_printable(name, 4096), 0);
  return result;
}

}  // namespace ingot
