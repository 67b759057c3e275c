// Files that appear whole or not at all, and whose making goes on where a killed run stopped: they are filled in any
// order under another name, beside a journal of the items that are finished.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot {

struct PartSpec {
  std::string name;  // in a directory; of a single file not used
  uint64_t bytes = 0;
};

struct PartRange {
  size_t file = 0;
  uint64_t offset = 0, bytes = 0;
};
using PartItem = std::vector<PartRange>;  // what is finished as one

// One file at `out`, or a directory of several. Until commit() it is "OUT.part" with the journal "OUT.part.journal".
// Every failure throws Error "[file] …". What was finished stays for the next run. The journal has a checksum of each
// item, so nothing must reach the disk before a line of it.
class PartFiles {
 public:
  // `identity` says what is made: where an earlier run left the same, its finished items count; what it left of
  // another is overwritten. Room is reserved, so that a full disk is known before the work.
  PartFiles(std::string out, bool directory, std::vector<PartSpec> files, std::vector<PartItem> items,
            const std::string& identity);
  ~PartFiles();
  PartFiles(const PartFiles&) = delete;
  PartFiles& operator=(const PartFiles&) = delete;

  bool finished(size_t item) const { return finished_[item]; }
  bool resumed() const { return resumed_; }
  // Any thread. REQUIRES: within the file's bytes.
  void write(size_t file, uint64_t offset, std::span<const std::byte> bytes) const;
  // What lies there, read back. Valid as long as this object.
  std::span<const std::byte> view(size_t file, uint64_t offset, uint64_t bytes) const;
  // The item's bytes are written: a next run does not make them again.
  void finish(size_t item);
  // Another file of the directory, whole.
  void add_file(const std::string& name, std::span<const std::byte> bytes) const;
  // All is there: `out` appears. Once, last.
  void commit();
  // Nothing of this is wanted: the files and the journal go.
  void discard();

 private:
  // What was written of an item by this object: how many bytes, and the sum over them.
  struct Written {
    std::atomic<uint64_t> bytes{0}, sum{0};
  };
  struct Place {
    PartRange range;
    size_t item = 0;
  };
  struct File {
    std::string path;
    uint64_t bytes = 0;
    int fd = -1;
    const std::byte* mapped = nullptr;
  };

  [[noreturn]] void fail(const std::string& path, const char* what) const;
  std::string read_journal(const std::string& identity) const;
  void open_file(File& file, bool fresh) const;
  void start_journal(const std::string& identity);
  uint64_t checksum(size_t item) const;
  void count(size_t file, uint64_t offset, std::span<const std::byte> bytes) const;
  void take_finished(const std::string& lines);
  void close_files();

  const std::string out_, part_, journal_path_;
  const bool directory_;
  std::vector<File> files_;
  const std::vector<PartItem> items_;
  std::vector<bool> finished_;
  std::vector<Place> places_;  // of all items, in the order of files and offsets
  mutable std::vector<Written> written_;
  bool resumed_ = false;
  int journal_ = -1;
};

}  // namespace ingot
