#include "text/load/tokenizer_json_lists.h"

#include "base/utf8.h"
#include "files/json_cursor.h"

namespace ingot {

namespace {

bool read_vocab(JsonCursor& cursor, ModelLists& lists) {
  if (!cursor.take('{')) return false;
  do {
    std::string_view text;
    int64_t id = 0;
    if (!cursor.string(text, lists.memory) || !cursor.take(':') || !cursor.integer(id)) return false;
    lists.vocab.emplace_back(text, id);
  } while (cursor.take(','));
  return cursor.take('}');
}

bool read_merge(JsonCursor& cursor, ModelLists& lists) {
  std::pair<std::string_view, std::string_view> pair;
  if (cursor.take('[')) {
    if (!cursor.string(pair.first, lists.memory) || !cursor.take(',') || !cursor.string(pair.second, lists.memory) ||
        !cursor.take(']')) {
      return false;
    }
  } else {
    std::string_view text;
    if (!cursor.string(text, lists.memory) || !split_merge(text, pair)) return false;
  }
  lists.merges.push_back(pair);
  return true;
}

bool read_merges(JsonCursor& cursor, ModelLists& lists) {
  if (!cursor.take('[')) return false;
  do {
    if (!read_merge(cursor, lists)) return false;
  } while (cursor.take(','));
  return cursor.take(']');
}

struct Span {
  size_t begin = 0, end = 0;
};

// The model's members; false where one of the lists is missing, or there twice.
bool read_model(JsonCursor& cursor, ModelLists& lists, Span& vocab, Span& merges) {
  if (!cursor.take('{')) return false;
  do {
    std::string_view key;
    if (!cursor.string(key, lists.memory) || !cursor.take(':')) return false;
    if (key != "vocab" && key != "merges") {
      if (!cursor.skip_value()) return false;
      continue;
    }
    Span& span = key == "vocab" ? vocab : merges;
    if (span.end != 0) return false;
    span.begin = cursor.pos();
    if (!(key == "vocab" ? read_vocab(cursor, lists) : read_merges(cursor, lists))) return false;
    span.end = cursor.pos();
  } while (cursor.take(','));
  return cursor.take('}') && vocab.end != 0 && merges.end != 0;
}

}  // namespace

bool split_merge(std::string_view text, std::pair<std::string_view, std::string_view>& pair) {
  const size_t space = text.find(' ');
  if (space == text.npos || space == 0 || text.find(' ', space + 1) != text.npos) return false;
  pair = {text.substr(0, space), text.substr(space + 1)};
  return true;
}

bool read_model_lists(std::string_view text, ModelLists& lists) {
  if (!utf8_valid(text)) return false;
  lists.vocab.reserve(text.size() / 64);
  lists.merges.reserve(text.size() / 64);
  JsonCursor cursor(text);
  Span vocab, merges;
  bool found = false;
  if (!cursor.take('{')) return false;
  do {
    std::string_view key;
    if (!cursor.string(key, lists.memory) || !cursor.take(':')) return false;
    if (key == "model") {
      if (found || !read_model(cursor, lists, vocab, merges)) return false;
      found = true;
    } else if (!cursor.skip_value()) {
      return false;
    }
  } while (cursor.take(','));
  if (!found || !cursor.take('}')) return false;
  const bool vocab_first = vocab.begin < merges.begin;
  const Span first = vocab_first ? vocab : merges;
  const Span second = vocab_first ? merges : vocab;
  lists.rest.append(text.substr(0, first.begin)).append(vocab_first ? "{}" : "[]");
  lists.rest.append(text.substr(first.end, second.begin - first.end)).append(vocab_first ? "[]" : "{}");
  lists.rest.append(text.substr(second.end));
  return true;
}

}  // namespace ingot
