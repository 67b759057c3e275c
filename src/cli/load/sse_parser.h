// Server-sent events out of bytes that come in any pieces.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ingot {

// Single-threaded.
class SseParser {
 public:
  // One event; `name` is empty where the stream gave none. Both are valid during the call only.
  using OnEvent = std::function<void(std::string_view name, std::string_view data)>;

  // An event longer than `max_event` bytes throws Error.
  explicit SseParser(OnEvent on_event, size_t max_event = size_t{4} << 20)
      : on_event_(std::move(on_event)), max_event_(max_event) {}

  // Lines may end in LF, CR or CRLF; comments and fields other than `event` and `data` are passed over. An event
  // without data is none. What follows the last blank line stays until more comes.
  void feed(std::string_view bytes);

 private:
  void end_line();
  void check_size() const;

  OnEvent on_event_;
  size_t max_event_;
  std::string line_;
  std::string name_, data_;
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace ingot
