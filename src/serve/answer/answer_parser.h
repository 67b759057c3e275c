// What a model writes, taken apart while it comes: its reasoning, the text for the reader, and calls of tools.
//
// However the text is cut into pushes, the parts are the same once neighbours of one kind are joined. No text is lost:
// what looked like a call and is none comes out as text, letter by letter. Only white space around reasoning and calls
// is dropped, and the marks that enclose them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/call_form.h"
#include "serve/answer/calls/parameter_reader.h"
#include "serve/answer/reasoning.h"
#include "text/tokenizer.h"

namespace ingot {

// The template has the model reason between <think> and </think>. Other marks: taught_form.h.
bool has_reasoning(std::string_view template_source);

// What is searched for in one answer.
struct AnswerForm {
  const CallForm* tools = nullptr;        // null: calls are not searched for
  std::vector<std::string> tool_names;    // of the request; what is not marked as a call is one only if it names one
  std::vector<ToolSignature> signatures;  // of the same, where known
  bool reasoning = false;
  bool opened = false;                   // the prompt ends with the mark of reasoning: the answer begins inside
  bool closed = false;                   // the prompt ends with the other mark: the answer begins after it
  bool one_call = false;                 // complete() after the first
  bool call_opened = false;              // the prompt ends with what begins a call, or text, in the form of `tools`
  bool calls_first = false;              // an answer that begins with anything else has no calls in it
  std::vector<std::string> custom = {};  // tools whose calls carry a text, as the value of the one argument
  ReasoningMarks marks = {};             // of `reasoning`
  std::string lead = {};                 // what must stand before an answer that is held to something
};

// The rendered prompt ends with the mark that begins reasoning; with the one that ends it.
bool opens_reasoning(std::string_view prompt, const ReasoningMarks& marks = {});
bool closes_reasoning(std::string_view prompt, const ReasoningMarks& marks = {});

// Control tokens whose text the parser must see, as far as the model has them: a decoder that hides control tokens
// must write these. Empty where nothing is searched for.
struct MarkToken {
  Token id;
  std::string text;  // "[TOOL_CALLS]"
};
std::vector<MarkToken> mark_tokens(const Tokenizer& tokenizer, const AnswerForm& form);

struct AnswerPart {
  enum class Kind : uint8_t {
    kText,
    kReasoning,
    kCallBegin,      // `text` is the tool's name
    kCallArguments,  // `text` is the next piece of the arguments' JSON, or of a custom tool's text; a call may have
                     // none, one or many
    kCallEnd,        // its arguments are whole
  };
  Kind kind = Kind::kText;
  std::string text;
  int index = -1;       // of calls: 0, 1, …
  std::string id;       // of kCallBegin: "call_…", or nine letters and digits where the model's template wants such
  bool custom = false;  // of calls: of a custom tool

  bool operator==(const AnswerPart&) const = default;
};

// One choice's answer. One thread at a time.
class AnswerParser {
 public:
  // Ids of calls are made from `id_seed`, which should differ between answers. The choices of a request share a form:
  // its tools may be large.
  AnswerParser(std::shared_ptr<const AnswerForm> form, uint64_t id_seed);
  AnswerParser(AnswerForm form, uint64_t id_seed)
      : AnswerParser(std::make_shared<const AnswerForm>(std::move(form)), id_seed) {}
  ~AnswerParser();
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  // The next text, whole characters. Parts are never empty but for kCallEnd. Throws ApiError where a call is beyond
  // what may be held back (held_text.h).
  std::vector<AnswerPart> push(std::string_view text);
  // No more text comes: what was held back. A call that is not whole stays without kCallEnd.
  std::vector<AnswerPart> finish();

  int n_calls() const;
  // Every call that has begun has ended.
  bool calls_are_whole() const;
  // One call was asked for and is whole: the rest of the answer is not wanted.
  bool complete() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot
