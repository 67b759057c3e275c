// Finds the calls of tools in what a model writes, in the form that it was taught.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer/answer_parser.h"
#include "serve/answer/json_stream.h"

namespace ingot {

// "call_…", or nine letters and digits: Mistral's templates refuse any other id. The same for the same seed and index.
std::string call_id(ToolForm form, uint64_t seed, int index);

// Appends to the last part where it is of the same kind and call, so that parts are as few as they can be.
void append_part(std::vector<AnswerPart>& out, AnswerPart part);

class ToolCalls {
 public:
  ToolCalls(ToolForm form, std::vector<std::string> names, uint64_t id_seed);

  void push(std::string_view text, std::vector<AnswerPart>& out);
  void finish(std::vector<AnswerPart>& out);

  int n_calls() const { return n_calls_; }
  int n_ended() const { return n_ended_; }

 private:
  enum class At : uint8_t {
    kText,
    kAfterMark,  // the mark of a call was read; its object, list or name follows
    kName,       // Mistral: name[ARGS]
    kArguments,  // Mistral: after [ARGS]
    kObject,     // inside the object of a call
    kClose,      // Hermes: </tool_call> follows
    kBetween,    // a further call may follow without a mark
  };

  void feed(char c);
  void text_byte(char c);
  void plain(char c);
  void after_mark(char c);
  void name_byte(char c);
  void arguments_byte(char c);
  void object_byte(char c);
  void close_byte(char c);
  void between(char c);
  void begin_object(char c, bool marked);
  void begin_call(const std::string& name);
  void end_call();
  void fail(char c);
  void emit(AnswerPart::Kind kind, std::string text);
  bool is_known(std::string_view name) const;

  const ToolForm form_;
  const std::vector<std::string> names_;
  const uint64_t id_seed_;
  const std::string_view mark_;
  std::vector<AnswerPart>* out_ = nullptr;  // during push() and finish()

  At at_ = At::kText;
  size_t matched_ = 0;  // bytes of the mark that is being read
  bool edge_ = true;    // only white space since the beginning or the last call
  std::string space_;   // that white space
  std::string raw_;     // what was read of a call that may turn out to be none
  std::string name_;    // Mistral: what follows the mark
  bool in_list_ = false;
  bool marked_ = false;  // the call's mark was seen, not only its object
  std::optional<CallScanner> object_;
  JsonValueStream value_;
  bool value_begun_ = false;
  int n_calls_ = 0, n_ended_ = 0;
};

}  // namespace ingot
