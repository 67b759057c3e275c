// The fields of Anthropic's /v1/messages and /v1/messages/count_tokens.
#include <array>

#include "serve/api/shared_fields.h"

namespace ingot {
namespace {

using enum FieldEffect;

constexpr Field kCacheControl{.name = "cache_control", .kinds = kObject, .text = "Hint for caches", .effect = kIgnored};

constexpr std::array kTextBlockFields = {
    Field{.name = "type", .kinds = kString, .text = "Text only", .required = true, .values = "text"},
    Field{.name = "text", .kinds = kString, .text = "The text", .required = true},
    Field{.name = "citations", .kinds = kArray | kObject, .text = "Sources", .effect = kIgnored},
    kCacheControl,
};
constexpr FieldTable kTextBlock{"TextBlock", kTextBlockFields};

constexpr std::array kBlockFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "Text, tools and thoughts; no images or documents",
          .required = true,
          .values = "text|tool_use|tool_result|thinking|redacted_thinking"},
    Field{.name = "text", .kinds = kString, .text = "Of text"},
    Field{.name = "thinking", .kinds = kString, .text = "Of thinking"},
    Field{.name = "signature", .kinds = kString, .text = "Of thinking", .effect = kIgnored},
    Field{.name = "data", .kinds = kString, .text = "Of redacted thinking", .effect = kIgnored},
    Field{.name = "id", .kinds = kString, .text = "Of tool_use", .max_length = 256},
    Field{.name = "name", .kinds = kString, .text = "Of tool_use", .max_length = kMaxToolName},
    Field{.name = "input", .kinds = kObject, .text = "Of tool_use"},
    Field{.name = "toolset_name", .kinds = kString, .text = "Of tool_use and tool_result", .effect = kIgnored},
    Field{.name = "caller", .kinds = kObject, .text = "Of tool_use", .effect = kIgnored},
    Field{.name = "tool_use_id", .kinds = kString, .text = "Of tool_result", .max_length = 256},
    Field{.name = "content",
          .kinds = kString | kArray,
          .text = "Of tool_result",
          .items = kObject,
          .members = &kTextBlock},
    Field{.name = "is_error", .kinds = kBool, .text = "Of tool_result: the model is told so before its content"},
    Field{.name = "citations", .kinds = kArray | kObject, .text = "Sources", .effect = kIgnored},
    Field{.name = "source", .kinds = kObject, .text = "Of images and documents", .effect = kRefused},
    kCacheControl,
};
constexpr FieldTable kBlock{"ContentBlock", kBlockFields};

constexpr std::array kMessageFields = {
    Field{.name = "role", .kinds = kString, .text = "Who speaks", .required = true, .values = "user|assistant|system"},
    Field{.name = "content",
          .kinds = kString | kArray,
          .text = "Text, or a list of blocks",
          .required = true,
          .max_items = 2048,
          .items = kObject,
          .members = &kBlock},
};
constexpr FieldTable kMessage{"Message", kMessageFields};

constexpr std::array kToolFields = {
    kToolNameField,
    Field{.name = "description", .kinds = kString, .text = "What it does"},
    Field{.name = "input_schema", .kinds = kObject, .text = "JSON Schema of its arguments", .required = true},
    Field{.name = "type", .kinds = kString, .text = "Tools of the client only", .values = "custom"},
    Field{.name = "strict",
          .kinds = kBool,
          .text = "Of a call that tool_choice forces: a keyword of the schema that is not known is an error",
          .fallback = "false"},
    Field{.name = "eager_input_streaming", .kinds = kBool, .text = "How arguments come", .effect = kIgnored},
    Field{.name = "input_examples", .kinds = kArray, .text = "Examples of arguments", .effect = kIgnored},
    Field{.name = "allowed_callers", .kinds = kArray, .text = "Who may call", .effect = kIgnored},
    Field{.name = "defer_loading", .kinds = kBool, .text = "Tools that are searched for", .effect = kRefused},
    kCacheControl,
};
constexpr FieldTable kTool{"ClientTool", kToolFields};

constexpr std::array kToolChoiceFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "Whether tools are offered to the model, and whether it must call one, or which",
          .required = true,
          .values = "auto|any|tool|none"},
    Field{.name = "name", .kinds = kString, .text = "With tool: which must be called", .max_length = kMaxToolName},
    Field{.name = "disable_parallel_tool_use", .kinds = kBool, .text = "One call at most", .fallback = "false"},
};
constexpr FieldTable kToolChoice{"ToolChoice", kToolChoiceFields};

constexpr std::array kThinkingFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "Whether the model thinks first, where its template asks",
          .required = true,
          .values = "enabled|disabled|adaptive"},
    Field{.name = "budget_tokens",
          .kinds = kInteger,
          .text = "Tokens of thought",
          .effect = kIgnored,
          .low = 0,
          .high = kMaxAnswerTokens},
    Field{.name = "display", .kinds = kString, .text = "How thoughts are shown", .effect = kIgnored},
};
constexpr FieldTable kThinking{"Thinking", kThinkingFields};

