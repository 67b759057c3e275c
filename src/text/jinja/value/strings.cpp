#include "text/jinja/value/strings.h"

#include <algorithm>
#include <cstring>

#include "text/jinja/run/interp.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

bool is_word_start(uint32_t cp) {
  return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || is_space(cp);
}

// Calls to_case(pos) for every character and writes it in the case that comes back.
template <class F>
Text each_case(Interp& interp, const Text& text, F&& to_case) {
  interp.budget().step(static_cast<int64_t>(text.size() / 8));
  Text out;
  std::string mapped;
  text.each_run([&](size_t begin, size_t end, bool by_template) {
    mapped.clear();
    for (size_t i = begin, size = 0; i < end; i += size) {
      size = char_at(text.view(), i).size;
      if (size > 1) interp.budget().step();  // searched for in tables
      append_case(mapped, text.view(), i, to_case(i));
    }
    out.append(mapped, by_template);
  });
  return out;
}

bool in_chars(std::string_view chars, uint32_t cp) {
  for (size_t i = 0; i < chars.size();) {
    Char c = char_at(chars, i);
    if (c.cp == cp) return true;
    i += c.size;
  }
  return false;
}

}  // namespace

size_t find_text(Interp& interp, std::string_view text, std::string_view what, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (what.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, what.data(), what.size());
  size_t at = found == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  interp.budget().step(static_cast<int64_t>((at - from) >> (what.size() > 16 ? 4 : 6)));  // 4 ns or 1 ns a byte
  return found == nullptr ? std::string_view::npos : at;
}

size_t find_text_back(Interp& interp, std::string_view text, std::string_view what) {
  // There is no linear search from the back: what it may cost is paid before.
  if (what.size() > 16) interp.budget().step(static_cast<int64_t>((text.size() >> 3) * (what.size() >> 3)));
  return text.rfind(what);
}

Text map_case(Interp& interp, const Text& text, CaseMode mode) {
  std::string_view s = text.view();
  bool in_word = false;
  return each_case(interp, text, [&](size_t pos) {
    switch (mode) {
      case CaseMode::kUpper:
        return Case::kUpper;
      case CaseMode::kLower:
        return Case::kLower;
      case CaseMode::kCapitalize:
        return pos == 0 ? Case::kTitle : Case::kLower;
      case CaseMode::kSwap: {
        uint32_t cp = char_at(s, pos).cp;
        return has_property(cp, Property::kUpper) ? Case::kLower : Case::kUpper;
      }
      default:
        break;
    }
    Case to = in_word ? Case::kLower : Case::kTitle;
    in_word = is_cased(char_at(s, pos).cp);
    return to;
  });
}

Text title_words(Interp& interp, const Text& text) {
  std::string_view s = text.view();
  bool in_word = false;
  return each_case(interp, text, [&](size_t pos) {
    Case to = in_word ? Case::kLower : Case::kUpper;
    in_word = !is_word_start(char_at(s, pos).cp);
    return to;
  });
}

Text strip_text(Interp& interp, const Text& text, const Text* chars, bool left, bool right) {
  std::string_view s = text.view();
  interp.budget().scan(s.size());
  size_t begin = 0, end = s.size();
  if (chars == nullptr) {
    if (left) begin = skip_space(s, 0);
    if (right && begin < end) end = skip_space_back(s, end);
    return text.sub(begin, end);
  }
  while (left && begin < end) {
    interp.budget().step(1 + static_cast<int64_t>(chars->size() / 16));
    Char c = char_at(s, begin);
    if (!in_chars(chars->view(), c.cp)) break;
    begin += c.size;
  }
  while (right && begin < end) {
    interp.budget().step(1 + static_cast<int64_t>(chars->size() / 16));
    size_t start = char_before(s, end);
    if (!in_chars(chars->view(), char_at(s, start).cp)) break;
    end = start;
  }
  return text.sub(begin, end);
}

Text replace_text(Interp& interp, const Text& text, const Text& from, const Text& to, int64_t count) {
  interp.budget().scan(text.size());
  if (count < 0) count = INT64_MAX;
  Text out;
  size_t done = 0;
  for (size_t at = 0; count > 0; --count) {
    size_t found = find_text(interp, text.view(), from.view(), at);
    if (found == std::string::npos) break;
    interp.budget().step(1 + static_cast<int64_t>(to.size() >> 6));
    interp.budget().room(out.size() + to.size());
    out.append(text, done, found);
    out.append(to);
    done = found + from.size();
    at = done;
    if (from.empty()) {  // between all characters
      if (found >= text.size()) break;
      at = found + char_at(text.view(), found).size;
    }
  }
  out.append(text, done, text.size());
  return out;
}

