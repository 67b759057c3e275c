// A string in which every byte knows who wrote it: the template (or the engine, for digits and punctuation) or the
// input. Slicing and joining keep that knowledge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::jinja {

class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool from_template) : bytes_(std::move(bytes)), first_(from_template) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  void reserve(size_t n) { bytes_.reserve(n); }

  bool from_template(size_t pos) const;
  void append(std::string_view bytes, bool from_template);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, size_t begin, size_t end);  // the bytes [begin, end) of `other`, which is not *this
  Text sub(size_t begin, size_t end) const;

  // f(begin, end, from_template) for each maximal run of bytes by one writer.
  template <class F>
  void each_run(F&& f) const {
    size_t begin = 0;
    bool by_template = first_;
    for (uint32_t cut : cuts_) {
      f(begin, size_t{cut}, by_template);
      begin = cut;
      by_template = !by_template;
    }
    if (begin < bytes_.size()) f(begin, bytes_.size(), by_template);
  }

 private:
  bool last() const { return first_ != (cuts_.size() % 2 == 1); }

  std::string bytes_;
  bool first_ = true;           // who wrote the first byte
  std::vector<uint32_t> cuts_;  // where the writer changes: inside (0, size), rising
};

}  // namespace ingot::jinja
