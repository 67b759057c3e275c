#include "compress/hidden_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/checked_size.h"
#include "base/error.h"
#include "tensor/dtype.h"

namespace ingot {

// `progress` is written after the states that it speaks of: what was killed left one or the other.
struct HiddenFile::Header {
  char magic[8];
  int64_t chunks, rows, width;
  char key[64];
  std::atomic<int64_t> progress;  // chunks that went through a layer since the beginning
};

namespace {
constexpr char kMagic[] = "ingothid";
constexpr int64_t kHeaderBytes = 4096;
}  // namespace

HiddenFile::HiddenFile(const std::string& path, std::string_view key, int64_t chunks, int64_t rows, int64_t width)
    : path_(path), chunks_(chunks), rows_(rows), width_(width) {
  static_assert(sizeof(Header) <= kHeaderBytes && std::atomic<int64_t>::is_always_lock_free);
  const CheckedSize size = CheckedSize(chunks + 1, "[file] bytes of hidden states") * rows * row_bytes() + kHeaderBytes;
  bytes_ = static_cast<size_t>(size.as_int64());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) throw Error("[file] cannot make '{}': {}", path, std::strerror(errno));
  struct stat status = {};
  const bool old = fstat(fd, &status) == 0 && static_cast<size_t>(status.st_size) == bytes_;
  // Blocks are taken now: a disk that fills up later would end the process where it writes.
  const int failed = old ? 0 : ftruncate(fd, 0) != 0 ? errno : posix_fallocate(fd, 0, static_cast<off_t>(bytes_));
  void* data = failed ? MAP_FAILED : mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = failed ? failed : errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    if (!old) ::unlink(path.c_str());
    throw Error("[file] cannot write {} bytes to '{}': {}", bytes_, path, std::strerror(error));
  }
  data_ = static_cast<std::byte*>(data);
  auto& header = *reinterpret_cast<Header*>(data_);
  char wanted[sizeof(header.key)] = {};
  std::copy_n(key.data(), std::min(key.size(), sizeof(wanted)), wanted);
  if (std::memcmp(header.magic, kMagic, 8) == 0 && header.chunks == chunks && header.rows == rows &&
      header.width == width && std::memcmp(header.key, wanted, sizeof(wanted)) == 0)
    return;
  header.progress = 0;
  header.chunks = chunks;
  header.rows = rows;
  header.width = width;
  std::memcpy(header.key, wanted, sizeof(wanted));
  std::memcpy(header.magic, kMagic, 8);
}

HiddenFile::~HiddenFile() { munmap(data_, bytes_); }

int HiddenFile::layer() const {
  return static_cast<int>(reinterpret_cast<const Header*>(data_)->progress.load() / chunks_) - 1;
}
int64_t HiddenFile::next_chunk() const { return reinterpret_cast<const Header*>(data_)->progress.load() % chunks_; }

// Chunk c behind layer l lies one place before chunk c before it: where chunk c − 1 was, which has gone on already, or
// in the free place.
std::byte* HiddenFile::slot(int64_t layer, int64_t chunk) const {
  const int64_t places = chunks_ + 1, place = (((chunk - layer) % places) + places) % places;
  return data_ + kHeaderBytes + place * rows_ * row_bytes();
}

void HiddenFile::load(int64_t chunk, float* hidden, ThreadPool& pool) const {
  const std::byte* first = slot(chunk < next_chunk() ? layer() : layer() - 1, chunk);
  pool.run(rows_, [&](int64_t r, int) {
    const std::byte* from = first + r * row_bytes();
    float factor = 0;
    std::memcpy(&factor, from, sizeof(factor));
    for (int64_t k = 0; k < width_; ++k) {
      uint16_t half = 0;
      std::memcpy(&half, from + sizeof(factor) + 2 * k, sizeof(half));
      hidden[r * width_ + k] = f16_to_f32(half) * factor;
    }
  });
}

void HiddenFile::advance(const float* hidden, ThreadPool& pool) {
  std::byte* first = slot(layer(), next_chunk());
  std::atomic<bool> all_finite{true};
  pool.run(rows_, [&](int64_t r, int) {
    const float* row = hidden + r * width_;
    std::byte* to = first + r * row_bytes();
    float largest = 0;
    bool finite = true;
    for (int64_t k = 0; k < width_; ++k) {
      finite = finite && std::isfinite(row[k]);
      largest = std::max(largest, std::abs(row[k]));
    }
    if (!finite) {
      all_finite = false;
      return;
    }
    int exponent = 0;
    std::frexp(largest, &exponent);
    // A power of two: no value changes but by the rounding to 11 bits.
    const float factor = std::ldexp(1.0f, std::clamp(exponent - 15, -100, 100)), inverse = 1.0f / factor;
    std::memcpy(to, &factor, sizeof(factor));
    for (int64_t k = 0; k < width_; ++k) {
      const uint16_t half = f32_to_f16(row[k] * inverse);
      std::memcpy(to + sizeof(factor) + 2 * k, &half, sizeof(half));
    }
  });
  if (!all_finite) throw Error("[compress] the model gives values that are no numbers behind layer {}", layer());
  reinterpret_cast<Header*>(data_)->progress.fetch_add(1);
}

void HiddenFile::remove() { ::unlink(path_.c_str()); }

}  // namespace ingot
