// A directory's tokenizer and chat template as the keys tokenizer.* of a GGUF file.
#pragma once

#include <string>

namespace ingot {

class GgufWriter;
struct ModelFiles;

// tokenizer.json (merges over bytes, or SentencePiece's characters with bytes to fall back on), tokenizer.model or
// tok*.bin. A directory without a tokenizer gives a file without one ("no_vocab"). `vocab` rows of the embedding: ids
// without a token are written as unused. Throws Error naming what GGUF has no place or no name for.
void write_gguf_vocabulary(GgufWriter& writer, const ModelFiles& files, int vocab);

}  // namespace ingot
