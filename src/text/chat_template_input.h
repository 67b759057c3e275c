// From a request to the variables of a chat template, as the transformers library makes them.
#pragma once

#include <vector>

#include "files/json.h"
#include "text/chat_template.h"

namespace ingot {

// Adds what a template may always count on: tools and documents (null), add_generation_prompt (false). A message's
// reasoning is given under the names "reasoning_content" and "thinking", wherever it came from ("reasoning" too).
// Throws Error when messages is no array of objects.
JsonObject chat_variables(JsonObject input);

// chat_variables, then the render. With a member "continue_final_message" (true, or the name of the field to continue,
// "content" when true) the text ends inside the last message, where the model is to go on; that member is no variable.
// Throws Error when the last message has no such text, the template drops it, or a generation prompt is asked for too.
std::vector<ChatTemplate::Piece> render_chat(const ChatTemplate& chat_template, JsonObject input,
                                             const RenderOptions& options = {});

}  // namespace ingot
