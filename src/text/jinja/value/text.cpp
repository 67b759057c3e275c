#include "text/jinja/value/text.h"

#include <algorithm>

namespace ingot::jinja {

bool Text::from_template(size_t pos) const {
  size_t before = static_cast<size_t>(std::upper_bound(cuts_.begin(), cuts_.end(), pos) - cuts_.begin());
  return first_ != (before % 2 == 1);
}

void Text::append(std::string_view bytes, bool from_template) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_ = from_template;
  } else if (last() != from_template) {
    cuts_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  bytes_.append(bytes);
}

void Text::append(const Text& other, size_t begin, size_t end) {
  if (begin >= end) return;
  bool by_template = other.from_template(begin);
  size_t offset = bytes_.size();
  append(std::string_view(other.bytes_).substr(begin, end - begin), by_template);
  if (other.cuts_.empty()) return;
  for (auto it = std::upper_bound(other.cuts_.begin(), other.cuts_.end(), begin); it != other.cuts_.end() && *it < end;
       ++it) {
    cuts_.push_back(static_cast<uint32_t>(*it - begin + offset));
  }
}

Text Text::sub(size_t begin, size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

}  // namespace ingot::jinja
