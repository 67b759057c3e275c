// The fields of OpenAI's API: /v1/chat/completions, /v1/completions and /v1/embeddings.
#include <array>

#include "serve/api/constraint_fields.h"
#include "serve/api/shared_fields.h"

namespace ingot {
namespace {

using enum FieldEffect;

constexpr std::array kStreamOptionFields = {
    Field{.name = "include_usage", .kinds = kBool, .text = "A last event tells the tokens used", .fallback = "false"},
    Field{.name = "include_obfuscation", .kinds = kBool, .text = "Padding of events", .effect = kIgnored},
    Field{.name = "continuous_usage_stats", .kinds = kBool, .text = "Usage in each event", .effect = kRefused},
};
constexpr FieldTable kStreamOptions{"StreamOptions", kStreamOptionFields};

// What is asked for, and how the answer is sent.
constexpr std::array kCommonFields = {
    kModelField,
    Field{.name = "stream", .kinds = kBool, .text = "Server-sent events, one for each piece", .fallback = "false"},
    Field{.name = "stream_options", .kinds = kObject, .text = "With stream only", .members = &kStreamOptions},
    Field{.name = "n", .kinds = kInteger, .text = "Answers to each prompt", .low = 1, .high = kMaxN, .fallback = "1"},
    Field{.name = "user", .kinds = kString, .text = "Who asks", .effect = kIgnored},
    Field{.name = "best_of", .kinds = kInteger, .text = "Only the same number as n", .low = 1, .high = kMaxN},
    Field{.name = "lora", .kinds = kArray, .text = "Adapters", .effect = kRefused},
    Field{.name = "n_discard", .kinds = kInteger, .text = "Shifting of the context", .effect = kRefused},
};

constexpr std::array kFunctionCallFields = {
    Field{.name = "name",
          .kinds = kString,
          .text = "The function",
          .required = true,
          .max_length = kMaxToolName,
          .min_length = 1},
    Field{.name = "arguments", .kinds = kString | kObject, .text = "JSON of an object"},
};
constexpr FieldTable kFunctionCall{"FunctionCall", kFunctionCallFields};

constexpr std::array kCustomCallFields = {
    kToolNameField,
    Field{.name = "input", .kinds = kString, .text = "The text that the tool gets"},
};
constexpr FieldTable kCustomCall{"CustomCall", kCustomCallFields};

constexpr std::array kToolCallFields = {
    Field{.name = "id", .kinds = kString, .text = "What the tool's answer refers to", .max_length = 256},
    Field{.name = "type", .kinds = kString, .text = "The kind of the tool", .values = "function|custom"},
    Field{.name = "index", .kinds = kInteger, .text = "As streams have it", .effect = kIgnored, .low = 0, .high = 1e6},
    Field{.name = "function", .kinds = kObject, .text = "The call", .members = &kFunctionCall},
    Field{.name = "custom", .kinds = kObject, .text = "The call of a custom tool", .members = &kCustomCall},
};
constexpr FieldTable kToolCall{"ToolCall", kToolCallFields};

constexpr std::array kContentPartFields = {
    Field{.name = "type", .kinds = kString, .text = "Text only", .required = true, .values = "text|refusal"},
    Field{.name = "text", .kinds = kString, .text = "The text"},
    Field{.name = "refusal", .kinds = kString, .text = "Of the assistant"},
    Field{.name = "cache_control", .kinds = kObject, .text = "Hint for caches", .effect = kIgnored},
    Field{.name = "prompt_cache_breakpoint", .kinds = kObject, .text = "Hint for caches", .effect = kIgnored},
    Field{.name = "image_url", .kinds = kObject, .text = "Images", .effect = kRefused},
    Field{.name = "input_audio", .kinds = kObject, .text = "Sound", .effect = kRefused},
    Field{.name = "file", .kinds = kObject, .text = "Files", .effect = kRefused},
};
constexpr FieldTable kContentPart{"ContentPart", kContentPartFields};

constexpr std::array kMessageFields = {
    Field{.name = "role",
          .kinds = kString,
          .text = "Who speaks",
          .required = true,
          .values = "system|developer|user|assistant|tool"},
    Field{.name = "content",
          .kinds = kString | kArray,
          .text = "Text, or a list of parts",
          .max_items = 2048,
          .items = kObject,
          .members = &kContentPart},
    Field{.name = "name",
          .kinds = kString,
          .text = "Of the speaker, where the template has a place for it",
          .max_length = 256},
    Field{.name = "tool_calls",
          .kinds = kArray,
          .text = "Of the assistant",
          .max_items = kMaxCalls,
          .items = kObject,
          .members = &kToolCall},
    Field{.name = "tool_call_id", .kinds = kString, .text = "Which call a tool answers", .max_length = 256},
    Field{.name = "reasoning_content", .kinds = kString, .text = "What the assistant thought"},
    Field{.name = "reasoning", .kinds = kString, .text = "The same by another name"},
    Field{.name = "refusal", .kinds = kString, .text = "Of the assistant", .effect = kIgnored},
    Field{.name = "annotations", .kinds = kArray, .text = "Of the assistant", .effect = kIgnored},
    Field{.name = "provider_specific_fields", .kinds = kObject, .text = "Notes of a client", .effect = kIgnored},
    Field{.name = "audio", .kinds = kObject, .text = "Sound", .effect = kRefused},
    Field{.name = "function_call", .kinds = kObject, .text = "Former name of tool_calls", .effect = kRefused},
};
constexpr FieldTable kMessage{"ChatMessage", kMessageFields};

constexpr std::array kFunctionFields = {
    kToolNameField,
    Field{.name = "description", .kinds = kString, .text = "What it does"},
    Field{.name = "parameters", .kinds = kObject, .text = "JSON Schema of its arguments"},
    Field{.name = "strict",
          .kinds = kBool,
          .text = "A schema that cannot be held, or has a keyword that is not known, is an error",
          .fallback = "false"},
};
constexpr FieldTable kFunction{"Function", kFunctionFields};

constexpr std::array kToolGrammarFields = {
    Field{.name = "syntax", .kinds = kString, .text = "Its language", .required = true, .values = "lark|regex"},
    Field{.name = "definition", .kinds = kString, .text = "The grammar", .required = true},
};
constexpr FieldTable kToolGrammar{"ToolGrammar", kToolGrammarFields};
constexpr std::array kCustomFormatFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "Any text, or one of a grammar",
          .required = true,
          .values = "text|grammar"},
    Field{.name = "grammar", .kinds = kObject, .text = "Which", .members = &kToolGrammar},
};
constexpr FieldTable kCustomFormat{"CustomFormat", kCustomFormatFields};
constexpr std::array kCustomFields = {
    kToolNameField,
    Field{.name = "description", .kinds = kString, .text = "What it does"},
    Field{.name = "format", .kinds = kObject, .text = "What its text is held to", .members = &kCustomFormat},
};
constexpr FieldTable kCustom{"Custom", kCustomFields};

