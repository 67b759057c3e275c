// The fields of OpenAI's /v1/responses.
#include <array>

#include "serve/api/constraint_fields.h"
#include "serve/api/shared_fields.h"
#include "serve/responses/response_request.h"

namespace ingot {
namespace {

using enum FieldEffect;

constexpr const char* kItemKinds =
    "message|function_call|function_call_output|custom_tool_call|custom_tool_call_output|reasoning";

constexpr std::array kPartFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "Text only",
          .required = true,
          .values = "input_text|output_text|text|refusal|reasoning_text|summary_text",
          .reason = "images, files and sound are not supported"},
    Field{.name = "text", .kinds = kString, .text = "The text"},
    Field{.name = "refusal", .kinds = kString, .text = "Of the assistant"},
    Field{.name = "annotations", .kinds = kArray, .text = "Of the assistant", .effect = kIgnored},
    Field{.name = "logprobs", .kinds = kArray, .text = "Of the assistant", .effect = kIgnored},
    Field{.name = "cache_control", .kinds = kObject, .text = "Hint for caches", .effect = kIgnored},
    Field{.name = "prompt_cache_breakpoint", .kinds = kObject, .text = "Hint for caches", .effect = kIgnored},
};
constexpr FieldTable kPart{"ResponsePart", kPartFields};

constexpr Field parts_field(const char* name, unsigned kinds, const char* text) {
  return {.name = name, .kinds = kinds, .text = text, .max_items = 2048, .items = kObject, .members = &kPart};
}

// Of all kinds of items together; the reader asks for what its kind needs.
constexpr std::array kItemFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "What it is; absent: a message",
          .values = kItemKinds,
          .reason = "items are sent whole, and those of tools that run elsewhere are not supported"},
    Field{.name = "role", .kinds = kString, .text = "Of a message", .values = "system|developer|user|assistant"},
    parts_field("content", kString | kArray, "Of a message, and of reasoning"),
    parts_field("summary", kArray, "Of reasoning"),
    Field{.name = "call_id", .kinds = kString, .text = "Of a call and its output", .max_length = 256},
    Field{.name = "name", .kinds = kString, .text = "Of a call: the tool", .max_length = kMaxToolName},
    Field{.name = "arguments", .kinds = kString, .text = "Of function_call: JSON of an object"},
    Field{.name = "input", .kinds = kString, .text = "Of custom_tool_call"},
    parts_field("output", kString | kArray, "Of a call's output"),
    Field{.name = "id", .kinds = kString, .text = "As an answer had it", .max_length = 256},
    Field{.name = "status", .kinds = kString, .text = "As an answer had it", .effect = kIgnored},
    Field{.name = "phase", .kinds = kString, .text = "As an answer had it", .effect = kIgnored},
    Field{.name = "encrypted_content",
          .kinds = kString,
          .text = "Of reasoning: answers have it as plain text",
          .effect = kIgnored},
    Field{.name = "namespace", .kinds = kString, .text = "Of a call", .effect = kIgnored},
    Field{.name = "caller", .kinds = kObject, .text = "Of a call", .effect = kIgnored},
    Field{.name = "async", .kinds = kBool, .text = "Of a call", .effect = kIgnored},
    Field{.name = "async_", .kinds = kBool, .text = "The same as the Python client dumps it", .effect = kIgnored},
    Field{.name = "created_by", .kinds = kString, .text = "As an answer had it", .effect = kIgnored},
    Field{.name = "internal_chat_message_metadata_passthrough",
          .kinds = kObject,
          .text = "Notes of a client to itself",
          .effect = kIgnored},
};
constexpr FieldTable kItem{"ResponseItem", kItemFields};

constexpr std::array kCustomFormatFields = {
    Field{.name = "type", .kinds = kString, .text = "Of the input", .required = true, .values = "text|grammar"},
    Field{.name = "syntax", .kinds = kString, .text = "Of the grammar", .values = "lark|regex"},
    Field{.name = "definition", .kinds = kString, .text = "The grammar", .max_length = kMaxGrammarLength},
};
constexpr FieldTable kCustomFormat{"CustomFormat", kCustomFormatFields};

constexpr Field kToolType{.name = "type", .kinds = kString, .text = "The kind of the tool", .required = true};
constexpr Field kToolText{.name = "description", .kinds = kString, .text = "What it does"};
constexpr Field kCallers{.name = "allowed_callers", .kinds = kArray, .text = "Who may call", .effect = kIgnored};
constexpr Field kDeferred{.name = "defer_loading", .kinds = kBool, .text = "It is offered at once", .effect = kIgnored};
constexpr Field kAsync{.name = "async", .kinds = kBool, .text = "Whether calls are waited for", .effect = kIgnored};

