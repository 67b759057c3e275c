// What the tokenizer tests share: where test data lies, files of cases, and errors as text.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/data_test_support.h"
#include "base/error.h"
#include "files/json.h"
#include "text/tokenizer.h"

namespace ingot {

inline std::string fixture(const std::string& name) {
  return std::string(INGOT_SOURCE_DIR "/tests/data/tokenizers/") + name;
}

inline bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The file that `xz` unpacks, as text; empty where there is no xz.
inline std::string read_xz(const std::string& path) {
  const std::string command = "xz -dc '" + path + "' 2>/dev/null";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (pipe == nullptr) return {};
  std::string text;
  char buffer[65536];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) text.append(buffer, n);
  return text;
}

inline std::vector<Token> tokens_of(const Json& json) {
  std::vector<Token> tokens;
  for (const Json& id : json.as_array()) tokens.push_back(static_cast<Token>(id.as_int64()));
  return tokens;
}

// The lines of a .jsonl file, each parsed.
inline std::vector<Json> json_lines(std::string_view text) {
  std::vector<Json> lines;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = std::min(text.find('\n', pos), text.size());
    if (end > pos) lines.push_back(parse_json(text.substr(pos, end - pos), "a case"));
    pos = end + 1;
  }
  return lines;
}

// Checks every case of a file as tests/data/tokenizers/make_fixtures.py writes it; returns how many.
inline size_t check_cases(const Tokenizer& tokenizer, std::string_view text) {
  size_t n = 0;
  for (const Json& line : json_lines(text)) {
    const JsonObject& object = line.as_object();
    const std::string input = get_string(object, "text");
    const std::vector<Token> ids = tokens_of(object.at("ids"));
    EXPECT_EQ(tokenizer.encode(input, {.parse_special = true}), ids) << "text: " << input;
    EXPECT_EQ(tokenizer.decode(ids, true), get_string(object, "decoded")) << "text: " << input;
    const Json* framed = find(object, "with_special");
    if (framed != nullptr) {
      const std::vector<Token> expected = framed->is_null() ? ids : tokens_of(*framed);
      EXPECT_EQ(tokenizer.encode(input, {.add_special = true, .parse_special = true}), expected) << "text: " << input;
    }
    if (const Json* plain = find(object, "plain")) {
      EXPECT_EQ(tokenizer.encode(input), tokens_of(*plain)) << "text: " << input;
    }
    n++;
    if (testing::Test::HasFailure()) break;  // one difference says enough
  }
  return n;
}

// The message of the Error that f throws; "" where it throws none.
template <class F>
std::string error_from(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace ingot