std::vector<Span> split_space(Interp& interp, const Text& text, int64_t max) {
  std::string_view s = text.view();
  interp.budget().scan(s.size());
  std::vector<Span> out;
  size_t at = skip_space(s, 0);
  while (at < s.size()) {
    interp.budget().step();
    size_t end = at;
    if (max >= 0 && static_cast<int64_t>(out.size()) >= max) {
      out.push_back({at, s.size()});
      break;
    }
    while (end < s.size() && !is_space(char_at(s, end).cp)) end += char_at(s, end).size;
    out.push_back({at, end});
    at = skip_space(s, end);
  }
  return out;
}

std::vector<Span> split_space_back(Interp& interp, const Text& text, int64_t max) {
  if (max < 0) return split_space(interp, text, max);
  std::string_view s = text.view();
  interp.budget().scan(s.size());
  std::vector<Span> out;
  size_t end = skip_space_back(s, s.size());
  while (end > 0) {
    interp.budget().step();
    if (static_cast<int64_t>(out.size()) >= max) {
      out.push_back({0, end});
      break;
    }
    size_t begin = end;
    while (begin > 0 && !is_space(char_at(s, char_before(s, begin)).cp)) begin = char_before(s, begin);
    out.push_back({begin, end});
    end = skip_space_back(s, begin);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Span> split_by(Interp& interp, const Text& text, const Text& separator, int64_t max, bool from_back) {
  if (separator.empty()) interp.fail("empty separator");
  interp.budget().scan(text.size());
  if (max < 0) max = INT64_MAX;
  const std::string& s = text.bytes();
  std::vector<Span> out;
  size_t begin = 0, end = s.size();
  while (static_cast<int64_t>(out.size()) < max) {
    interp.budget().step();
    size_t found = std::string::npos;
    if (!from_back) {
      found = find_text(interp, s, separator.view(), begin);
    } else {
      found = find_text_back(interp, std::string_view(s).substr(0, end), separator.view());
    }
    if (found == std::string::npos) break;
    if (from_back) {
      out.push_back({found + separator.size(), end});
      end = found;
    } else {
      out.push_back({begin, found});
      begin = found + separator.size();
    }
  }
  out.push_back({begin, end});
  if (from_back) std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Span> split_lines(Interp& interp, const Text& text, bool keep_ends) {
  std::string_view s = text.view();
  interp.budget().scan(s.size());
  std::vector<Span> out;
  size_t begin = 0;
  for (size_t i = 0; i < s.size();) {
    Char c = char_at(s, i);
    size_t after = i + c.size;
    if (is_line_end(c.cp)) {
      interp.budget().step();
      if (c.cp == '\r' && after < s.size() && s[after] == '\n') ++after;
      out.push_back({begin, keep_ends ? after : i});
      begin = after;
    }
    i = after;
  }
  if (begin < s.size()) out.push_back({begin, s.size()});
  return out;
}

Value spans_to_list(Interp& interp, const Value& str, const std::vector<Span>& spans) {
  std::vector<Value> items;
  items.reserve(spans.size());
  for (const Span& span : spans) {
    items.push_back(interp.str(str.text().sub(span.begin, span.end)).with_markup(str.markup()));
  }
  return interp.list(std::move(items));
}

Text pad(Interp& interp, const Text& text, int64_t before, int64_t after, std::string_view fill) {
  before = std::max<int64_t>(before, 0);
  after = std::max<int64_t>(after, 0);
  auto filling = [&](int64_t n) {
    // Widths come from the template: bounded before anything is made.
    interp.budget().room(n > (int64_t{1} << 40) ? SIZE_MAX : static_cast<size_t>(n) * fill.size());
    interp.budget().step(n / 16);
    if (fill.size() == 1) return std::string(static_cast<size_t>(n), fill[0]);
    std::string out;
    for (int64_t i = 0; i < n; ++i) out += fill;
    return out;
  };
  Text out;
  out.append(filling(before), true);
  out.append(text);
  out.append(filling(after), true);
  return out;
}

}  // namespace ingot::jinja