constexpr std::array kFunctionToolFields = {
    kToolType,
    kToolNameField,
    kToolText,
    Field{.name = "parameters", .kinds = kObject, .text = "JSON Schema of its arguments"},
    Field{.name = "strict", .kinds = kBool, .text = "Arguments held to the schema, or an error", .fallback = "false"},
    Field{.name = "output_schema", .kinds = kObject, .text = "Of its output", .effect = kIgnored},
    kCallers,
    kDeferred,
    kAsync,
};
constexpr std::array kCustomToolFields = {
    kToolType, kToolNameField,
    kToolText, Field{.name = "format", .kinds = kObject, .text = "What its input is like", .members = &kCustomFormat},
    kCallers,  kDeferred,
    kAsync,
};

// A tool of any kind; those that run elsewhere have members of their own, which nobody looks at.
constexpr std::array kToolFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "function or custom; tools that run elsewhere are left out, and the answer names them",
          .required = true,
          .max_length = 64,
          .min_length = 1},
    Field{.name = "name", .kinds = kString, .text = "Of function and custom", .max_length = kMaxToolName},
    kToolText,
    Field{.name = "parameters", .kinds = kObject, .text = "Of function: JSON Schema of its arguments"},
    Field{.name = "strict", .kinds = kBool, .text = "Of function", .fallback = "false"},
    Field{.name = "format", .kinds = kObject, .text = "Of custom: text, or a grammar (lark, regex)"},
};
constexpr FieldTable kTool{"ResponseTool", kToolFields, true};

constexpr std::array kNamedToolFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "The kind of the tool",
          .required = true,
          .max_length = 64,
          .min_length = 1},
    Field{.name = "name", .kinds = kString, .text = "Of function and custom", .max_length = kMaxToolName},
};
constexpr FieldTable kNamedTool{"ResponseNamedTool", kNamedToolFields, true};

constexpr std::array kChoiceFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "One that must be called (function, custom), or some (allowed_tools)",
          .required = true,
          .max_length = 64,
          .min_length = 1},
    Field{.name = "name", .kinds = kString, .text = "Of function and custom", .max_length = kMaxToolName},
    Field{.name = "mode", .kinds = kString, .text = "Of allowed_tools", .values = "auto|required"},
    Field{.name = "tools",
          .kinds = kArray,
          .text = "Of allowed_tools",
          .max_items = kMaxTools,
          .items = kObject,
          .members = &kNamedTool},
    Field{.name = "server_label", .kinds = kString, .text = "Of tools that run elsewhere", .effect = kRefused},
};
constexpr FieldTable kChoice{"ResponseToolChoice", kChoiceFields};

constexpr std::array kFormatFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "Any text, any JSON object, or JSON of a schema",
          .required = true,
          .values = "text|json_object|json_schema"},
    Field{.name = "name", .kinds = kString, .text = "Of the schema, for people", .max_length = 256},
    Field{.name = "description", .kinds = kString, .text = "What the answer is for", .effect = kIgnored},
    Field{.name = "schema", .kinds = kObject | kBool, .text = "JSON Schema, draft 7 or 2020-12"},
    Field{.name = "strict",
          .kinds = kBool,
          .text = "A keyword that is not known is an error; the answer is held to the schema in any case",
          .fallback = "false"},
};
constexpr FieldTable kFormat{"ResponseTextFormat", kFormatFields};
constexpr std::array kTextFields = {
    Field{.name = "format", .kinds = kObject, .text = "What the answer's text is held to", .members = &kFormat},
    Field{.name = "verbosity",
          .kinds = kString,
          .text = "How long answers are: the model was not taught it",
          .effect = kIgnored},
};
constexpr FieldTable kText{"ResponseText", kTextFields};

constexpr std::array kReasoningFields = {
    Field{.name = "effort",
          .kinds = kString,
          .text = "For templates that have it; none: no thinking",
          .values = "none|minimal|low|medium|high|xhigh|max"},
    Field{.name = "summary",
          .kinds = kString,
          .text = "Thoughts come, whole, as the summary; absent: as reasoning_text",
          .values = "auto|concise|detailed|none"},
    Field{.name = "generate_summary",
          .kinds = kString,
          .text = "Former name of summary",
          .values = "auto|concise|detailed"},
    Field{.name = "context", .kinds = kString, .text = "Which thoughts are kept", .effect = kIgnored},
    Field{.name = "mode", .kinds = kString, .text = "Class of model", .effect = kIgnored},
};
constexpr FieldTable kReasoning{"ResponseReasoning", kReasoningFields};

constexpr std::array kStreamOptionFields = {
    Field{.name = "include_obfuscation", .kinds = kBool, .text = "Padding of events", .effect = kIgnored},
    Field{.name = "reasoning_summary_delivery", .kinds = kString, .text = "How summaries come", .effect = kIgnored},
};
constexpr FieldTable kStreamOptions{"ResponseStreamOptions", kStreamOptionFields};

