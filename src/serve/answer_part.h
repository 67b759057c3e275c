// A piece of an answer by what it means: AnswerParser makes these of a model's text, the writers of each API send them.
#pragma once

#include <string>

namespace ingot {

struct AnswerPart {
  enum class Kind {
    kText,
    kReasoning,
    kCallBegin,      // call `index` begins: id and name are whole
    kCallArguments,  // a further piece of the JSON of its arguments
  };
  Kind kind = Kind::kText;
  std::string text;                // of all but kCallBegin
  int index = 0;                   // of calls, from 0 in each answer
  std::string id = {}, name = {};  // of kCallBegin
};

}  // namespace ingot