constexpr std::array kToolFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "The kind of the tool",
          .required = true,
          .values = "function|custom"},
    Field{.name = "function", .kinds = kObject, .text = "The function", .members = &kFunction},
    Field{.name = "custom", .kinds = kObject, .text = "A tool that gets a text", .members = &kCustom},
};
constexpr FieldTable kTool{"Tool", kToolFields};

constexpr std::array kNamedFunctionFields = {kToolNameField};
constexpr FieldTable kNamedFunction{"NamedFunction", kNamedFunctionFields};
constexpr std::array kNamedToolFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "The kind of the tool",
          .required = true,
          .values = "function|custom"},
    Field{.name = "function", .kinds = kObject, .text = "The function", .members = &kNamedFunction},
    Field{.name = "custom", .kinds = kObject, .text = "The custom tool", .members = &kNamedFunction},
};
constexpr FieldTable kNamedTool{"NamedTool", kNamedToolFields};
constexpr std::array kAllowedToolsFields = {
    Field{.name = "mode",
          .kinds = kString,
          .text = "Whether one must be called",
          .required = true,
          .values = "auto|required"},
    Field{.name = "tools",
          .kinds = kArray,
          .text = "Which",
          .required = true,
          .max_items = kMaxTools,
          .min_items = 1,
          .items = kObject,
          .members = &kNamedTool},
};
constexpr FieldTable kAllowedTools{"AllowedTools", kAllowedToolsFields};
constexpr std::array kToolChoiceFields = {
    Field{.name = "type",
          .kinds = kString,
          .text = "One, or some",
          .required = true,
          .values = "function|custom|allowed_tools"},
    Field{.name = "function", .kinds = kObject, .text = "Which must be called", .members = &kNamedFunction},
    Field{.name = "custom", .kinds = kObject, .text = "The same of custom tools", .members = &kNamedFunction},
    Field{.name = "allowed_tools", .kinds = kObject, .text = "Which are offered", .members = &kAllowedTools},
};
constexpr FieldTable kToolChoice{"ToolChoice", kToolChoiceFields};

