#include "compress/encoded_layer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/mmap.h"
#include "files/atomic_file.h"
#include "quant/grid_formats.h"

namespace ingot {
namespace {

constexpr uint64_t kMagic = 0x31726579616c6e69;  // "inlayer1"

// Before each matrix; behind it the name and the bytes.
struct Head {
  uint64_t magic = kMagic;
  uint64_t name = 0, bytes = 0;  // their sizes
  int64_t expert = 0, format = 0, rows = 0, cols = 0;
};

// Groups that no format of a whole row has are held by formats of 32 values, as a reader holds them (weights/schemes):
// a code less its zero point is one of 5 bits.
Format small_groups(Format format) {
  CHECK(format == Format::kINT4 || format == Format::kINT4_ASYM, "groups of {}", format_name(format));
  return format == Format::kINT4 ? Format::kQ4_0 : Format::kQ5_0;
}

// A group of From, each 32 of its values to a block of To. Both have the scale in front, and codes in one order.
template <class From, class To>
void copy_group(const uint8_t* from, int64_t n, std::byte* out) {
  const int zero = GridOf<From>::kLevels.lo < 0 ? -GridOf<From>::kLevels.lo : from[2];
  auto* to = reinterpret_cast<uint8_t*>(out);
  const uint8_t* q = from + From::kHead;
  for (int64_t k = 0; k < n; k += 32, q += 16, to += To::kBytes) {
    std::memcpy(to, from, 2);
    uint8_t code[32];
    for (int i = 0; i < 32; ++i)
      code[i] = static_cast<uint8_t>((i < 16 ? q[i] & 15 : q[i - 16] >> 4) - zero - GridOf<To>::kLevels.lo);
    GridOf<To>::set_codes(code, to);
  }
}

}  // namespace

void EncodedLayer::add(const TensorJob& job, std::span<const std::byte> encoded) {
  const std::lock_guard lock(mutex_);
  Matrix& matrix = matrices_[{std::string(job.name), job.expert}];
  matrix.format = job.group > 0 ? small_groups(job.format) : job.format;
  matrix.cols = job.cols;
  matrix.rows = std::max(matrix.rows, job.first_row + job.rows);
  const auto row_bytes = static_cast<size_t>(format_row_bytes(matrix.format, job.cols));
  matrix.bytes.resize(static_cast<size_t>(matrix.rows) * row_bytes);
  std::byte* to = matrix.bytes.data() + job.first_row * static_cast<int64_t>(row_bytes);
  if (job.group == 0) {
    std::ranges::copy(encoded, to);
    return;
  }
  const int64_t part = format_row_bytes(job.format, job.group), out = format_row_bytes(matrix.format, job.group);
  for (size_t at = 0; at < encoded.size(); at += static_cast<size_t>(part), to += out) {
    const auto* from = reinterpret_cast<const uint8_t*>(encoded.data() + at);
    if (job.format == Format::kINT4) copy_group<INT4, Q4_0>(from, job.group, to);
    if (job.format == Format::kINT4_ASYM) copy_group<INT4_ASYM, Q5_0>(from, job.group, to);
  }
}

const EncodedLayer::Matrix* EncodedLayer::find(const std::string& tensor, int expert) const {
  const auto found = matrices_.find({tensor, expert});
  return found == matrices_.end() ? nullptr : &found->second;
}

void EncodedLayer::save(const std::string& path) const {
  AtomicFile file(path);
  for (const auto& [key, matrix] : matrices_) {
    const Head head{.name = key.first.size(),
                    .bytes = matrix.bytes.size(),
                    .expert = key.second,
                    .format = static_cast<int64_t>(matrix.format),
                    .rows = matrix.rows,
                    .cols = matrix.cols};
    file.write(std::as_bytes(std::span(&head, 1)));
    file.write(key.first);
    file.write(matrix.bytes);
  }
  file.commit();
}

void EncodedLayer::load(const std::string& path) {
  matrices_.clear();
  const MappedFile file = MappedFile::open(path);
  std::span<const std::byte> rest = file.bytes();
  while (!rest.empty()) {
    Head head;
    if (rest.size() < sizeof(head)) throw Error("[gptq] '{}' is cut short", path);
    std::memcpy(&head, rest.data(), sizeof(head));
    rest = rest.subspan(sizeof(head));
    if (head.magic != kMagic || head.name > rest.size() || head.bytes > rest.size() - head.name)
      throw Error("[gptq] '{}' is no layer that was encoded", path);
    const std::string name(reinterpret_cast<const char*>(rest.data()), head.name);
    const std::span<const std::byte> bytes = rest.subspan(head.name, head.bytes);
    rest = rest.subspan(head.name + head.bytes);
    Matrix& matrix = matrices_[{name, static_cast<int>(head.expert)}];
    matrix = {.format = static_cast<Format>(head.format), .rows = head.rows, .cols = head.cols, .bytes = {}};
    matrix.bytes.assign(bytes.begin(), bytes.end());
  }
}

}  // namespace ingot
