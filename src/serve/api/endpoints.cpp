// All endpoints that take a body.
#include <array>

#include "serve/api/fields.h"

namespace ingot {
namespace {

constexpr auto kEndpoints = std::to_array<Endpoint>({
    {"/v1/chat/completions", "An answer to a conversation", &kChatFields},
    {"/v1/completions", "Goes on with a text", &kCompletionFields},
    {"/v1/responses", "An answer to a conversation, as items", &kResponseFields},
    {"/v1/embeddings", "A vector for each text", &kEmbeddingFields},
    {"/v1/messages", "An answer to a conversation, Anthropic's API", &kMessagesFields},
    {"/v1/messages/count_tokens", "Tokens of a conversation", &kCountTokensFields},
    {"/api/chat", "An answer to a conversation, Ollama's API", &kOllamaChatFields},
    {"/api/generate", "An answer to a prompt, Ollama's API", &kOllamaGenerateFields},
    {"/api/embed", "A vector for each text, Ollama's API", &kOllamaEmbedFields},
    {"/api/embeddings", "A vector for a text, Ollama's API", &kOllamaEmbeddingsFields},
    {"/api/show", "The model in detail, Ollama's API", &kOllamaShowFields},
    {"/tokenize", "Text to token ids", &kTokenizeFields},
    {"/detokenize", "Token ids to text", &kDetokenizeFields},
});

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

}  // namespace ingot
