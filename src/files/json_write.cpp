#include <cmath>
#include <iterator>

#include "base/utf8.h"
#include "files/json.h"

namespace ingot {

namespace {

class Writer {
 public:
  explicit Writer(bool pretty) : pretty_(pretty) {}

  void write(const Json& value, size_t depth) {
    switch (value.kind()) {
      case boost::json::kind::null:
        out_ += "null";
        return;
      case boost::json::kind::bool_:
        out_ += value.get_bool() ? "true" : "false";
        return;
      case boost::json::kind::int64:
        fmt::format_to(std::back_inserter(out_), "{}", value.get_int64());
        return;
      case boost::json::kind::uint64:
        fmt::format_to(std::back_inserter(out_), "{}", value.get_uint64());
        return;
      case boost::json::kind::double_:
        append_json(out_, value.get_double());
        return;
      case boost::json::kind::string:
        append_json(out_, std::string_view(value.get_string().data(), value.get_string().size()));
        return;
      case boost::json::kind::array:
        write_array(value.get_array(), depth);
        return;
      case boost::json::kind::object:
        write_object(value.get_object(), depth);
        return;
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void new_line(size_t depth) {
    if (!pretty_) return;
    out_ += '\n';
    out_.append(2 * depth, ' ');
  }

  void write_array(const JsonArray& array, size_t depth) {
    out_ += '[';
    for (size_t i = 0; i < array.size(); i++) {
      if (i > 0) out_ += ',';
      new_line(depth + 1);
      write(array[i], depth + 1);
    }
    if (!array.empty()) new_line(depth);
    out_ += ']';
  }

  void write_object(const JsonObject& object, size_t depth) {
    out_ += '{';
    bool first = true;
    for (const auto& member : object) {
      if (!first) out_ += ',';
      first = false;
      new_line(depth + 1);
      append_json(out_, std::string_view(member.key().data(), member.key().size()));
      out_ += pretty_ ? ": " : ":";
      write(member.value(), depth + 1);
    }
    if (!object.empty()) new_line(depth);
    out_ += '}';
  }

  const bool pretty_;
  std::string out_;
};

}  // namespace

void append_json(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  const std::string text = fmt::format("{}", number);  // the shortest that reads back the same
  out += text;
  if (text.find_first_of(".e") == std::string::npos) out += ".0";
}

void append_json(std::string& out, std::string_view raw) {
  const bool valid = utf8_valid(raw);
  const std::string replaced = valid ? std::string() : utf8_replace_invalid(raw);
  out += '"';
  for (const char c : valid ? raw : std::string_view(replaced)) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

std::string to_json(const Json& value) {
  Writer writer(false);
  writer.write(value, 0);
  return writer.take();
}

std::string to_json_pretty(const Json& value) {
  Writer writer(true);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace ingot