constexpr std::array kTemplateFields = {
    Field{.name = "enable_thinking", .kinds = kBool, .text = "Whether the model thinks first"},
    Field{.name = "thinking", .kinds = kBool, .text = "The same in other templates"},
    Field{
        .name = "thinking_budget", .kinds = kInteger, .text = "Tokens of thought", .low = -1, .high = kMaxAnswerTokens},
    Field{.name = "reasoning_effort", .kinds = kString, .text = "How much it thinks", .max_length = 32},
    Field{.name = "preserve_thinking", .kinds = kBool, .text = "Earlier thoughts stay in the prompt"},
    Field{.name = "date_string", .kinds = kString, .text = "Today's date", .max_length = 64},
    Field{.name = "tools_in_user_message", .kinds = kBool, .text = "Where Llama 3 is told of tools"},
    Field{.name = "xml_tools", .kinds = kBool, .text = "The form of tools in SmolLM3"},
};
constexpr FieldTable kTemplateVariables{"TemplateVariables", kTemplateFields};

constexpr std::array kChatOnlyFields = {
    Field{.name = "messages",
          .kinds = kArray,
          .text = "The conversation",
          .required = true,
          .max_items = kMaxMessages,
          .min_items = 1,
          .items = kObject,
          .members = &kMessage},
    Field{.name = "max_tokens",
          .kinds = kInteger,
          .text = "Tokens to make at most; absent: until the context is full",
          .low = 1,
          .high = kMaxAnswerTokens},
    Field{.name = "max_completion_tokens",
          .kinds = kInteger,
          .text = "The same; wins where both are given",
          .low = 1,
          .high = kMaxAnswerTokens},
    Field{.name = "logprobs", .kinds = kBool, .text = "The log-probability of each token", .fallback = "false"},
    Field{.name = "top_logprobs",
          .kinds = kInteger,
          .text = "And of so many likeliest; needs logprobs",
          .low = 0,
          .high = kMaxTopLogprobs},
    Field{.name = "tools",
          .kinds = kArray,
          .text = "Functions that the model may call",
          .max_items = kMaxTools,
          .items = kObject,
          .members = &kTool},
    Field{.name = "tool_choice",
          .kinds = kString | kObject,
          .text = "Whether tools are offered to the model, and whether it must call one, or which",
          .values = "none|auto|required",
          .members = &kToolChoice},
    kParallelCallsField,
    Field{.name = "chat_template_kwargs",
          .kinds = kObject,
          .text = "Variables of the template, of these names only",
          .members = &kTemplateVariables},
    Field{.name = "reasoning_effort",
          .kinds = kString,
          .text = "For templates that have it; none: no thinking",
          .values = "none|minimal|low|medium|high|xhigh|max"},
    Field{.name = "modalities",
          .kinds = kArray,
          .text = "[\"text\"]",
          .max_items = 4,
          .items = kString,
          .item_max_length = 32},
    Field{.name = "metadata", .kinds = kObject, .text = "Tags", .effect = kIgnored},
    Field{.name = "store", .kinds = kBool, .text = "Whether the answer is kept: it never is", .effect = kIgnored},
    Field{.name = "service_tier", .kinds = kString, .text = "Class of service", .effect = kIgnored},
    Field{.name = "safety_identifier", .kinds = kString, .text = "Who asks", .effect = kIgnored},
    Field{.name = "prompt_cache_key", .kinds = kString, .text = "Hint for caches", .effect = kIgnored},
    Field{.name = "prompt_cache_retention", .kinds = kString, .text = "Hint for caches", .effect = kIgnored},
    Field{.name = "prompt_cache_options", .kinds = kObject, .text = "Hint for caches", .effect = kIgnored},
    Field{.name = "verbosity",
          .kinds = kString,
          .text = "How long answers are: the model was not taught it",
          .effect = kIgnored},
    Field{.name = "audio", .kinds = kObject, .text = "Sound", .effect = kRefused},
    Field{.name = "prediction", .kinds = kObject, .text = "What the answer will be like", .effect = kRefused},
    Field{.name = "web_search_options", .kinds = kObject, .text = "Search", .effect = kRefused},
    Field{.name = "moderation", .kinds = kObject, .text = "Checks of content", .effect = kRefused},
    Field{.name = "functions", .kinds = kArray, .text = "Former name of tools", .effect = kRefused},
    Field{
        .name = "function_call", .kinds = kString | kObject, .text = "Former name of tool_choice", .effect = kRefused},
    Field{.name = "chat_template", .kinds = kString, .text = "A template of the request's own", .effect = kRefused},
};

