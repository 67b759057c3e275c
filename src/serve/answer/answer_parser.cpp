#include "serve/answer/answer_parser.h"

#include <utility>

#include "serve/answer/reasoning.h"
#include "serve/answer/tool_calls.h"

namespace ingot {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Without the white space at its end.
std::string_view trimmed(std::string_view text) { return text.substr(0, text.find_last_not_of(" \t\r\n") + 1); }

}  // namespace

ToolForm tool_form(std::string_view source) {
  if (!has(source, "tools")) return ToolForm::kNone;
  if (has(source, "[TOOL_CALLS]")) return ToolForm::kMistral;
  if (has(source, "<tool_call>")) {
    // The same mark encloses XML in other models.
    const bool json = has(source, "\"arguments\"") || has(source, "\\\"arguments\\\"");
    const bool xml = has(source, "<function=") || has(source, "<arg_key>");
    return json && !xml ? ToolForm::kHermes : ToolForm::kOther;
  }
  // Meta's templates of 3.1 to 3.3 say it in so many words.
  const bool says = has(source, "Respond in the format {\"name\": function name, \"parameters\": dictionary");
  return says && has(source, "<|start_header_id|>") ? ToolForm::kLlama3 : ToolForm::kOther;
}

std::string_view tool_form_name(ToolForm form) {
  switch (form) {
    case ToolForm::kNone:
      return "none";
    case ToolForm::kHermes:
      return "hermes";
    case ToolForm::kLlama3:
      return "llama3";
    case ToolForm::kMistral:
      return "mistral";
    case ToolForm::kOther:
      break;
  }
  return "other";
}

bool has_reasoning(std::string_view source) { return has(source, "<think>") || has(source, "</think>"); }

bool opens_reasoning(std::string_view prompt) { return trimmed(prompt).ends_with("<think>"); }
bool closes_reasoning(std::string_view prompt) { return trimmed(prompt).ends_with("</think>"); }

std::vector<MarkToken> mark_tokens(const Tokenizer& tokenizer, const AnswerForm& form) {
  std::vector<MarkToken> marks;
  const auto add = [&](const char* text) {
    const std::optional<Token> id = tokenizer.token_id(text);
    if (id && tokenizer.is_special(*id)) marks.push_back({*id, text});
  };
  if (form.reasoning) {
    for (const char* text : {"<think>", "</think>"}) add(text);
  }
  if (form.tools == ToolForm::kHermes) {
    for (const char* text : {"<tool_call>", "</tool_call>"}) add(text);
  } else if (form.tools == ToolForm::kLlama3) {
    add("<|python_tag|>");
  } else if (form.tools == ToolForm::kMistral) {
    for (const char* text : {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}) add(text);
  }
  return marks;
}

struct AnswerParser::Impl {
  AnswerForm form;
  Reasoning reasoning;
  ToolCalls calls;

  void pass(const std::string& thought, const std::string& text, std::vector<AnswerPart>& out) {
    append_part(out, {.kind = AnswerPart::Kind::kReasoning, .text = thought, .index = -1, .id = {}});
    calls.push(text, out);
  }
};

AnswerParser::AnswerParser(AnswerForm form, uint64_t id_seed)
    : impl_(new Impl{
          .form = form, .reasoning = Reasoning(form.opened), .calls = {form.tools, form.tool_names, id_seed}}) {}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

std::vector<AnswerPart> AnswerParser::push(std::string_view bytes) {
  std::vector<AnswerPart> parts;
  std::string thought, text;
  if (impl_->form.reasoning) {
    impl_->reasoning.push(bytes, thought, text);
    impl_->pass(thought, text, parts);
  } else {
    impl_->calls.push(bytes, parts);
  }
  return parts;
}

std::vector<AnswerPart> AnswerParser::finish() {
  std::vector<AnswerPart> parts;
  std::string thought, text;
  if (impl_->form.reasoning) impl_->reasoning.finish(thought, text);
  impl_->pass(thought, text, parts);
  impl_->calls.finish(parts);
  return parts;
}

int AnswerParser::n_calls() const { return impl_->calls.n_calls(); }
bool AnswerParser::calls_are_whole() const { return impl_->calls.n_ended() == impl_->calls.n_calls(); }

bool AnswerParser::complete() const { return impl_->form.one_call && impl_->calls.n_ended() > 0; }

}  // namespace ingot
