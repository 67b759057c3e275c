// How values are written: as JSON, or as families of models write the arguments of calls (grammar/calls/). The emitter
// of schemas asks for the symbols of each part.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "grammar/grammar.h"
#include "grammar/json_parts.h"
#include "grammar/schema/values.h"

namespace ingot::grammar {

class SchemaEmitter;

// An expression over characters as they are spelled between quotes: each character as itself, but for the quote and the
// backslash (\" and \\) and control characters (the short escape, or \u00XX; bare_controls: or themselves).
class Spelling {
 public:
  explicit Spelling(Regexes& pool, char quote = '"', bool bare_controls = false);
  Expr spelled(Expr text);

 private:
  Expr of_bytes(const ByteSet& set);
  Expr from_parts(Expr text, bool in_all);
  Regexes& pool_;
  const char quote_;
  const bool bare_controls_;
  Expr any_spelled_;
  std::unordered_map<Expr, Expr> known_;
};

// What `make` adds to the builder, its lexemes spelled.
inline Symbol spelled_part(GrammarBuilder& builder, std::function<Expr(Expr)> spelled,
                           const std::function<Symbol()>& make) {
  struct Plain {
    GrammarBuilder& builder;
    ~Plain() { builder.spell({}); }
  } const plain{builder};
  builder.spell(std::move(spelled));
  return make();
}

// How the members of an object are written.
class Members {
 public:
  virtual ~Members() = default;
  virtual Symbol open() = 0;
  virtual Symbol close() = 0;
  // All of a member before its value. `later`: another member stands before it.
  virtual Symbol key(bool later, std::string_view name) = 0;
  // The same of all names of an expression over their characters; `all`: it is that of any text.
  virtual Symbol keys(bool later, Expr names, bool all) = 0;
  // Members come in the order of their letters, not of the schema.
  virtual bool sorted() const { return false; }
  // The value, with what ends the member.
  virtual Symbol value(SchemaEmitter& emitter, SetId set);
  // The same of a text that is what `make` adds to the builder, which spells it as it stands here.
  virtual Symbol text_value(const std::function<Symbol()>& make) = 0;
};

// How values are written, and the members of objects among them.
class Notation : public Members {
 public:
  virtual Symbol open_array() = 0;
  virtual Symbol close_array() = 0;
  virtual Symbol comma() = 0;
  virtual Symbol words(bool null, bool yes, bool no) = 0;
  virtual Symbol any_number() = 0;
  virtual Symbol integer() = 0;
  virtual Symbol number(Expr decimals) = 0;
  virtual Symbol any_text() = 0;
  virtual Symbol text(Expr characters) = 0;
  virtual Symbol text_of_length(uint32_t min, uint32_t max) = 0;
  virtual Symbol constant(const std::string& json) = 0;  // a string, integer, boolean or null, given as JSON
  virtual Symbol any_value() = 0;
  virtual Symbol any_object() = 0;
  virtual Symbol any_array() = 0;
};

class JsonNotation : public Notation {
 public:
  explicit JsonNotation(GrammarBuilder& builder);
  JsonParts& parts() { return parts_; }

  Symbol open() override { return parts_.open_object; }
  Symbol close() override { return parts_.close_object; }
  Symbol key(bool later, std::string_view name) override;
  Symbol keys(bool later, Expr names, bool all) override;
  Symbol text_value(const std::function<Symbol()>& make) override;
  Symbol open_array() override { return parts_.open_array; }
  Symbol close_array() override { return parts_.close_array; }
  Symbol comma() override { return parts_.comma; }
  Symbol words(bool null, bool yes, bool no) override;
  Symbol any_number() override { return parts_.any_number; }
  Symbol integer() override { return parts_.spaced(parts_.integer); }
  Symbol number(Expr decimals) override { return parts_.spaced(decimals); }
  Symbol any_text() override { return parts_.any_string; }
  Symbol text(Expr characters) override;
  Symbol text_of_length(uint32_t min, uint32_t max) override;
  Symbol constant(const std::string& json) override { return parts_.spaced(json); }
  Symbol any_value() override { return parts_.any_value(); }
  Symbol any_object() override { return parts_.any_object(); }
  Symbol any_array() override { return parts_.any_array(); }

 private:
  Symbol quoted_key(bool later, Expr spelled);
  Symbol quoted(Expr spelled);

  GrammarBuilder& builder_;
  JsonParts parts_;
  Spelling spelling_;
};

}  // namespace ingot::grammar
