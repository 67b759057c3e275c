// Template source → tokens, with the white-space rules of trim_blocks and lstrip_blocks already applied to the data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/parse/place.h"

namespace ingot::jinja {

enum class Tok : uint8_t {
  kEof,
  kData,
  kPrintBegin,  // {{
  kPrintEnd,
  kTagBegin,  // {%
  kTagEnd,
  kName,
  kString,
  kInt,
  kFloat,
  kAdd,
  kSub,
  kDiv,
  kFloorDiv,
  kMul,
  kMod,
  kPow,
  kTilde,
  kLBracket,
  kRBracket,
  kLParen,
  kRParen,
  kLBrace,
  kRBrace,
  kEq,
  kNe,
  kGt,
  kGe,
  kLt,
  kLe,
  kAssign,
  kDot,
  kColon,
  kPipe,
  kComma,
  kSemicolon,
};

struct Token {
  Tok type = Tok::kEof;
  Place place;
  std::string text;  // data, name, the value of a string, or the token as written
  int64_t integer = 0;
  double real = 0;

  bool is_name(std::string_view name) const { return type == Tok::kName && text == name; }
};

// The last token is kEof. Throws Error naming line and column.
std::vector<Token> tokenize(std::string_view source);

}  // namespace ingot::jinja
