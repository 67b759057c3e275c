// What a validated request for text wants, whichever API it came by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/fields.h"
#include "serve/served_model.h"

namespace ingot {

struct Generation {
  std::vector<std::vector<Token>> prompts;  // one but for completions of a list
  std::vector<std::string> prompt_texts;    // where `echo` is set
  SamplingParams sampling;
  int choices = 1;      // of each prompt
  int max_tokens = -1;  // as Request has it
  int min_tokens = 0;
  std::vector<Token> end_tokens;
  std::vector<std::string> stops;
  int priority = 0;
  bool reuse_prefix = true;

  bool stream = false;
  bool include_usage = false;  // a last event with the usage
  bool echo = false;           // the prompt before the answer
  bool continues = false;      // the answer goes on with the prompt's text: a leading space belongs to it

  // Conversations: what the text is searched for.
  bool reasoning = false;
  bool tools = false;
  bool parallel_calls = true;
  std::string system_text;  // of the rendered prompt's end: whether the template opened <think> itself

  int64_t prompt_tokens() const;
  int total_choices() const { return static_cast<int>(prompts.size()) * choices; }
};

// Sampling, lengths, stops and streaming: the fields that all requests for text have under the same names.
void read_common(const Fields& fields, const ServedModel& model, Generation& generation);

// 404 where the request names a model that is not served.
void check_model(const Fields& fields, const ServedModel& model);

// 400 context_length_exceeded where a prompt leaves no position; also checks that ids are in the vocabulary.
// `param` is the prompt's field.
void check_prompts(const Generation& generation, const ServedModel& model, const std::string& param);

// Each reader throws ApiError. `body` has passed read_body() with the endpoint's table.
Generation read_chat(const JsonObject& body, const ServedModel& model);
Generation read_completion(const JsonObject& body, const ServedModel& model);
Generation read_messages(const JsonObject& body, const ServedModel& model);
// The tokens of a conversation that is not answered: /v1/messages/count_tokens.
int64_t count_message_tokens(const JsonObject& body, const ServedModel& model);

// Text or ids, one or a list: "prompt" and "input". Texts get the model's BOS; `texts` receives what was given.
std::vector<std::vector<Token>> read_prompts(const Json& value, const std::string& param, const ServedModel& model,
                                             std::vector<std::string>* texts);

// A conversation through the model's template. `messages` in the template's shape; `tools` may be null. Throws
// ApiError 400 where there is no template or it refuses the conversation.
std::vector<Token> render_conversation(const ServedModel& model, JsonArray messages, Json tools, JsonObject variables,
                                       Generation& generation);

}  // namespace ingot
