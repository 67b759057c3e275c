// What the fuzz targets of vocabularies share: a loaded one must encode and decode whatever it says.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace ingot {

template <class Load>
void exercise(Load&& load) {
  try {
    const std::unique_ptr<Tokenizer> tokenizer = load();
    for (const char* text : {"", " ", "The king's 1234 men\n\n  <s>[INST]", "\u00e9e\u0301 \u4e2d\u6587 \u2581\u2581a",
                             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa abababab <0x0A>\t"}) {
      try {
        const std::vector<Token> ids = tokenizer->encode(text, {.add_special = true, .parse_special = true});
        for (const Token id : ids) {
          if (!tokenizer->contains(id)) std::abort();
        }
        if (!utf8_valid(tokenizer->decode(ids, true))) std::abort();
        tokenizer->encode(text);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace ingot
