// *.tiktoken: lines of "base64-of-the-token rank". The file says neither how text is split nor which tokens are
// special: its name does, or the files beside it.
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"
#include "text/load/ranked_vocab.h"
#include "text/load/tokenizer_load.h"
#include "text/unicode/unicode.h"

namespace ingot {

namespace {

// '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s
// Llama 3's pattern, but white space at the end of the text is one piece even where newlines are in it.
size_t scan_cl100k_base(std::string_view text, size_t pos) {
  size_t end = pos;
  while (end < text.size() && (category_of(char_at(text, end)) & kSpace)) end += char_length(text[end]);
  return end == text.size() ? end : scan_llama3(text, pos);
}

using Special = std::map<Token, AddedToken>;

void add(Special& special, Token id, std::string name) {
  special[id] = {.id = id, .content = std::move(name), .special = true};
}

void gpt2_special(Special& special) { add(special, 50256, "<|endoftext|>"); }

void p50k_edit_special(Special& special) {
  add(special, 50256, "<|endoftext|>");
  add(special, 50281, "<|fim_prefix|>");
  add(special, 50282, "<|fim_middle|>");
  add(special, 50283, "<|fim_suffix|>");
}

void cl100k_special(Special& special) {
  add(special, 100257, "<|endoftext|>");
  add(special, 100258, "<|fim_prefix|>");
  add(special, 100259, "<|fim_middle|>");
  add(special, 100260, "<|fim_suffix|>");
  add(special, 100276, "<|endofprompt|>");
}

void o200k_special(Special& special) {
  add(special, 199999, "<|endoftext|>");
  add(special, 200018, "<|endofprompt|>");
}

void harmony_special(Special& special) {
  for (Token id = 200000; id < 201088; id++) add(special, id, fmt::format("<|reserved_{}|>", id));
  o200k_special(special);
  add(special, 199998, "<|startoftext|>");
  add(special, 200002, "<|return|>");
  add(special, 200003, "<|constrain|>");
  add(special, 200005, "<|channel|>");
  add(special, 200006, "<|start|>");
  add(special, 200007, "<|end|>");
  add(special, 200008, "<|message|>");
  add(special, 200012, "<|call|>");
}

void qwen_special(Special& special) {
  add(special, 151643, "<|endoftext|>");
  add(special, 151644, "<|im_start|>");
  add(special, 151645, "<|im_end|>");
  for (Token i = 0; i < 205; i++) add(special, 151646 + i, fmt::format("<|extra_{}|>", i));
}

void llama3_special(Special& special) {
  for (Token i = 5; i < 256; i++) {
    add(special, 128000 + i, fmt::format("<|reserved_special_token_{}|>", i < 6 ? 2 : i - 8));
  }
  static constexpr std::pair<Token, std::string_view> kNamed[] = {{0, "<|begin_of_text|>"},
                                                                  {1, "<|end_of_text|>"},
                                                                  {2, "<|reserved_special_token_0|>"},
                                                                  {3, "<|reserved_special_token_1|>"},
                                                                  {4, "<|finetune_right_pad_id|>"},
                                                                  {6, "<|start_header_id|>"},
                                                                  {7, "<|end_header_id|>"},
                                                                  {8, "<|eom_id|>"},
                                                                  {9, "<|eot_id|>"},
                                                                  {10, "<|python_tag|>"}};
  for (const auto& [offset, name] : kNamed) add(special, 128000 + offset, std::string(name));
}

void none_special(Special&) {}

struct Known {
  std::string_view name;             // of the file, without ".tiktoken"
  std::string_view tokenizer_class;  // of tokenizer_config.json, for files named otherwise
  size_t ranks;
  Scanner scanner;
  void (*special)(Special&);
  std::string_view bos, eos;
  bool add_bos = false;
  bool nfc = false;
};

constexpr Known kKnown[] = {
    {"r50k_base", "", 50256, scan_gpt2, gpt2_special, "", "<|endoftext|>"},
    {"gpt2", "", 50256, scan_gpt2, gpt2_special, "", "<|endoftext|>"},
    {"p50k_base", "", 50280, scan_gpt2, gpt2_special, "", "<|endoftext|>"},
    {"p50k_edit", "", 50280, scan_gpt2, p50k_edit_special, "", "<|endoftext|>"},
    {"cl100k_base", "", 100256, scan_cl100k_base, cl100k_special, "", "<|endoftext|>"},
    {"o200k_base", "", 199998, scan_o200k, o200k_special, "", "<|endoftext|>"},
    {"o200k_harmony", "", 199998, scan_o200k, harmony_special, "<|startoftext|>", "<|return|>"},
    {"qwen", "QWenTokenizer", 151643, scan_qwen2, qwen_special, "", "<|endoftext|>", false, true},
    {"llama3", "", 128000, scan_llama3, llama3_special, "<|begin_of_text|>", "<|end_of_text|>", true},
    {"glm4", "ChatGLM4Tokenizer", 151329, scan_llama3, none_special, "", "<|endoftext|>"},
};

// By the file's name; of tokenizer.model and tiktoken.model by the class beside it, or by the number of ranks.
const Known& find_known(const std::string& path, const TokenizerConfig& config, size_t ranks) {
  const std::filesystem::path file(path);
  const std::string stem = file.stem().string();
  const bool named = file.extension() != ".model";
  std::string names;
  for (const Known& known : kKnown) {
    const bool by_class = !known.tokenizer_class.empty() && known.tokenizer_class == config.tokenizer_class;
    if (named ? known.name == stem || by_class : by_class) return known;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  for (const Known& known : kKnown) {
    if (!named && known.ranks == ranks) return known;
  }
  throw Error("[tokenizer] {} with {} ranks: its name does not say how it splits text; known are {}", path, ranks,
              names);
}

// The tokens by rank; empty where a rank is missing.
std::vector<std::string> read_lines(std::string_view text, const std::string& path, size_t& count) {
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const size_t limit = std::min(kMaxTokens, 2 * lines + 1024);
  std::vector<std::string> ranked;
  size_t line = 0;
  count = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = std::min(text.find('\n', pos), text.size());
    std::string_view row = text.substr(pos, end - pos);
    pos = end + 1;
    line++;
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    const size_t space = row.find(' ');
    const std::string_view number = space == row.npos ? "" : row.substr(space + 1);
    size_t rank = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), rank);
    std::string bytes;
    if (space == 0 || number.empty() || parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() ||
        !append_base64(row.substr(0, space), bytes)) {
      throw Error("[tokenizer] {}: line {} ('{}') is no base64 token and its rank", path, line, utf8_printable(row));
    }
    if (rank >= limit) throw Error("[tokenizer] {}: line {} has the rank {}, {} at most", path, line, rank, limit - 1);
    if (rank >= ranked.size()) ranked.resize(rank + 1);
    if (!ranked[rank].empty()) throw Error("[tokenizer] {}: the rank {} is there twice", path, rank);
    ranked[rank] = std::move(bytes);
    count++;
  }
  return ranked;
}

}  // namespace

