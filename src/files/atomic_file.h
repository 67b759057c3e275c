// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

// Writes to a temporary file beside `path`; commit() flushes it to the disk and renames it. Without commit() nothing
// is left and an old file at `path` stays as it was. Every failure throws Error "[file] …".
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();  // once, last

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
};

}  // namespace ingot
