#include "cli/json_lines.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

namespace {

constexpr size_t kMaxLineBytes = size_t{256} << 20;

// 0 at the end.
size_t read_some(char* data, size_t size) {
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, data, size);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) throw Error("[stdin] cannot be read: {}", std::strerror(errno));
  }
}

class Lines {
 public:
  struct Line {
    std::string_view text;  // valid until the next call
    bool too_long = false;
  };

  // Nothing at the end. Standard output is flushed before the program waits for input.
  std::optional<Line> next() {
    line_.clear();
    bool too_long = false;
    for (;;) {
      if (begin_ == end_ && !fill()) {
        if (line_.empty() && !too_long) return std::nullopt;
        return Line{line_, too_long};
      }
      const char* start = buffer_.data() + begin_;
      const void* newline = std::memchr(start, '\n', end_ - begin_);
      const size_t n = newline ? static_cast<size_t>(static_cast<const char*>(newline) - start) : end_ - begin_;
      too_long = too_long || line_.size() + n > kMaxLineBytes;
      if (too_long) {
        line_.clear();
      } else {
        line_.append(start, n);
      }
      begin_ += n + (newline ? 1 : 0);
      if (newline) return Line{line_, too_long};
    }
  }

 private:
  bool fill() {
    std::fflush(stdout);
    begin_ = 0;
    end_ = read_some(buffer_.data(), buffer_.size());
    return end_ > 0;
  }

  std::vector<char> buffer_ = std::vector<char>(1 << 16);
  size_t begin_ = 0, end_ = 0;
  std::string line_;
};

using LineAnswer = std::function<void(const JsonObject&, std::string&)>;

// Replaces `out`.
void answer_line(const Lines::Line& line, const LineAnswer& answer, std::string& out) {
  out.clear();
  try {
    if (line.too_long) throw Error("[json] the line has over {} MiB", kMaxLineBytes >> 20);
    const Json input = parse_json(line.text, "line");
    answer(as_object(input, "the line"), out);
  } catch (const Error& e) {
    out = to_json(JsonObject{{"error", e.what()}});
  }
}

}  // namespace

void answer_lines(const LineAnswer& answer) {
  Lines lines;
  std::string out;
  while (const std::optional<Lines::Line> line = lines.next()) {
    answer_line(*line, answer, out);
    out.push_back('\n');
    std::fwrite(out.data(), 1, out.size(), stdout);
  }
}

void answer_json_lines(const std::function<Json(const JsonObject&)>& answer) {
  answer_lines([&](const JsonObject& input, std::string& line) { line = to_json(answer(input)); });
}

std::string read_stdin(size_t max_bytes) {
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (const size_t n = read_some(buffer.data(), buffer.size())) {
    text.append(buffer.data(), n);
    if (text.size() > max_bytes) throw Error("[stdin] has over {} MiB", max_bytes >> 20);
  }
  return text;
}

}  // namespace ingot