bool looks_like_tiktoken(std::string_view bytes) {
  const std::string_view row = bytes.substr(0, bytes.find('\n'));
  const size_t space = row.find(' ');
  std::string token;
  return space != row.npos && space > 0 && space < 2048 && append_base64(row.substr(0, space), token);
}

std::unique_ptr<Tokenizer> parse_tiktoken(std::string_view text, const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const TokenizerConfig config = read_tokenizer_config(directory.empty() ? "." : directory);
  size_t count = 0;
  const std::vector<std::string> ranked = read_lines(text, path, count);
  const Known& known = find_known(path, config, count);
  const bool by_class = !config.tokenizer_class.empty() && known.tokenizer_class == config.tokenizer_class;
  if (count != known.ranks && !by_class) {
    throw Error("[tokenizer] {} has {} ranks, {} has {}: cut short or another vocabulary", path, count, known.name,
                known.ranks);
  }
  Special special;
  if (count == known.ranks) known.special(special);
  for (const AddedToken& token : config.added) {
    if (static_cast<size_t>(token.id) > ranked.size() + 65536) {
      throw Error("[tokenizer] added token {}: {} has {} ranks", token.id, path, count);
    }
    special[token.id] = token;
    special[token.id].normalized = false;
  }
  TokenizerParts parts;
  parts.kind = fmt::format("byte-level BPE, {}", known.name);
  if (known.nfc) parts.normalizer.add({.kind = NormalizerStep::Kind::kNfc});
  parts.pre_tokenizer.add({.scanner = known.scanner});
  build_ranked(ranked, 0, special, path, parts);
  if (const AddedToken* token = parts.added.find(known.bos)) parts.bos = token->id;
  if (const AddedToken* token = parts.added.find(known.eos)) parts.eos = token->id;
  apply_tokenizer_config(config, parts);
  if (config.add_bos.value_or(known.add_bos) && parts.bos) parts.prefix.push_back(*parts.bos);
  if (config.add_eos.value_or(false) && parts.eos) parts.suffix.push_back(*parts.eos);
  add_named_end_tokens(parts);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace ingot
