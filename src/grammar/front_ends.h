// The languages of compile(), one function each, in files of their own. Each throws GrammarError with the place.
#pragma once

#include <memory>
#include <string_view>

#include "grammar/grammar.h"

namespace ingot::grammar {

class Vocabulary;

std::shared_ptr<const Grammar> json_schema_grammar(std::string_view schema, bool strict, const Limits& limits);
std::shared_ptr<const Grammar> gbnf_grammar(std::string_view text, const Limits& limits);
std::shared_ptr<const Grammar> lark_grammar(std::string_view text, const Vocabulary& vocabulary, const Limits& limits);
std::shared_ptr<const Grammar> structural_tag_grammar(std::string_view text, const Vocabulary& vocabulary,
                                                      const Limits& limits);

}  // namespace ingot::grammar
