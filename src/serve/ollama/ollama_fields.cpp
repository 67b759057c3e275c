// The fields of Ollama's API: /api/chat, /api/generate, /api/embed, /api/embeddings and /api/show.
#include <array>

#include "serve/api/shared_fields.h"

namespace ingot {
namespace {

using enum FieldEffect;

consteval Field renamed(Field field, const char* name) {
  field.name = name;
  return field;
}

// What Ollama's own loader is told when it loads a model: here the server's options say it, once.
consteval Field of_the_loader(const char* name, unsigned kinds) {
  return {.name = name, .kinds = kinds, .text = "Set when the server is started", .effect = kRefused};
}

constexpr std::array kOptionFields = {
    Field{.name = "num_ctx",
          .kinds = kInteger,
          .text = "Positions of the prompt and the answer; no more than the server's",
          .low = 1,
          .high = kMaxAnswerTokens},
    Field{.name = "num_predict",
          .kinds = kInteger,
          .text = "Tokens to make at most; below 1: until the context is full",
          .low = -2,
          .high = kMaxAnswerTokens},
    renamed(kSeedField, "seed"),
    sampling_field("temperature"),
    sampling_field("top_k"),
    sampling_field("top_p"),
    sampling_field("min_p"),
    sampling_field("typical_p"),
    renamed(sampling_field("repetition_penalty"), "repeat_penalty"),
    renamed(sampling_field("penalty_last_n"), "repeat_last_n"),
    sampling_field("presence_penalty"),
    sampling_field("frequency_penalty"),
    kStopField,
    Field{.name = "tfs_z", .kinds = kNumber, .text = "Tail-free sampling", .effect = kRefused},
    Field{.name = "mirostat", .kinds = kInteger, .text = "Mirostat", .effect = kRefused},
    Field{.name = "mirostat_tau", .kinds = kNumber, .text = "Mirostat", .effect = kRefused},
    Field{.name = "mirostat_eta", .kinds = kNumber, .text = "Mirostat", .effect = kRefused},
    Field{.name = "penalize_newline", .kinds = kBool, .text = "Penalties on line ends", .effect = kRefused},
    Field{.name = "num_keep", .kinds = kInteger, .text = "Shifting of the context", .effect = kRefused},
    of_the_loader("num_batch", kInteger),
    of_the_loader("num_gpu", kInteger),
    of_the_loader("main_gpu", kInteger),
    of_the_loader("num_thread", kInteger),
    of_the_loader("numa", kBool),
    of_the_loader("low_vram", kBool),
    of_the_loader("f16_kv", kBool),
    of_the_loader("logits_all", kBool),
    of_the_loader("vocab_only", kBool),
    of_the_loader("use_mmap", kBool),
    of_the_loader("use_mlock", kBool),
    of_the_loader("embedding_only", kBool),
};
constexpr FieldTable kOptionTable{"OllamaOptions", kOptionFields};

constexpr Field kOptions{
    .name = "options", .kinds = kObject, .text = "Sampling, lengths and stops", .members = &kOptionTable};
constexpr Field kKeepAlive{.name = "keep_alive",
                           .kinds = kString | kNumber,
                           .text = "How long the model stays loaded: it always does",
                           .effect = kIgnored,
                           .low = -1e9,
                           .high = 1e9,
                           .max_length = 64};

// Of the requests for text.
constexpr std::array kTextFields = {
    kModelField,
    Field{.name = "stream", .kinds = kBool, .text = "One object for each piece, one a line", .fallback = "true"},
    Field{.name = "format",
          .kinds = kString | kObject,
          .text = "json: any JSON object; a JSON Schema: JSON of it",
          .values = "json|"},
    kOptions,
    kKeepAlive,
    Field{.name = "think",
          .kinds = kBool | kString,
          .text = "Whether the model thinks first, or how much",
          .values = "low|medium|high|max"},
    Field{.name = "logprobs", .kinds = kBool, .text = "The log-probability of each token", .fallback = "false"},
    Field{.name = "top_logprobs",
          .kinds = kInteger,
          .text = "And of so many likeliest, with logprobs",
          .low = 0,
          .high = kMaxTopLogprobs},
    Field{.name = "truncate", .kinds = kBool, .text = "Prompts that are too long are errors", .effect = kRefused},
    Field{.name = "shift", .kinds = kBool, .text = "Shifting of the context", .effect = kRefused},
};

constexpr Field kCallIndex{
    .name = "index", .kinds = kInteger, .text = "Its place", .effect = kIgnored, .low = 0, .high = 1e6};
constexpr std::array kFunctionCallFields = {
    kToolNameField,
    Field{.name = "arguments", .kinds = kObject, .text = "By name"},
    kCallIndex,
};
constexpr FieldTable kFunctionCall{"OllamaFunctionCall", kFunctionCallFields};

constexpr std::array kToolCallFields = {
    Field{.name = "function", .kinds = kObject, .text = "The call", .required = true, .members = &kFunctionCall},
    Field{.name = "id", .kinds = kString, .text = "What the tool's answer refers to", .max_length = 256},
    Field{.name = "type", .kinds = kString, .text = "The kind of the tool", .values = "function"},
    kCallIndex,  // where Open WebUI has it
};
constexpr FieldTable kToolCall{"OllamaToolCall", kToolCallFields};

constexpr std::array kMessageFields = {
    Field{.name = "role",
          .kinds = kString,
          .text = "Who speaks",
          .required = true,
          .values = "system|developer|user|assistant|tool"},
    Field{.name = "content", .kinds = kString, .text = "The text"},
    Field{.name = "thinking", .kinds = kString, .text = "What the assistant thought"},
    Field{.name = "tool_calls",
          .kinds = kArray,
          .text = "Of the assistant",
          .max_items = kMaxCalls,
          .items = kObject,
          .members = &kToolCall},
    Field{.name = "tool_name", .kinds = kString, .text = "Of a tool's answer: which", .max_length = 256},
    Field{.name = "tool_call_id", .kinds = kString, .text = "Of a tool's answer: to which call", .max_length = 256},
    Field{.name = "images", .kinds = kArray, .text = "Images", .effect = kRefused},
};
constexpr FieldTable kMessage{"OllamaMessage", kMessageFields};

constexpr std::array kFunctionFields = {
    kToolNameField,
    Field{.name = "description", .kinds = kString, .text = "What it does"},
    Field{.name = "parameters", .kinds = kObject, .text = "JSON Schema of its arguments"},
};
constexpr FieldTable kFunction{"OllamaFunction", kFunctionFields};

constexpr std::array kToolFields = {
    Field{.name = "type", .kinds = kString, .text = "The kind of the tool", .required = true, .values = "function"},
    Field{.name = "function", .kinds = kObject, .text = "The function", .required = true, .members = &kFunction},
};
constexpr FieldTable kTool{"OllamaTool", kToolFields};

constexpr std::array kChatOnlyFields = {
    Field{.name = "messages",
          .kinds = kArray,
          .text = "The conversation; none: whether the model is there",
          .max_items = kMaxMessages,
          .items = kObject,
          .members = &kMessage},
    Field{.name = "tools",
          .kinds = kArray,
          .text = "Functions that the model may call",
          .max_items = kMaxTools,
          .items = kObject,
          .members = &kTool},
};

constexpr std::array kGenerateOnlyFields = {
    Field{.name = "prompt", .kinds = kString, .text = "What the user says; none: whether the model is there"},
    Field{.name = "system", .kinds = kString, .text = "The system message"},
    Field{.name = "raw", .kinds = kBool, .text = "The prompt as it is, without the template", .fallback = "false"},
    Field{.name = "suffix", .kinds = kString, .text = "What comes after the answer", .effect = kRefused},
    Field{.name = "template", .kinds = kString, .text = "A template of the request's own", .effect = kRefused},
    Field{.name = "context", .kinds = kArray, .text = "Ids of an earlier answer", .effect = kRefused},
    Field{.name = "images", .kinds = kArray, .text = "Images", .effect = kRefused},
    Field{.name = "width", .kinds = kInteger, .text = "Of an image to make", .effect = kRefused},
    Field{.name = "height", .kinds = kInteger, .text = "Of an image to make", .effect = kRefused},
    Field{.name = "steps", .kinds = kInteger, .text = "Of an image to make", .effect = kRefused},
};

constexpr auto kChatAll = join(kChatOnlyFields, kTextFields);
constexpr auto kGenerateAll = join(kGenerateOnlyFields, kTextFields);

constexpr std::array kEmbedFields = {
    kModelField,
    Field{.name = "input",
          .kinds = kString | kArray,
          .text = "A text, or a list of texts",
          .required = true,
          .max_items = kMaxPrompts,
          .items = kString},
    Field{.name = "dimensions", .kinds = kInteger, .text = "Only the model's own number", .low = 1, .high = 1e6},
    Field{.name = "truncate", .kinds = kBool, .text = "Texts that are too long are errors", .effect = kRefused},
    kOptions,
    kKeepAlive,
};

constexpr std::array kEmbeddingsFields = {
    kModelField,
    Field{.name = "prompt", .kinds = kString, .text = "The text", .required = true},
    kOptions,
    kKeepAlive,
};

constexpr std::array kShowFields = {
    kModelField,
    renamed(kModelField, "name"),
    Field{.name = "verbose", .kinds = kBool, .text = "More of the file: there is no more", .effect = kIgnored},
    Field{.name = "system", .kinds = kString, .text = "Another system message", .effect = kRefused},
    Field{.name = "template", .kinds = kString, .text = "Another template", .effect = kRefused},
    Field{.name = "options", .kinds = kObject, .text = "Other options", .effect = kRefused},
};

}  // namespace

const FieldTable kOllamaChatFields{"OllamaChatRequest", kChatAll};
const FieldTable kOllamaGenerateFields{"OllamaGenerateRequest", kGenerateAll};
const FieldTable kOllamaEmbedFields{"OllamaEmbedRequest", kEmbedFields};
const FieldTable kOllamaEmbeddingsFields{"OllamaEmbeddingsRequest", kEmbeddingsFields};
const FieldTable kOllamaShowFields{"OllamaShowRequest", kShowFields};

}  // namespace ingot
