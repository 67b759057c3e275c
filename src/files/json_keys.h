// The keys of the objects of a JSON text that are open while it is parsed. Boost.JSON holds an object's members in a
// table that hashes them by FNV-1a, with the table's address added first: of an address the lowest byte alone decides
// which keys of a length fall into one place, and it is one of 16. So keys are easily written that do, whatever the
// address, and 65,536 of them take half a minute: an object is looked at before its table is made.
// One thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

class JsonKeys {
 public:
  // Of an object's keys so many may fall into one place. Of 2^20 keys that nobody chose for it about ten do.
  static constexpr size_t kMostAlike = 64;

  void open() { begins_.push_back(ends_.size()); }
  void part(std::string_view text) { text_ += text; }  // the beginning of a key
  void key(std::string_view rest) {
    text_ += rest;
    ends_.push_back(text_.size());
  }
  // The object that was opened last has ended. Whether its table may be made.
  bool close();

 private:
  bool spread(size_t first) const;

  std::string text_;            // of all keys
  std::vector<size_t> ends_;    // of each key in text_
  std::vector<size_t> begins_;  // of each open object in ends_
};

}  // namespace ingot
