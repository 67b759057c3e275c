#include "cli/load/sse_parser.h"

#include <algorithm>

#include "base/error.h"

namespace ingot {

void SseParser::check_size() const {
  if (line_.size() + data_.size() > max_event_) throw Error("[sse] an event is longer than {} bytes", max_event_);
}

void SseParser::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    line_ += bytes.substr(0, end);
    check_size();
    if (end == bytes.size()) return;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line();
  }
}

void SseParser::end_line() {
  if (line_.empty()) {
    if (has_data_) on_event_(name_, data_);
    name_.clear();
    data_.clear();
    has_data_ = false;
    return;
  }
  const std::string_view line = line_;
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  } else if (field == "event") {
    name_ = value;
  }
  line_.clear();
}

}  // namespace ingot
