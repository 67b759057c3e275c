// The fields of /tokenize and /detokenize.
#include <array>

#include "serve/api/shared_fields.h"

namespace ingot {
namespace {

constexpr std::array kTokenize = {
    kModelField,
    Field{.name = "text", .kinds = kString, .text = "What is cut into tokens"},
    Field{.name = "content", .kinds = kString, .text = "The same by another name"},
    Field{.name = "prompt", .kinds = kString, .text = "The same by another name"},
    Field{.name = "add_special", .kinds = kBool, .text = "BOS and EOS as the model asks", .fallback = "false"},
    Field{.name = "add_special_tokens", .kinds = kBool, .text = "The same by another name"},
    Field{.name = "parse_special",
          .kinds = kBool,
          .text = "Control tokens in the text are read as such",
          .fallback = "false"},
};

constexpr std::array kDetokenize = {
    kModelField,
    Field{.name = "ids", .kinds = kArray, .text = "Tokens, at most as many as the context has", .items = kInteger},
    Field{.name = "tokens", .kinds = kArray, .text = "The same by another name", .items = kInteger},
};

}  // namespace

const FieldTable kTokenizeFields{"TokenizeRequest", kTokenize};
const FieldTable kDetokenizeFields{"DetokenizeRequest", kDetokenize};

}  // namespace ingot
