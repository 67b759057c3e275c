// Reads the bytes of one GGUF file, front to back, with every size checked against the file.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/utf8.h"
#include "files/gguf/gguf.h"

namespace ingot {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in the file");

namespace {

// Far above anything published: the largest models have some 10,000 tensors, 100 keys and 300,000 tokens.
constexpr uint64_t kMaxKeys = uint64_t{1} << 20;
constexpr uint64_t kMaxTensors = uint64_t{1} << 20;
constexpr uint64_t kMaxStrings = uint64_t{1} << 24;  // in one array
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 256;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = 65536;
constexpr uint64_t kDefaultAlignment = 32;

// The fewest bytes that a key with its value, or a tensor's description, can take: what bounds their number.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

std::string in_quotes(std::string_view name) { return fmt::format("'{}'", utf8_printable(name)); }

}  // namespace

// Reads one file front to back into a Gguf.
class GgufReader {
 public:
  GgufReader(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes) {
    gguf_.name_ = utf8_printable(name, 4096);
  }

  Gguf read() {
    read_header();
    read_metadata();
    read_tensors();
    place_tensors();
    gguf_.add_tensors(std::move(tensors_), 0);
    return std::move(gguf_);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error("[gguf] {}: {}", gguf_.name_, fmt::format(format, std::forward<Args>(args)...));
  }

  uint64_t left() const { return bytes_.size() - pos_; }

  // The next `n` bytes; `what` names what they belong to.
  const std::byte* take(uint64_t n, std::string_view what) {
    if (n > left()) fail("{} needs {} bytes at byte {}, but the file ends at {}", what, n, pos_, bytes_.size());
    const std::byte* p = bytes_.data() + pos_;
    pos_ += static_cast<size_t>(n);
    return p;
  }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }

  std::string_view string(std::string_view what, uint64_t max_bytes) {
    const auto n = number<uint64_t>(what);
    if (n > max_bytes) fail("{} is {} bytes long, at most {} allowed", what, n, max_bytes);
    return {reinterpret_cast<const char*>(take(n, what)), static_cast<size_t>(n)};
  }

  void read_header() {
    if (bytes_.empty()) fail("the file is empty");
    const size_t shown = std::min<size_t>(4, bytes_.size());
    const std::string_view magic(reinterpret_cast<const char*>(bytes_.data()), shown);
    if (magic != "GGUF") fail("is not a GGUF file: it begins with \"{}\"", utf8_printable(magic));
    pos_ = 4;
    gguf_.version_ = number<uint32_t>("the header");
    if (gguf_.version_ != 0 && (gguf_.version_ & 0xffff) == 0) fail("is big-endian, which is not supported");
    if (gguf_.version_ != 2 && gguf_.version_ != 3) fail("has version {}; 2 and 3 are supported", gguf_.version_);
    n_tensors_ = number<uint64_t>("the header");
    n_keys_ = number<uint64_t>("the header");
    if (n_keys_ > std::min(kMaxKeys, left() / kMinKeyBytes)) fail("cannot hold {} keys", n_keys_);
    if (n_tensors_ > std::min(kMaxTensors, left() / kMinTensorBytes)) fail("cannot hold {} tensors", n_tensors_);
  }

  void read_metadata() {
    for (uint64_t i = 0; i < n_keys_; i++) {
      GgufEntry entry;
      entry.key = string(fmt::format("key {}", i), kMaxKeyBytes);
      if (entry.key.empty()) fail("key {} is empty", i);
      const std::string what = fmt::format("key {}", in_quotes(entry.key));
      read_value(what, entry.value);
      if (!gguf_.keys_.emplace(entry.key, gguf_.metadata_.size()).second) fail("{} is there twice", what);
      gguf_.metadata_.push_back(std::move(entry));
    }
    if (const GgufValue* value = gguf_.find("general.alignment")) {
      if (value->kind != GgufKind::kU32) fail("key 'general.alignment' is {}, not u32", value->type_name());
      alignment_ = gguf_.get_u64("general.alignment");
      if (!std::has_single_bit(alignment_) || alignment_ < kMinAlignment || alignment_ > kMaxAlignment) {
        fail("key 'general.alignment' is {}, not a power of two in [{}, {}]", alignment_, kMinAlignment, kMaxAlignment);
      }
    }
  }

  GgufKind read_kind(std::string_view what) {
    const auto kind = number<uint32_t>(what);
    if (kind > static_cast<uint32_t>(GgufKind::kF64)) fail("{} has the unknown type {}", what, kind);
    return static_cast<GgufKind>(kind);
  }

  void read_value(const std::string& what, GgufValue& value) {
    value.kind = read_kind(what);
    if (value.kind == GgufKind::kString) {
      value.string = string(what, left());
    } else if (value.kind == GgufKind::kArray) {
      read_array(what, value);
    } else {
      value.element = value.kind;
      read_numbers(what, value);
    }
  }

