// Items are made by the same steps whether the answer is streamed or whole: a whole one is the stream's last object.
// Events are written as text from the start, for there is one for each token.
#include "serve/responses/response_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <span>
#include <utility>

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

std::string json_quoted(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

std::string usage_text(const Usage& usage) {
  return fmt::format(
      R"({{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"cache_write_tokens":0}},"output_tokens":{},)"
      R"("output_tokens_details":{{"reasoning_tokens":{}}},"total_tokens":{}}})",
      usage.prompt, usage.cached, usage.completion, usage.reasoning, usage.prompt + usage.completion);
}

// Of the codes that the API has.
const char* failure_code(const ApiError& error) {
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status < 500 ? "invalid_prompt" : "server_error";
}

struct Item {
  enum class Type : uint8_t { kMessage, kReasoning, kFunction, kCustom };
  Type type = Type::kMessage;
  std::string id;             // of the item: quoted
  std::string call_id, name;  // of a call: quoted
  std::string text;           // what was said, thought, or given to the tool
  std::string scores;         // of a message: log-probabilities, a JSON array without the brackets
};

class ResponseWriter : public AnswerWriter {
 public:
  ResponseWriter(const Tokenizer& tokenizer, AnswerNames names, ResponseFrame frame, KeepResponse keep)
      : tokenizer_(tokenizer), names_(std::move(names)), frame_(std::move(frame)), keep_(std::move(keep)) {}

  // Its numbers are the first, though events of the first piece were made before it.
  std::string begin(const Usage&) override {
    const std::string response = object("in_progress", {}, "null");
    return fmt::format(
        "event: response.created\ndata: {{\"type\":\"response.created\",\"sequence_number\":0,"
        "\"response\":{0}}}\n\nevent: response.in_progress\ndata: "
        "{{\"type\":\"response.in_progress\",\"sequence_number\":1,\"response\":{0}}}\n\n",
        response);
  }

  std::string piece(int, const ChoicePiece& piece) override {
    // The scores go with the last of the text.
    const auto last = std::find_if(piece.parts.rbegin(), piece.parts.rend(),
                                   [](const AnswerPart& part) { return part.kind == Kind::kText; });
    const AnswerPart* const scored = last == piece.parts.rend() ? nullptr : &*last;
    for (const AnswerPart& part : piece.parts) {
      take(part, &part == scored ? std::span(piece.scores) : std::span<const ScoredToken>());
    }
    return std::exchange(bytes_, {});
  }

  std::string end_choice(int, ChoiceEnd end, const std::string&) override {
    end_ = end;
    close(end == ChoiceEnd::kLength || (open_ && is_call(*open_)) ? "incomplete" : "completed");
    return std::exchange(bytes_, {});
  }

  std::string end(const Usage& usage) override {
    const char* const type = end_ == ChoiceEnd::kLength ? "response.incomplete" : "response.completed";
    return event(type, fmt::format("\"response\":{}", finished(usage)));
  }

  std::string failed(const ApiError& error, ApiStyle) override {
    bytes_.clear();
    const std::string why =
        fmt::format("{{\"code\":\"{}\",\"message\":{}}}", failure_code(error), json_quoted(error.message));
    return event("response.failed", fmt::format("\"response\":{}", object("failed", {}, why)));
  }

  std::string whole(const std::vector<ChoiceAnswer>& choices, const Usage& usage) override {
    const ChoiceAnswer& answer = choices.at(0);
    for (const ChoiceAnswer::Stretch& stretch : answer.order) {
      if (stretch.kind == Kind::kCallBegin) {
        take_call(answer.calls[stretch.begin], static_cast<int>(stretch.begin));
        continue;
      }
      const std::string& from = stretch.kind == Kind::kText ? answer.text : answer.reasoning;
      take({.kind = stretch.kind, .text = from.substr(stretch.begin, stretch.end - stretch.begin), .id = {}},
           std::span(answer.scores).subspan(stretch.first_score, stretch.end_score - stretch.first_score));
    }
    end_choice(0, answer.end, answer.stop);
    return finished(usage);
  }

 private:
  static bool is_call(const Item& item) {
    return item.type == Item::Type::kFunction || item.type == Item::Type::kCustom;
  }

  void take_call(const ChoiceAnswer::Call& call, int index) {
    take({.kind = Kind::kCallBegin, .text = call.name, .index = index, .id = call.id, .custom = call.custom}, {});
    if (!call.arguments.empty()) take({.kind = Kind::kCallArguments, .text = call.arguments, .id = {}}, {});
    if (call.whole) take({.kind = Kind::kCallEnd, .text = {}, .id = {}}, {});
  }

  // Appends the events of one part.
  void take(const AnswerPart& part, std::span<const ScoredToken> scores) {
    switch (part.kind) {
      case Kind::kText:
        if (!open_ || open_->type != Item::Type::kMessage) open(Item::Type::kMessage);
        return say(part.text, scores);
      case Kind::kReasoning:
        if (!open_ || open_->type != Item::Type::kReasoning) open(Item::Type::kReasoning);
        open_->text += part.text;
        return delta(frame_.summary ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta",
                     part.text, frame_.summary ? ",\"summary_index\":0" : ",\"content_index\":0");
      case Kind::kCallBegin:
        return open(part.custom ? Item::Type::kCustom : Item::Type::kFunction, part.id, part.text);
      case Kind::kCallArguments:
        if (!open_ || !is_call(*open_)) return;
        return give(part.text);
      case Kind::kCallEnd:
        return close("completed");
    }
  }

  void say(const std::string& text, std::span<const ScoredToken> scores) {
    open_->text += text;
    std::string list;
    append_scores(list, tokenizer_, scores);
    delta("response.output_text.delta", text, fmt::format(",\"content_index\":0,\"logprobs\":[{}]", list));
    if (!open_->scores.empty() && !list.empty()) open_->scores += ',';
    open_->scores += list;
  }

  void give(const std::string& text) {
    if (text.empty()) return;
    open_->text += text;
    delta(open_->type == Item::Type::kCustom ? "response.custom_tool_call_input.delta"
                                             : "response.function_call_arguments.delta",
          text, {});
  }

  void open(Item::Type type, std::string_view call_id = {}, std::string_view name = {}) {
    close("completed");
    static constexpr const char* kPrefixes[] = {"msg", "rs", "fc", "ctc"};
    const std::string_view random = std::string_view(frame_.id).substr(frame_.id.find('_') + 1);
    open_.emplace();
    open_->type = type;
    open_->id = fmt::format("\"{}_{}{:02x}\"", kPrefixes[static_cast<size_t>(type)], random, index_);
    open_->call_id = json_quoted(call_id);
    open_->name = json_quoted(name);
    add_event("response.output_item.added",
              fmt::format("\"output_index\":{},\"item\":{}", index_, item_text(*open_, "in_progress", Content::kNone)));
    if (type == Item::Type::kMessage || (type == Item::Type::kReasoning && !frame_.summary)) {
      add_event("response.content_part.added", fmt::format("{},\"content_index\":0,\"part\":{}", place(), part_text()));
    } else if (type == Item::Type::kReasoning) {
      add_event("response.reasoning_summary_part.added",
                fmt::format("{},\"summary_index\":0,\"part\":{}", place(), part_text()));
    }
  }

  // The item that is open, if one is, has ended with this status.
  void close(const char* status) {
    if (!open_) return;
    const std::string text = json_quoted(open_->text);
    switch (open_->type) {
      case Item::Type::kMessage:
        add_event("response.output_text.done",
                  fmt::format("{},\"content_index\":0,\"text\":{},\"logprobs\":[{}]", place(), text, open_->scores));
        add_event("response.content_part.done",
                  fmt::format("{},\"content_index\":0,\"part\":{}", place(), part_text()));
        break;
      case Item::Type::kReasoning:
        close_thoughts(text);
        break;
      case Item::Type::kFunction:
        add_event("response.function_call_arguments.done",
                  fmt::format("{},\"name\":{},\"arguments\":{}", place(), open_->name, text));
        break;
      case Item::Type::kCustom:
        add_event("response.custom_tool_call_input.done", fmt::format("{},\"input\":{}", place(), text));
        break;
    }
    const std::string item = item_text(*open_, status, Content::kAll);
    add_event("response.output_item.done", fmt::format("\"output_index\":{},\"item\":{}", index_, item));
    output_ += (output_.empty() ? "" : ",") + item;
    ++index_;
    open_.reset();
  }

  void close_thoughts(const std::string& text) {
    const char* const index = frame_.summary ? "summary_index" : "content_index";
    add_event(frame_.summary ? "response.reasoning_summary_text.done" : "response.reasoning_text.done",
              fmt::format("{},\"{}\":0,\"text\":{}", place(), index, text));
    add_event(frame_.summary ? "response.reasoning_summary_part.done" : "response.content_part.done",
              fmt::format("{},\"{}\":0,\"part\":{}", place(), index, part_text()));
  }

  enum class Content : uint8_t { kNone, kAll };

  // Of the open item: the part that holds its text.
  std::string part_text() const {
    const std::string text = json_quoted(open_->text);
    if (open_->type == Item::Type::kMessage) {
      return fmt::format(R"({{"type":"output_text","annotations":[],"logprobs":[{}],"text":{}}})", open_->scores, text);
    }
    return fmt::format(R"({{"type":"{}","text":{}}})", frame_.summary ? "summary_text" : "reasoning_text", text);
  }

  std::string item_text(const Item& item, const char* status, Content content) const {
    const std::string parts = content == Content::kAll ? part_text() : std::string();
    switch (item.type) {
      case Item::Type::kMessage:
        return fmt::format(R"({{"id":{},"type":"message","status":"{}","role":"assistant","content":[{}]}})", item.id,
                           status, parts);
      case Item::Type::kReasoning:
        if (frame_.summary) {
          return fmt::format(R"({{"id":{},"type":"reasoning","status":"{}","summary":[{}]}})", item.id, status, parts);
        }
        return fmt::format(R"({{"id":{},"type":"reasoning","status":"{}","summary":[],"content":[{}]}})", item.id,
                           status, parts);
      case Item::Type::kFunction:
      case Item::Type::kCustom:
        break;
    }
    const bool custom = item.type == Item::Type::kCustom;
    return fmt::format(R"({{"id":{},"type":"{}","status":"{}","call_id":{},"name":{},"{}":{}}})", item.id,
                       custom ? "custom_tool_call" : "function_call", status, item.call_id, item.name,
                       custom ? "input" : "arguments", json_quoted(item.text));
  }

  std::string place() const { return fmt::format("\"item_id\":{},\"output_index\":{}", open_->id, index_); }

  void delta(const char* type, const std::string& text, std::string_view more) {
    fmt::format_to(
        std::back_inserter(bytes_),
        "event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1},\"item_id\":{2},\"output_index\":{3}{4},"
        "\"delta\":",
        type, sequence_++, open_->id, index_, more);
    append_json(bytes_, text);
    bytes_ += "}\n\n";
  }

  std::string event(const char* type, const std::string& members) {
    return fmt::format("event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1},{2}}}\n\n", type, sequence_++,
                       members);
  }
  void add_event(const char* type, const std::string& members) { bytes_ += event(type, members); }

  // The response itself.
  std::string object(const char* status, const std::string& usage, const std::string& error,
                     bool stored = false) const {
    const bool ended = !usage.empty();
    return fmt::format(
        R"({{"id":"{}","object":"response","created_at":{},"status":"{}","background":false,"completed_at":{},)"
        R"("error":{},"incomplete_details":{},"model":{},"output":[{}],"usage":{},"store":{},{}}})",
        frame_.id, names_.created, status,
        ended && end_ != ChoiceEnd::kLength ? std::to_string(std::time(nullptr)) : "null", error,
        ended && end_ == ChoiceEnd::kLength ? R"({"reason":"max_output_tokens"})" : "null", json_quoted(names_.model),
        output_, ended ? usage : "null", ended ? stored : frame_.store, frame_.repeated);
  }

  // The last object; kept where that was asked for.
  std::string finished(const Usage& usage) {
    const char* const status = end_ == ChoiceEnd::kLength ? "incomplete" : "completed";
    const std::string counted = usage_text(usage);
    std::string response = object(status, counted, "null", frame_.store);
    if (!frame_.store || (keep_ && keep_(response, fmt::format("[{}]", output_)))) return response;
    return object(status, counted, "null", false);
  }

  const Tokenizer& tokenizer_;
  const AnswerNames names_;
  const ResponseFrame frame_;
  const KeepResponse keep_;
  std::string bytes_;   // events since the last time
  std::string output_;  // items that have ended, a JSON array without the brackets
  std::optional<Item> open_;
  int index_ = 0;         // of the next item, or of the one that is open
  int64_t sequence_ = 2;  // of the next event: begin() has the first two
  ChoiceEnd end_ = ChoiceEnd::kStop;
};

}  // namespace

std::unique_ptr<AnswerWriter> response_writer(const Tokenizer& tokenizer, AnswerNames names, ResponseFrame frame,
                                              KeepResponse keep) {
  return std::make_unique<ResponseWriter>(tokenizer, std::move(names), std::move(frame), std::move(keep));
}

}  // namespace ingot