constexpr std::array kCompletionOnlyFields = {
    Field{.name = "prompt",
          .kinds = kString | kArray,
          .text = "Text or token ids, or a list of either",
          .required = true,
          .max_prompts = kMaxPrompts,
          .items = kString | kInteger | kArray},
    Field{.name = "max_tokens",
          .kinds = kInteger,
          .text = "Tokens to make at most; 0: none, with echo",
          .low = 0,
          .high = kMaxAnswerTokens,
          .fallback = "16"},
    Field{.name = "max_completion_tokens",
          .kinds = kInteger,
          .text = "The same; wins where both are given",
          .low = 0,
          .high = kMaxAnswerTokens},
    Field{.name = "logprobs",
          .kinds = kInteger,
          .text = "The log-probabilities of so many likeliest tokens",
          .low = 0,
          .high = kMaxTopLogprobs},
    Field{.name = "echo", .kinds = kBool, .text = "The prompt before the answer", .fallback = "false"},
    Field{.name = "suffix", .kinds = kString, .text = "What comes after the answer", .effect = kRefused},
};

constexpr auto kChatAll = join(kChatOnlyFields, kSamplingFields, kRunFields, kCommonFields, kConstraintFields);
constexpr auto kCompletionAll =
    join(kCompletionOnlyFields, kSamplingFields, kRunFields, kCommonFields, kConstraintFields);

constexpr std::array kEmbedding = {
    kModelField,
    Field{.name = "input",
          .kinds = kString | kArray,
          .text = "Text or token ids, or a list of either",
          .required = true,
          .max_prompts = kMaxPrompts,
          .items = kString | kInteger | kArray},
    Field{.name = "encoding_format",
          .kinds = kString,
          .text = "How numbers are sent",
          .values = "float|base64",
          .fallback = "\"float\""},
    Field{.name = "pooling",
          .kinds = kString,
          .text = "Which rows become the vector",
          .values = "mean|last|cls",
          .fallback = "\"mean\""},
    Field{.name = "normalize", .kinds = kBool, .text = "Whether vectors have length 1", .fallback = "true"},
    Field{.name = "dimensions", .kinds = kInteger, .text = "Only the model's own number", .low = 1, .high = 1e6},
    kTimeoutField,
    Field{.name = "user", .kinds = kString, .text = "Who asks", .effect = kIgnored},
};

}  // namespace

const FieldTable kChatFields{"ChatRequest", kChatAll};
const FieldTable kCompletionFields{"CompletionRequest", kCompletionAll};
const FieldTable kEmbeddingFields{"EmbeddingRequest", kEmbedding};

}  // namespace ingot
