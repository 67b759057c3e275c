// A whole file mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ingot {

// Move-only; moving keeps the address. The mapping and the file's descriptor live as long as the object.
// A file that shrinks while it is mapped reads as zeros from there on: see mapping_guard.h and unchanged().
class MappedFile {
 public:
  // Throws Error: missing, not readable, a directory, not a regular file, or its size changed meanwhile.
  // An empty file is mapped as no bytes.
  static MappedFile open(const std::string& path);

  MappedFile() = default;  // no bytes, no path
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // False when the file no longer has the size and the modification time it was opened with.
  bool unchanged() const;

  // Hints to the kernel, without effect on what is read. `part` lies in bytes().
  void advise_sequential(std::span<const std::byte> part) const;
  void advise_random(std::span<const std::byte> part) const;
  void advise_will_need(std::span<const std::byte> part) const;
  // Drops the pages of `part` from this process; they are read again when touched.
  void advise_dont_need(std::span<const std::byte> part) const;

 private:
  void release();
  void advise(std::span<const std::byte> part, int advice) const;

  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  int64_t modified_ns_ = 0;
};

}  // namespace ingot
