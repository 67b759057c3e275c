#include "serve/answer/answer_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "serve/answer/calls/tool_calls.h"
#include "serve/answer/channels.h"
#include "serve/answer/custom_input.h"
#include "serve/answer/reasoning.h"

namespace ingot {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Calls `add` with every <…> and […] of the form's texts: vocabularies have tokens for many of them.
template <class Add>
void add_marks_of(const CallForm& form, const Add& add) {
  for (const std::string_view text :
       {form.open, form.close, form.call_open, form.call_close, form.id_close, form.id_open, form.name_close,
        form.key_open, form.key_close, form.attribute_close, form.value_close, form.quote}) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (const size_t size = mark_size(text.substr(i)); size > 0) add(text.substr(i, size));
    }
  }
}

// Without the white space at its end.
std::string_view trimmed(std::string_view text) { return text.substr(0, text.find_last_not_of(" \t\r\n") + 1); }

}  // namespace

bool has_reasoning(std::string_view source) { return has(source, "<think>") || has(source, "</think>"); }

bool opens_reasoning(std::string_view prompt, const ReasoningMarks& marks) {
  return trimmed(prompt).ends_with(marks.open);
}
bool closes_reasoning(std::string_view prompt, const ReasoningMarks& marks) {
  return trimmed(prompt).ends_with(marks.close);
}

std::vector<MarkToken> mark_tokens(const Tokenizer& tokenizer, const AnswerForm& form) {
  std::vector<MarkToken> marks;
  const auto add = [&](std::string_view text) {
    const std::optional<Token> id = tokenizer.token_id(text);
    const bool known = std::ranges::any_of(marks, [&](const MarkToken& mark) { return mark.text == text; });
    if (id && tokenizer.is_special(*id) && !known) marks.push_back({*id, std::string(text)});
  };
  if (form.reasoning) {
    for (const std::string_view text : {std::string_view(form.marks.open), std::string_view(form.marks.close)}) {
      add(text);
      for (size_t i = 0; i < text.size(); ++i) {
        if (const size_t size = mark_size(text.substr(i)); size > 0) add(text.substr(i, size));
      }
    }
    if (form.marks.channels) {
      for (const char* text : {"<|start|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|end|>", "<|eom|>"})
        add(text);
    }
  }
  if (form.tools) {
    for (const CallForm* read : also_read(*form.tools)) add_marks_of(*read, add);
  }
  return marks;
}

struct AnswerParser::Impl {
  std::shared_ptr<const AnswerForm> form;
  Reasoning reasoning;
  Channels channels;
  ToolCalls calls;

  std::optional<CustomInput> input;  // of the call of a custom tool that is being read

  // Calls of custom tools as they are given out.
  void open_custom(std::vector<AnswerPart>& parts) {
    if (form->custom.empty()) return;
    std::vector<AnswerPart> out;
    for (AnswerPart& part : parts) {
      if (part.kind == AnswerPart::Kind::kCallBegin) {
        const bool custom = std::ranges::find(form->custom, part.text) != form->custom.end();
        input.reset();
        if (custom) input.emplace();
      }
      const bool of_call = part.kind != AnswerPart::Kind::kText && part.kind != AnswerPart::Kind::kReasoning;
      part.custom = of_call && input.has_value();
      if (part.custom && part.kind == AnswerPart::Kind::kCallArguments) part.text = input->push(part.text);
      append_part(out, std::move(part));
    }
    parts = std::move(out);
  }

  // What is reasoning, and all else.
  void split(std::string_view bytes, std::string& thought, std::string& text) {
    if (form->marks.channels) {
      channels.push(bytes, thought, text);
    } else {
      reasoning.push(bytes, thought, text);
    }
  }

  void pass(const std::string& thought, const std::string& text, std::vector<AnswerPart>& out) {
    append_part(out, {.kind = AnswerPart::Kind::kReasoning, .text = thought, .index = -1, .id = {}});
    calls.push(text, out);
  }
};

AnswerParser::AnswerParser(std::shared_ptr<const AnswerForm> form, uint64_t id_seed)
    : impl_(new Impl{.form = form,
                     .reasoning = Reasoning(form->marks, form->opened),
                     .channels = Channels(form->opened, form->tools != nullptr),
                     .calls = {form->tools, form->tool_names, form->signatures, id_seed,
                               form->calls_first ? ToolCalls::Read::kAtBeginning : ToolCalls::Read::kFamily},
                     .input = {}}) {
  if (!form->call_opened) return;
  std::vector<AnswerPart> none;
  impl_->calls.push(form->tools->call_open, none);
}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

std::vector<AnswerPart> AnswerParser::push(std::string_view bytes) {
  std::vector<AnswerPart> parts;
  std::string thought, text;
  if (impl_->form->reasoning) {
    impl_->split(bytes, thought, text);
    impl_->pass(thought, text, parts);
  } else {
    impl_->calls.push(bytes, parts);
  }
  impl_->open_custom(parts);
  return parts;
}

std::vector<AnswerPart> AnswerParser::finish() {
  std::vector<AnswerPart> parts;
  std::string thought, text;
  if (impl_->form->reasoning && impl_->form->marks.channels) {
    impl_->channels.finish(thought, text);
  } else if (impl_->form->reasoning) {
    impl_->reasoning.finish(thought, text);
  }
  impl_->pass(thought, text, parts);
  impl_->calls.finish(parts);
  impl_->open_custom(parts);
  return parts;
}

int AnswerParser::n_calls() const { return impl_->calls.n_calls(); }
bool AnswerParser::calls_are_whole() const { return impl_->calls.n_ended() == impl_->calls.n_calls(); }

bool AnswerParser::complete() const { return impl_->form->one_call && impl_->calls.n_ended() > 0; }

}  // namespace ingot
