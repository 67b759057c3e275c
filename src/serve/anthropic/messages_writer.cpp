// Anthropic's message, whole and as events.
#include "serve/answer/answer_writer.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

const char* stop_reason(ChoiceEnd end) {
  switch (end) {
    case ChoiceEnd::kStop:
      return "end_turn";
    case ChoiceEnd::kStopString:
      return "stop_sequence";
    case ChoiceEnd::kLength:
      return "max_tokens";
    case ChoiceEnd::kToolCalls:
      return "tool_use";
  }
  return "end_turn";
}

JsonObject usage_of(const Usage& usage) {
  return {{"input_tokens", usage.prompt - usage.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached},
          {"output_tokens", usage.completion},
          {"output_tokens_details", JsonObject{{"thinking_tokens", usage.reasoning}}}};
}

class MessagesWriter : public AnswerWriter {
 public:
  explicit MessagesWriter(AnswerNames names) : names_(std::move(names)), id_(unique_id("msg_")) {}

  std::string begin(const Usage& usage) override {
    JsonObject json = message(usage);
    json["content"] = JsonArray{};
    return sse("message_start", JsonObject{{"type", "message_start"}, {"message", std::move(json)}}) +
           sse("ping", JsonObject{{"type", "ping"}});
  }

  std::string piece(int, const ChoicePiece& piece) override {
    std::string bytes;
    for (const AnswerPart& part : piece.parts) {
      if (part.kind == Kind::kCallBegin) {
        bytes += open(Kind::kCallArguments,
                      JsonObject{{"type", "tool_use"}, {"id", part.id}, {"name", part.text}, {"input", JsonObject{}}});
      } else if (part.kind == Kind::kCallArguments) {
        bytes += delta(JsonObject{{"type", "input_json_delta"}, {"partial_json", part.text}});
      } else if (part.kind == Kind::kCallEnd) {
        bytes += close();
      } else if (part.kind == Kind::kReasoning) {
        if (open_ != part.kind) bytes += open(part.kind, thinking("", ""));
        bytes += delta(JsonObject{{"type", "thinking_delta"}, {"thinking", part.text}});
      } else {
        if (open_ != part.kind) bytes += open(part.kind, JsonObject{{"type", "text"}, {"text", ""}});
        bytes += delta(JsonObject{{"type", "text_delta"}, {"text", part.text}});
      }
    }
    return bytes;
  }

  std::string end_choice(int, ChoiceEnd end, const std::string& stop) override {
    end_ = end;
    stop_ = stop;
    return close();
  }

  std::string end(const Usage& usage) override {
    const JsonObject delta{{"stop_reason", stop_reason(end_)}, {"stop_sequence", stop_json(end_, stop_)}};
    return sse("message_delta", JsonObject{{"type", "message_delta"}, {"delta", delta}, {"usage", usage_of(usage)}}) +
           sse("message_stop", JsonObject{{"type", "message_stop"}});
  }

  std::string whole(const std::vector<ChoiceAnswer>& choices, const Usage& usage) override {
    const ChoiceAnswer& answer = choices.at(0);
    JsonArray content;
    for (const ChoiceAnswer::Stretch& part : answer.order) {
      if (part.kind == Kind::kCallBegin) {
        const ChoiceAnswer::Call& call = answer.calls.at(part.begin);
        content.push_back(JsonObject{
            {"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", call_input(call.arguments)}});
      } else if (part.kind == Kind::kReasoning) {
        content.push_back(thinking(answer.reasoning.substr(part.begin, part.end - part.begin), names_.fingerprint));
      } else {
        const std::string text = answer.text.substr(part.begin, part.end - part.begin);
        content.push_back(JsonObject{{"type", "text"}, {"text", text}});
      }
    }
    JsonObject json = message(usage);
    json["content"] = std::move(content);
    json["stop_reason"] = stop_reason(answer.end);
    json["stop_sequence"] = stop_json(answer.end, answer.stop);
    return to_json(json);
  }

 private:
  static Json stop_json(ChoiceEnd end, const std::string& stop) {
    return end == ChoiceEnd::kStopString ? Json(stop) : Json(nullptr);
  }

  // Clients send a thought back with its signature and take one without for broken. Nothing is checked by it here.
  static JsonObject thinking(std::string_view text, std::string_view signature) {
    return {{"type", "thinking"}, {"thinking", text}, {"signature", signature}};
  }

  JsonObject message(const Usage& usage) const {
    return {{"id", id_},          {"type", "message"},      {"role", "assistant"},      {"model", names_.model},
            {"content", nullptr}, {"stop_reason", nullptr}, {"stop_sequence", nullptr}, {"usage", usage_of(usage)}};
  }

  std::string open(Kind kind, JsonObject block) {
    std::string bytes = close();
    open_ = kind;
    return bytes +
           sse("content_block_start",
               JsonObject{{"type", "content_block_start"}, {"index", block_}, {"content_block", std::move(block)}});
  }
  std::string delta(JsonObject change) const {
    return sse("content_block_delta",
               JsonObject{{"type", "content_block_delta"}, {"index", block_}, {"delta", std::move(change)}});
  }
  std::string close() {
    if (!open_) return {};
    std::string bytes;
    if (open_ == Kind::kReasoning) {
      bytes = delta(JsonObject{{"type", "signature_delta"}, {"signature", names_.fingerprint}});
    }
    open_.reset();
    return bytes + sse("content_block_stop", JsonObject{{"type", "content_block_stop"}, {"index", block_++}});
  }

  const AnswerNames names_;
  const std::string id_;
  std::optional<Kind> open_;  // the block that is open: kCallArguments for a call's
  int block_ = 0;
  ChoiceEnd end_ = ChoiceEnd::kStop;
  std::string stop_;
};

}  // namespace

std::unique_ptr<AnswerWriter> messages_writer(AnswerNames names) {
  return std::make_unique<MessagesWriter>(std::move(names));
}

}  // namespace ingot
