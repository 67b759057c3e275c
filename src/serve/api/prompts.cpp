// From texts, ids and conversations to the tokens of prompts.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/utf8.h"
#include "serve/api/forced_call.h"
#include "serve/api/generation.h"
#include "serve/api/shared_fields.h"
#include "serve/api/token_work.h"

namespace ingot {
namespace {

// Of a rendered prompt: more than any template writes after the last message.
constexpr size_t kPromptEnd = 64;

// What is refused for its length should cost no more than what is not: of a text that is far longer than tokens of
// this size would fill the context with, the beginning is tried first.
constexpr size_t kProbeBytes = 16;

std::string_view view(const Json& value) { return {value.get_string().data(), value.get_string().size()}; }

size_t probe_size(const ServedModel& model) { return static_cast<size_t>(model.context) * kProbeBytes + 4096; }

// Of a text's beginning. Twice the context: how the rest would have changed the last tokens of it does not matter.
void refuse_probe(const ServedModel& model, size_t tokens, const std::string& param) {
  if (tokens <= 2 * static_cast<size_t>(model.context)) return;
  throw context_exceeded(model, fmt::format("more than {}", tokens), param);
}

// What it cuts is paid by whoever asked for it.
std::vector<Token> encode(TokenWork* work, size_t bytes,
                          const std::function<std::vector<Token>(const EncodePause*)>& encode) {
  if (!work) return encode(nullptr);
  return work->run(bytes, [&](const EncodePause& pause) { return encode(&pause); });
}

std::vector<Token> encode_text(const ServedModel& model, std::string_view text, bool keep_end, const std::string& param,
                               TokenWork* work) {
  const Tokenizer& tokenizer = *model.tokenizer;
  const auto cut = [&](std::string_view part, bool special) {
    return encode(work, part.size(), [&](const EncodePause* pause) {
      std::vector<Token> tokens = tokenizer.encode(part, {.add_special = special, .pause = pause});
      // EOS behind the text would end what is to be continued.
      const bool has_end = special && tokenizer.adds_eos() && !tokens.empty() && tokens.back() == *tokenizer.eos();
      if (has_end && !keep_end) tokens.pop_back();
      return tokens;
    });
  };
  if (const size_t probe = probe_size(model); text.size() > 2 * probe) {
    const std::string_view begin = text.substr(0, utf8_valid_length(text.substr(0, probe)));
    refuse_probe(model, cut(begin, false).size(), param);
  }
  return cut(text, true);
}

std::vector<Token> read_ids(const JsonArray& ids, const std::string& path, const ServedModel& model) {
  std::vector<Token> tokens;
  tokens.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = exact_integer(ids[i]).value_or(-1);
    if (id < 0 || id >= model.vocab) {
      const std::string where = fmt::format("{}[{}]", path, i);
      throw bad_field(where, fmt::format("{} is none of the {} tokens of this model", where, model.vocab));
    }
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

std::string decode_known(const ServedModel& model, const std::vector<Token>& tokens) {
  std::vector<Token> known;
  std::ranges::copy_if(tokens, std::back_inserter(known), [&](Token t) { return model.tokenizer->contains(t); });
  return model.tokenizer->decode(known);
}

void add_prompt(const Json& value, const std::string& path, const ServedModel& model, bool keep_end, TokenWork* work,
                Prompts& prompts) {
  if (value.is_string()) {
    prompts.texts.emplace_back(view(value));
    prompts.tokens.push_back(encode_text(model, view(value), keep_end, path, work));
  } else {
    prompts.tokens.push_back(read_ids(value.get_array(), path, model));
    prompts.texts.push_back(decode_known(model, prompts.tokens.back()));
  }
}

// The tokens of a rendered conversation.
std::vector<Token> encode_pieces(const ServedModel& model, std::span<const ChatTemplate::Piece> pieces, TokenWork* work,
                                 const std::string& param) {
  const auto cut = [&](std::span<const ChatTemplate::Piece> part, size_t size) {
    return encode(work, size, [&](const EncodePause* pause) { return encode_prompt(*model.tokenizer, part, pause); });
  };
  const size_t probe = probe_size(model);
  size_t bytes = 0;
  for (const ChatTemplate::Piece& piece : pieces) bytes += piece.text.size();
  if (bytes > 2 * probe) {
    std::vector<ChatTemplate::Piece> begin;
    for (size_t i = 0, left = probe; i < pieces.size() && left > 0; ++i) {
      const std::string& text = pieces[i].text;
      const size_t size = text.size() <= left ? text.size() : utf8_valid_length(text.substr(0, left));
      begin.push_back({text.substr(0, size), pieces[i].from_template});
      left = text.size() <= left ? left - size : 0;
    }
    refuse_probe(model, cut(begin, probe).size(), param);
  }
  return cut(pieces, bytes);
}

// What a template says when it refuses a conversation, if these are its own words: others may quote the conversation.
std::string own_words(const ChatTemplate& chat, std::string_view error) {
  const size_t colon = error.find(": ");
  if (colon == std::string_view::npos) return {};
  const std::string_view words = error.substr(colon + 2);
  if (words.size() < 8 || chat.source().find(words) == std::string::npos) return {};
  return fmt::format(": {}", words);
}

// What the template wrote after the last words of the conversation.
std::string template_end(const std::vector<ChatTemplate::Piece>& pieces) {
  std::string end;
  for (auto piece = pieces.rbegin(); piece != pieces.rend() && piece->from_template; ++piece) {
    end.insert(0, piece->text);
    if (end.size() >= kPromptEnd) break;
  }
  return end;
}

// How the answer reasons, and where it begins in that. An answer of messages that is held to something has its
// reasoning opened by the prompt: where it ends, the header of the answer must follow.
void find_reasoning(const ServedModel& model, const ChatTemplate& chat, std::vector<ChatTemplate::Piece>& pieces,
                    Generation& generation) {
  AnswerForm& form = generation.form;
  const bool own = model.chat.get() == &chat;
  const std::optional<ReasoningMarks> marks = own ? reasoning_of(model) : taught_reasoning(chat, model.source);
  form.reasoning = marks.has_value();
  const std::string end = template_end(pieces);
  form.call_opened = form.tools && !form.tools->text_name.empty() && end.ends_with(form.tools->call_open);
  if (!marks) return;
  form.marks = *marks;
  form.opened = opens_reasoning(end, *marks);
  form.closed = closes_reasoning(end, *marks) && !marks->channels;
  using Calls = ConstraintRequest::Calls;
  std::optional<ConstraintRequest>& wanted = generation.wanted;
  if (!marks->channels || !wanted || wanted->calls == Calls::kOffered) return;
  if (!form.opened) pieces.push_back({marks->open, true});
  form.opened = true;
  const bool has_header = form.tools && form.tools->call_open.starts_with(marks->header);
  form.lead = wanted->calls == Calls::kNone ? marks->lead : has_header ? "" : marks->header;
  if (wanted->calls == Calls::kEither) wanted->source.lead = marks->lead.substr(form.lead.size());
}

}  // namespace

Prompts read_prompts(const Json& value, const std::string& param, const ServedModel& model, bool keep_end,
                     TokenWork* work) {
  Prompts prompts;
  if (value.is_string()) {
    add_prompt(value, param, model, keep_end, work, prompts);
    return prompts;
  }
  const JsonArray& items = value.get_array();
  if (items.empty()) throw bad_field(param, fmt::format("{} is an empty list", param));
  if (items[0].is_number()) {
    add_prompt(value, param, model, keep_end, work, prompts);
    return prompts;
  }
  if (items.size() > kMaxPrompts) {
    throw bad_field(param, fmt::format("{} has {} items, at most {} are allowed", param, items.size(), kMaxPrompts));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", param, i);
    if (items[i].kind() != items[0].kind()) throw bad_field(path, fmt::format("{} is of another type", path));
    add_prompt(items[i], path, model, keep_end, work, prompts);
  }
  return prompts;
}

void render_conversation(const ServedModel& model, const Conversation& conversation, Generation& generation,
                         TokenWork* work) {
  const std::shared_ptr<const ChatTemplate>& chat =
      !conversation.tools.tools.empty() && model.tool_chat ? model.tool_chat : model.chat;
  if (!chat) {
    throw ApiError{
        .status = 400,
        .message = fmt::format("{} need a chat template, and this model has none: /v1/completions goes on with a text",
                               generation.param),
        .param = generation.param,
        .code = "no_chat_template"};
  }
  JsonObject given = conversation.variables;
  given["messages"] = conversation.messages;
  given["tools"] = conversation.tools.tools.empty() ? Json(nullptr) : Json(conversation.tools.tools);
  given["documents"] = nullptr;
  given["add_generation_prompt"] = true;
  std::vector<ChatTemplate::Piece> pieces;
  int64_t steps = 0;
  try {
    const std::function<void()> pause = [&] { work->give_way(); };
    const RenderOptions options{.now = std::nullopt, .steps = &steps, .pause = work ? &pause : nullptr};
    pieces = chat->render_pieces(template_variables(given, model.source), options);
  } catch (const ApiError&) {
    if (work) work->pay_render(steps);
    throw;
  } catch (const Error& error) {
    if (work) work->pay_render(steps);
    throw bad_field(generation.param, fmt::format("{} are not a conversation that the model's chat template takes{}",
                                                  generation.param, own_words(*chat, error.what())));
  }
  if (work) work->pay_short_render(steps, pieces);
  AnswerForm& form = generation.form;
  form.tools = conversation.tools.tools.empty() ? nullptr : tool_form_of(model).calls;
  form.tool_names = conversation.tools.names;
  form.signatures = conversation.tools.signatures;
  form.one_call = conversation.tools.one_call;
  for (const auto& [name, held] : conversation.tools.custom) form.custom.push_back(name);
  if (form.tools && !generation.wanted) {
    generation.wanted = conversation.tools.forced.empty() ? offered_calls(conversation.tools, *form.tools)
                                                          : forced_call(conversation.tools, *form.tools);
  } else if (form.tools && generation.wanted->calls == ConstraintRequest::Calls::kNone) {
    generation.wanted = calls_or(*std::move(generation.wanted), conversation.tools, *form.tools);
    form.calls_first = true;
  }
  find_reasoning(model, *chat, pieces, generation);
  generation.prompts.push_back(encode_pieces(model, pieces, work, generation.param));
}

TaughtForm tool_form_of(const ServedModel& model) {
  if (model.taught) return *model.taught;
  const std::shared_ptr<const ChatTemplate>& chat = model.tool_chat ? model.tool_chat : model.chat;
  return chat ? taught_form(*chat, model.source) : TaughtForm{};
}

std::optional<ReasoningMarks> reasoning_of(const ServedModel& model) {
  if (model.reasoning) return *model.reasoning;
  return model.chat ? taught_reasoning(*model.chat, model.source) : std::nullopt;
}

// Only templates of the latest models know developers.
std::string template_role(std::string role, const ServedModel& model) {
  const bool unknown = role == "developer" && model.source.text.find("developer") == std::string::npos;
  return unknown ? "system" : role;
}

std::string content_text(const Json& content, const std::string& path) {
  if (content.is_string()) return std::string(view(content));
  std::string text;
  const JsonArray& parts = content.get_array();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Fields part(parts[i].get_object(), fmt::format("{}[{}].", path, i));
    const char* name = part.string("type") == "refusal" ? "refusal" : "text";
    const std::optional<std::string> piece = part.string(name);
    if (!piece) throw bad_field(part.path(name), fmt::format("{} is required", part.path(name)));
    if (i > 0) text += '\n';
    text += *piece;
  }
  return text;
}

}  // namespace ingot