constexpr std::array kOutputFormatFields = {
    Field{.name = "type", .kinds = kString, .text = "JSON of a schema", .required = true, .values = "json_schema"},
    Field{.name = "schema", .kinds = kObject | kBool, .text = "JSON Schema, draft 7 or 2020-12", .required = true},
};
constexpr FieldTable kOutputFormat{"OutputFormat", kOutputFormatFields};

constexpr std::array kOutputConfigFields = {
    Field{.name = "effort",
          .kinds = kString,
          .text = "For templates that have reasoning_effort",
          .values = "low|medium|high|xhigh|max"},
    Field{.name = "format", .kinds = kObject, .text = "What the answer's text is held to", .members = &kOutputFormat},
};
constexpr FieldTable kOutputConfigTable{"OutputConfig", kOutputConfigFields};

constexpr Field kMessages{.name = "messages",
                          .kinds = kArray,
                          .text = "The conversation",
                          .required = true,
                          .max_items = kMaxMessages,
                          .min_items = 1,
                          .items = kObject,
                          .members = &kMessage};
constexpr Field kSystem{.name = "system",
                        .kinds = kString | kArray,
                        .text = "The system message",
                        .max_items = 2048,
                        .items = kObject,
                        .members = &kTextBlock};
constexpr Field kTools{.name = "tools",
                       .kinds = kArray,
                       .text = "Functions that the model may call",
                       .max_items = kMaxTools,
                       .items = kObject,
                       .members = &kTool};
constexpr Field kChoice{
    .name = "tool_choice", .kinds = kObject, .text = "How tools are called", .members = &kToolChoice};
constexpr Field kThink{
    .name = "thinking", .kinds = kObject, .text = "Thoughts before the answer", .members = &kThinking};
constexpr Field kOutputConfig{
    .name = "output_config", .kinds = kObject, .text = "How the answer is made", .members = &kOutputConfigTable};
constexpr Field kMcpServers{.name = "mcp_servers", .kinds = kArray, .text = "Tools elsewhere", .effect = kRefused};
constexpr Field kSpeed{.name = "speed", .kinds = kString, .text = "Class of speed", .effect = kIgnored};
constexpr Field kContextManagement{.name = "context_management",
                                   .kinds = kObject,
                                   .text = "Parts of the conversation that may be left out: none is",
                                   .effect = kIgnored};

constexpr Field kCompaction{
    .name = "compaction", .kinds = kObject, .text = "Shortening of the conversation", .effect = kRefused};

constexpr std::array kRequestFields = {
    kModelField,
    kMessages,
    kSystem,
    kTools,
    kChoice,
    kThink,
    Field{.name = "max_tokens",
          .kinds = kInteger,
          .text = "Tokens to make at most",
          .required = true,
          .low = 1,
          .high = kMaxAnswerTokens},
    Field{.name = "stream", .kinds = kBool, .text = "Server-sent events", .fallback = "false"},
    Field{.name = "stop_sequences",
          .kinds = kArray,
          .text = "Texts that end the answer",
          .max_items = kMaxStops,
          .items = kString,
          .item_max_length = kMaxStopLength},
    sampling_field("temperature"),
    sampling_field("top_p"),
    sampling_field("top_k"),
    kSeedField,
    kTimeoutField,
    Field{.name = "metadata", .kinds = kObject, .text = "Who asks", .effect = kIgnored},
    Field{.name = "service_tier", .kinds = kString, .text = "Class of service", .effect = kIgnored},
    Field{.name = "fallbacks", .kinds = kArray, .text = "Other models: there is one", .effect = kIgnored},
    Field{.name = "fallback_credit_token", .kinds = kString, .text = "Of other models", .effect = kIgnored},
    Field{.name = "inference_geo", .kinds = kString, .text = "Where it runs", .effect = kIgnored},
    Field{.name = "diagnostics", .kinds = kObject, .text = "Why a cache was missed", .effect = kIgnored},
    kSpeed,
    kCacheControl,
    Field{.name = "container", .kinds = kString | kObject, .text = "Running of code", .effect = kRefused},
    Field{.name = "thread", .kinds = kObject, .text = "A conversation that the server holds", .effect = kRefused},
    kOutputConfig,
    kMcpServers,
    kContextManagement,
    kCompaction,
};

constexpr std::array kCountFields = {
    kModelField, kMessages,          kSystem,     kTools, kChoice, kThink, kSpeed, kCacheControl, kOutputConfig,
    kMcpServers, kContextManagement, kCompaction,
};

}  // namespace

const FieldTable kMessagesFields{"MessagesRequest", kRequestFields};
const FieldTable kCountTokensFields{"CountTokensRequest", kCountFields};

}  // namespace ingot