  void read_array(const std::string& what, GgufValue& value) {
    value.element = read_kind(what);
    value.count = number<uint64_t>(what);
    if (value.element == GgufKind::kArray) fail("{} is an array of arrays, which is not supported", what);
    if (value.element != GgufKind::kString) {
      read_numbers(what, value);
      return;
    }
    // A string takes at least the 8 bytes of its length.
    if (value.count > std::min(kMaxStrings, left() / 8)) fail("{} cannot hold {} strings", what, value.count);
    value.strings.reserve(static_cast<size_t>(value.count));
    for (uint64_t i = 0; i < value.count; i++) value.strings.push_back(string(what, left()));
  }

  void read_numbers(const std::string& what, GgufValue& value) {
    const auto size = static_cast<uint64_t>(gguf_kind_bytes(value.element));
    if (value.count > left() / size) {
      fail("{} needs {} values of {} bytes at byte {}, but the file ends at {}", what, value.count, size, pos_,
           bytes_.size());
    }
    value.data = take((CheckedSize(value.count, "[gguf] array") * size).value(), what);
    if (value.element != GgufKind::kBool) return;
    for (uint64_t i = 0; i < value.count; i++) {
      const auto byte = std::to_integer<unsigned>(value.data[i]);
      if (byte > 1) fail("{} has a bool with the value {}", what, byte);
    }
  }

  void read_tensors() {
    for (uint64_t i = 0; i < n_tensors_; i++) {
      GgufTensor tensor;
      tensor.name = string(fmt::format("the name of tensor {}", i), kMaxNameBytes);
      if (tensor.name.empty()) fail("tensor {} has no name", i);
      const std::string what = fmt::format("tensor {}", in_quotes(tensor.name));
      const auto n_dims = number<uint32_t>(what);
      if (n_dims == 0 || n_dims > kMaxDims) fail("{} has {} dimensions, 1 to {} allowed", what, n_dims, kMaxDims);
      for (uint32_t d = 0; d < n_dims; d++) {
        const auto dim = number<uint64_t>(what);
        if (dim == 0 || dim > static_cast<uint64_t>(INT64_MAX)) fail("{} has a dimension of {}", what, dim);
        tensor.dims.push_back(static_cast<int64_t>(dim));
      }
      tensor.type = number<uint32_t>(what);
      offsets_.push_back(number<uint64_t>(what));
      tensor.bytes = bytes_of(what, tensor);
      tensors_.push_back(std::move(tensor));
    }
  }

  size_t bytes_of(const std::string& what, const GgufTensor& tensor) const {
    const GgufTypeInfo* info = gguf_type_info(tensor.type);
    if (info == nullptr) fail("{} has the unknown type {}", what, tensor.type);
    if (info->block == 0) fail("{} has the type {}, which is not supported", what, info->name);
    if (tensor.dims[0] % info->block != 0) {
      fail("{} has rows of {} values, not whole blocks of {} as {} needs", what, tensor.dims[0], info->block,
           info->name);
    }
    const std::string context = fmt::format("[gguf] {}: {}", gguf_.name_, what);
    CheckedSize count(1, context);
    for (const int64_t dim : tensor.dims) count *= dim;
    count.as_int64();
    return (count / info->block * info->bytes).as_size();
  }

  // Points the tensors at their data, which lies after the descriptions.
  void place_tensors() {
    gguf_.data_offset_ = CheckedSize(pos_, "[gguf] data offset").round_up(alignment_).value();
    std::vector<size_t> order(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); i++) {
      GgufTensor& tensor = tensors_[i];
      const std::string what = fmt::format("tensor {}", in_quotes(tensor.name));
      const std::string context = fmt::format("[gguf] {}: {}", gguf_.name_, what);
      if (offsets_[i] % alignment_ != 0) fail("{} begins at {}, not a multiple of {}", what, offsets_[i], alignment_);
      const CheckedSize begin = CheckedSize(offsets_[i], context) + gguf_.data_offset_;
      const CheckedSize end = begin + tensor.bytes;
      if (end.value() > bytes_.size()) {
        fail("{} lies at bytes {} to {}, but the file ends at {}: it is cut short", what, begin.value(), end.value(),
             bytes_.size());
      }
      tensor.data = bytes_.data() + begin.value();
      order[i] = i;
    }
    check_cover(std::move(order));
  }

  // Each tensor begins where the one before it ends, rounded up to the alignment. `order`: indices of all tensors.
  void check_cover(std::vector<size_t> order) const {
    std::ranges::sort(order, {}, [this](size_t i) { return offsets_[i]; });
    CheckedSize end(0, "[gguf] end of a tensor");
    for (const size_t i : order) {
      const std::string name = in_quotes(tensors_[i].name);
      if (offsets_[i] < end.value()) fail("the data of tensor {} overlaps that of another", name);
      if (offsets_[i] > end.value()) {
        fail("the data of tensor {} begins at {}, but the one before it ends at {}", name, offsets_[i], end.value());
      }
      end = (end + tensors_[i].bytes).round_up(alignment_);
    }
  }

  std::span<const std::byte> bytes_;
  size_t pos_ = 0;
  uint64_t n_keys_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<GgufTensor> tensors_;
  std::vector<uint64_t> offsets_;  // of each tensor, in the data
  Gguf gguf_;
};

Gguf Gguf::parse(std::span<const std::byte> bytes, std::string_view name) { return GgufReader(bytes, name).read(); }

}  // namespace ingot