constexpr std::array kOwnFields = {
    kModelField,
    Field{.name = "input",
          .kinds = kString | kArray,
          .text = "What the user says, or the items of the conversation",
          .required = true,
          .max_items = kMaxResponseItems,
          .items = kObject,
          .members = &kItem},
    Field{.name = "instructions", .kinds = kString, .text = "The system message"},
    Field{.name = "previous_response_id",
          .kinds = kString,
          .text = "A stored answer that this goes on from: with --store-responses only",
          .max_length = 256},
    Field{.name = "tools",
          .kinds = kArray,
          .text = "What the model may call",
          .max_items = kMaxTools,
          .items = kObject,
          .members = &kTool},
    Field{.name = "tool_choice",
          .kinds = kString | kObject,
          .text = "Whether tools are offered to the model, and whether it must call one, or which",
          .values = "none|auto|required",
          .members = &kChoice},
    kParallelCallsField,
    Field{.name = "text", .kinds = kObject, .text = "What the answer's text is like", .members = &kText},
    Field{.name = "reasoning", .kinds = kObject, .text = "Thoughts before the answer", .members = &kReasoning},
    Field{.name = "include",
          .kinds = kArray,
          .text = "message.output_text.logprobs; what belongs to other tools has no effect",
          .max_items = 16,
          .items = kString,
          .item_max_length = 64},
    Field{.name = "top_logprobs",
          .kinds = kInteger,
          .text = "Log-probabilities of so many likeliest tokens",
          .low = 0,
          .high = kMaxTopLogprobs},
    Field{.name = "truncation",
          .kinds = kString,
          .text = "auto: what is too long loses its oldest turns; disabled: it is refused",
          .values = "auto|disabled",
          .fallback = "\"disabled\""},
    Field{.name = "max_output_tokens",
          .kinds = kInteger,
          .text = "Tokens to make at most; absent: until the context is full",
          .low = 1,
          .high = kMaxAnswerTokens},
    Field{.name = "stream", .kinds = kBool, .text = "Server-sent events", .fallback = "false"},
    Field{.name = "stream_options", .kinds = kObject, .text = "With stream only", .members = &kStreamOptions},
    Field{.name = "store",
          .kinds = kBool,
          .text = "Whether the answer is kept: with --store-responses only; the answer says whether it was"},
    Field{.name = "metadata", .kinds = kObject, .text = "Tags, which the answer repeats", .max_items = 16},
    Field{.name = "user", .kinds = kString, .text = "Who asks", .effect = kIgnored, .max_length = 512},
    Field{.name = "safety_identifier", .kinds = kString, .text = "Who asks", .effect = kIgnored, .max_length = 512},
    Field{.name = "service_tier", .kinds = kString, .text = "Class of service", .effect = kIgnored},
    Field{.name = "max_tool_calls",
          .kinds = kInteger,
          .text = "Of tools that run elsewhere",
          .effect = kIgnored,
          .low = 0,
          .high = kMaxAnswerTokens},
    Field{
        .name = "prompt_cache_key", .kinds = kString, .text = "Hint for caches", .effect = kIgnored, .max_length = 512},
    Field{.name = "prompt_cache_retention", .kinds = kString, .text = "Hint for caches", .effect = kIgnored},
    Field{.name = "prompt_cache_options", .kinds = kObject, .text = "Hint for caches", .effect = kIgnored},
    Field{.name = "client_metadata", .kinds = kObject, .text = "Notes of a client", .effect = kIgnored},
    Field{.name = "access_programs", .kinds = kObject, .text = "Class of service", .effect = kIgnored},
    Field{.name = "image", .kinds = kObject, .text = "How images are read", .effect = kIgnored},
    Field{.name = "verbosity", .kinds = kString, .text = "As text has it", .effect = kIgnored},
    Field{.name = "background", .kinds = kBool, .text = "Answers that are fetched later", .effect = kRefused},
    Field{.name = "conversation",
          .kinds = kString | kObject,
          .text = "Conversations that are kept: see previous_response_id",
          .effect = kRefused},
    Field{.name = "prompt", .kinds = kObject, .text = "Prompts that are kept elsewhere", .effect = kRefused},
    Field{.name = "context_management", .kinds = kArray, .text = "Changes to the conversation", .effect = kRefused},
    Field{.name = "moderation", .kinds = kObject, .text = "Checks of content", .effect = kRefused},
};

constexpr auto kAll = join(kOwnFields, kSamplingFields, kRunFields);

}  // namespace

const FieldTable kResponseFields{"ResponseRequest", kAll};
const FieldTable kFunctionTool{"ResponseFunctionTool", kFunctionToolFields};
const FieldTable kCustomTool{"ResponseCustomTool", kCustomToolFields};

}  // namespace ingot
