// The languages of compile(), one function each, in files of their own. Each throws GrammarError with the place.
#pragma once

#include <memory>
#include <string_view>

#include "files/json.h"
#include "grammar/compile.h"
#include "grammar/grammar.h"

namespace ingot::grammar {

class Vocabulary;

std::shared_ptr<const Grammar> json_schema_grammar(std::string_view schema, bool strict, const Limits& limits);
std::shared_ptr<const Grammar> gbnf_grammar(std::string_view text, const Limits& limits);
std::shared_ptr<const Grammar> lark_grammar(std::string_view text, const Vocabulary& vocabulary, const Limits& limits);
std::shared_ptr<const Grammar> structural_tag_grammar(std::string_view text, const Vocabulary& vocabulary,
                                                      const Limits& limits);

// Calls of tools (grammar/calls/calls.h).
std::shared_ptr<const Grammar> calls_grammar(const Source& source, const Vocabulary& vocabulary, const Limits& limits);

// The same as part of a larger grammar: a symbol of the builder, which may derive no text.
Symbol json_schema_symbol(GrammarBuilder& builder, const Json& schema, bool strict);
Symbol schema_text_symbol(GrammarBuilder& builder, std::string_view schema, bool strict);  // derives some text
Symbol structural_tag_symbol(GrammarBuilder& builder, std::string_view text, const Vocabulary& vocabulary);
Symbol gbnf_symbol(GrammarBuilder& builder, std::string_view text);
Symbol lark_symbol(GrammarBuilder& builder, std::string_view text, const Vocabulary& vocabulary);
// Of a source in any language but kCalls.
Symbol source_symbol(GrammarBuilder& builder, const Source& source, const Vocabulary& vocabulary);

}  // namespace ingot::grammar
