// The bytes of an answer as /v1/responses has them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/answer/answer_writer.h"
#include "serve/responses/response_request.h"

namespace ingot {

// Keeps an answer: its object, and the items that it is made of, a JSON array. False: there is no room for it.
using KeepResponse = std::function<bool(const std::string& response, const std::string& output)>;

// `tokenizer` must outlive it. `keep` is called once, at the end, where the frame says that it is to be kept.
std::unique_ptr<AnswerWriter> response_writer(const Tokenizer& tokenizer, AnswerNames names, ResponseFrame frame,
                                              KeepResponse keep);

}  // namespace ingot
