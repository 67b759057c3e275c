// What a validated request for text wants, whichever API it came by.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/answer/answer_parser.h"
#include "serve/api/constraint_request.h"
#include "serve/api/fields.h"
#include "serve/api/tools_request.h"
#include "serve/served_model.h"

namespace ingot {

class TokenWork;  // serve/api/token_work.h

struct Generation {
  std::vector<std::vector<Token>> prompts;  // one but for completions of a list
  std::vector<std::string> prompt_texts;    // where `echo` is set
  std::string param = "messages";           // the field that has them, for errors
  SamplingParams sampling;
  int choices = 1;      // of each prompt
  int max_tokens = -1;  // as Request has it
  int min_tokens = 0;
  std::vector<Token> end_tokens;
  std::vector<std::string> stops;
  int priority = 0;
  double timeout_seconds = 0;  // the client's own; 0: none
  bool reuse_prefix = true;

  bool stream = false;
  bool include_usage = false;  // a last event with the usage
  bool echo = false;           // the prompt before the answer
  bool continues = false;      // the answer goes on with the prompt's text: a leading space belongs to it

  AnswerForm form;  // what the text is searched for

  std::optional<ConstraintRequest> wanted;            // what the text is held to
  std::shared_ptr<const TokenConstraint> constraint;  // the same once it is compiled
  std::vector<std::string> relaxed;                   // tools whose calls are not held to their schemas

  size_t writer_bytes = 0;          // what the writer of its answer keeps of the request
  std::shared_ptr<void> room = {};  // of held_bytes(), until it has ended

  // The answer's text is searched for reasoning or calls.
  bool is_searched() const { return form.reasoning || form.tools; }
  int64_t prompt_tokens() const;
  // Its prompts are scored: each of their tokens with the likeliest in its place.
  bool scores_prompts() const { return echo && sampling.n_logprobs >= 0; }
  // What it holds while it waits and runs: its prompts, which the engine has again for each choice, their scores, texts
  // that are echoed, what is known of tools, and what its writer keeps.
  size_t held_bytes() const;
  int64_t total_choices() const { return static_cast<int64_t>(prompts.size()) * choices; }
};

// Sampling, lengths, stops and streaming: the fields that all requests for text have under the same names.
void read_common(const Fields& fields, const ServedModel& model, Generation& generation);

// generation.wanted: what the answer's text is held to. REQUIRES: read_common() has read the end tokens.
void read_wanted(const Fields& fields, const ServedModel& model, Generation& generation);

// 404 where the request names a model that is not served.
void check_model(const Fields& fields, const ServedModel& model);

// 400 context_length_exceeded where a prompt leaves no position; also checks that ids are in the vocabulary.
// `param` is the prompt's field.
void check_prompts(const Generation& generation, const ServedModel& model, const std::string& param);

// 400 where the answer would hold more tokens or log-probabilities at once than kMaxHeldTokens and kMaxHeldScores. A
// request that leaves max_tokens out gets as many as they allow. REQUIRES: check_prompts() let it through.
void bound_answer(Generation& generation, const ServedModel& model);

// 400 context_length_exceeded. `tokens`: how many the prompt has, in words.
ApiError context_exceeded(const ServedModel& model, const std::string& tokens, const std::string& param);

// Each reader throws ApiError. `body` has passed read_body() with the endpoint's table.
// `work`: by which their texts become tokens; none: nobody pays for it.
Generation read_chat(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);
Generation read_completion(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);
Generation read_messages(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);
// The tokens of a conversation that is not answered: /v1/messages/count_tokens.
int64_t count_message_tokens(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);

// Text or ids, one or a list: "prompt" and "input". Texts get the model's BOS.
struct Prompts {
  std::vector<std::vector<Token>> tokens;
  std::vector<std::string> texts;  // as given; ids are decoded
};
// `keep_end`: EOS behind a text stays where the model's tokenizer adds it: embeddings are taken there.
Prompts read_prompts(const Json& value, const std::string& param, const ServedModel& model, bool keep_end,
                     TokenWork* work);

// A conversation in the shape that templates expect.
struct Conversation {
  JsonArray messages;
  ToolsOfRequest tools;
  JsonObject variables;  // further ones
};
// Renders and tokenizes it. Throws ApiError 400 where the model has no template or its template refuses.
void render_conversation(const ServedModel& model, const Conversation& conversation, Generation& generation,
                         TokenWork* work);
// The form of calls that the model's template tells of.
TaughtForm tool_form_of(const ServedModel& model);
// What encloses the reasoning that its template teaches; none: it does not reason.
std::optional<ReasoningMarks> reasoning_of(const ServedModel& model);
// The role as the model's template knows it: developer is the system's to most of them.
std::string template_role(std::string role, const ServedModel& model);
// Text of a string or of a list of {"type": "text", "text": …}, joined by line breaks.
std::string content_text(const Json& content, const std::string& path);

// A number that no one can guess, for requests that give no seed.
uint64_t fresh_seed();
// Unique in this process, and hardly ever met in another: "chatcmpl-5f0c…".
std::string unique_id(std::string_view prefix);

}  // namespace ingot
