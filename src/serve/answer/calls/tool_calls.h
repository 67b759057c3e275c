// Finds the calls of tools in what a model writes, in the forms of its family.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer/answer_parser.h"
#include "serve/answer/calls/call_reader.h"

namespace ingot {

// "call_…", or nine letters and digits where the form asks for them. The same for the same seed and index.
std::string call_id(const CallForm& form, uint64_t seed, int index);

// Appends to the last part where it is of the same kind and call, so that parts are as few as they can be.
void append_part(std::vector<AnswerPart>& out, AnswerPart part);

class ToolCalls : private CallSink {
 public:
  enum class Read : unsigned char {
    kThisForm,
    kFamily,       // other forms of the family are read too
    kAtBeginning,  // and once text has begun, all that comes is text
  };
  // Without a form everything is text. All given outlives it.
  ToolCalls(const CallForm* form, const std::vector<std::string>& names, const std::vector<ToolSignature>& tools,
            uint64_t id_seed, Read read = Read::kFamily);
  ToolCalls(const ToolCalls&) = delete;
  ToolCalls& operator=(const ToolCalls&) = delete;

  void push(std::string_view text, std::vector<AnswerPart>& out);
  void finish(std::vector<AnswerPart>& out);

  int n_calls() const { return n_calls_; }
  int n_ended() const { return n_ended_; }

 private:
  // Where a section of calls may begin: a form and the text that begins it, up to its first white space.
  struct Start {
    const CallForm* form;
    std::string_view mark;  // empty: a bare object
  };

  void feed(std::string_view bytes);
  void text_byte(char c);
  void plain(char c);
  void begin_section(std::string_view mark, const std::string& bytes);
  void try_next(const std::string& bytes);
  void section_byte(char c);
  void begin_call(const std::string& name) override;
  void arguments(std::string text) override;
  void end_call() override;
  void emit(AnswerPart::Kind kind, std::string text);

  const CallForm* const form_;
  const std::vector<std::string>& names_;
  const std::vector<ToolSignature>& tools_;
  const uint64_t id_seed_;
  const std::function<bool(std::string_view)> is_known_;
  std::vector<Start> starts_;
  std::vector<AnswerPart>* out_ = nullptr;  // during push() and finish()

  const bool at_beginning_;
  bool all_text_ = false;             // from here on
  bool edge_ = true;                  // only white space since the beginning or the last call
  std::string space_;                 // that white space
  std::string hold_;                  // what may be the beginning of a mark
  std::string before_;                // white space before the section that is being read
  std::string_view mark_;             // its mark
  size_t next_start_ = 0;             // of starts_, should the form that is tried not be it
  std::optional<CallReader> reader_;  // inside a section
  int n_calls_ = 0, n_ended_ = 0;
};

}  // namespace ingot
