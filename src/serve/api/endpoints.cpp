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
    {"/tokenize", "Text to token ids", &kTokenizeFields},
    {"/detokenize", "Token ids to text", &kDetokenizeFields},
});

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

}  // namespace ingot
