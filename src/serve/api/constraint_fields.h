// The fields that limit an answer's text, in the spellings of OpenAI (response_format), vLLM (structured_outputs,
// guided_*) and llama.cpp (grammar, json_schema). constraint_request.h reads them.
#pragma once

#include <array>

#include "serve/api/fields.h"

namespace ingot {

inline constexpr size_t kMaxGrammarLength = size_t{1} << 20;  // characters of a schema, pattern or grammar
inline constexpr size_t kMaxAnswerChoices = 4096;             // texts that an answer may be
inline constexpr size_t kMaxAnswerChoiceLength = 4096;

inline constexpr std::array kNamedSchemaFields = {
    Field{.name = "name", .kinds = kString, .text = "Of the schema, for people", .max_length = 256},
    Field{.name = "description", .kinds = kString, .text = "What the answer is for", .effect = FieldEffect::kIgnored},
    Field{.name = "schema", .kinds = kObject | kBool, .text = "JSON Schema, draft 7 or 2020-12", .required = true},
    Field{.name = "strict",
          .kinds = kBool,
          .text = "A keyword that is not known is an error; the answer is held to the schema in any case",
          .fallback = "false"},
};
inline constexpr FieldTable kNamedSchema{"NamedSchema", kNamedSchemaFields};

inline constexpr std::array kResponseFormatFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "Any text, any JSON object, JSON of a schema, or text with tags that begin such",
          .required = true,
          .values = "text|json_object|json_schema|structural_tag"},
    Field{.name = "json_schema", .kinds = kObject, .text = "With json_schema", .members = &kNamedSchema},
    Field{.name = "schema", .kinds = kObject | kBool, .text = "The same without a name; with json_object too"},
    Field{.name = "structures", .kinds = kArray, .text = "With structural_tag: begin, schema and end of each tag"},
    Field{.name = "triggers", .kinds = kArray, .text = "With structural_tag: texts that begin tags", .items = kString},
    Field{.name = "format", .kinds = kObject, .text = "With structural_tag: the tags as one object"},
};
inline constexpr FieldTable kResponseFormat{"ResponseFormat", kResponseFormatFields};

inline constexpr Field choice_field(const char* name) {
  return {.name = name,
          .kinds = kArray,
          .text = "The answer is one of these texts",
          .max_items = kMaxAnswerChoices,
          .items = kString,
          .item_max_length = kMaxAnswerChoiceLength};
}
inline constexpr Field grammar_field(const char* name, const char* text) {
  return {.name = name, .kinds = kString, .text = text, .max_length = kMaxGrammarLength};
}
inline constexpr Field schema_field(const char* name) {
  return {.name = name,
          .kinds = kObject | kBool | kString,
          .text = "The answer is JSON of this schema",
          .max_length = kMaxGrammarLength};
}
inline constexpr const char* kPatternText = "The whole answer matches this pattern, as ECMA-262 writes them";
inline constexpr const char* kGrammarText = "The answer follows this grammar: GBNF, or Lark where it has no ::=";

inline constexpr std::array kStructuredFields = {
    schema_field("json"),
    grammar_field("regex", kPatternText),
    choice_field("choice"),
    grammar_field("grammar", kGrammarText),
    Field{.name = "json_object", .kinds = kBool, .text = "The answer is a JSON object", .fallback = "false"},
    Field{.name = "structural_tag",
          .kinds = kString | kObject,
          .text = "As response_format has it",
          .max_length = kMaxGrammarLength},
    Field{
        .name = "whitespace_pattern", .kinds = kString, .text = "White space of JSON", .effect = FieldEffect::kRefused},
    Field{.name = "disable_any_whitespace",
          .kinds = kBool,
          .text = "White space of JSON",
          .effect = FieldEffect::kRefused},
    Field{.name = "disable_additional_properties",
          .kinds = kBool,
          .text = "Properties that the schema does not name",
          .effect = FieldEffect::kRefused},
    Field{.name = "disable_fallback", .kinds = kBool, .text = "There is none", .effect = FieldEffect::kIgnored},
};
inline constexpr FieldTable kStructured{"StructuredOutputs", kStructuredFields};

inline constexpr std::array kConstraintFields = {
    Field{.name = "response_format",
          .kinds = kObject,
          .text = "What the answer's text is held to",
          .members = &kResponseFormat},
    Field{.name = "structured_outputs",
          .kinds = kObject,
          .text = "The same as vLLM spells it: exactly one of its members",
          .members = &kStructured},
    schema_field("guided_json"),
    grammar_field("guided_regex", kPatternText),
    choice_field("guided_choice"),
    grammar_field("guided_grammar", kGrammarText),
    grammar_field("grammar", "The answer follows this grammar, as llama.cpp writes them (GBNF)"),
    schema_field("json_schema"),
};

}  // namespace ingot
