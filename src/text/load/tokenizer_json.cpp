// tokenizer.json, as the `tokenizers` library writes it.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mmap.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/load/tokenizer_json_lists.h"
#include "text/load/tokenizer_json_models.h"
#include "text/load/tokenizer_load.h"
#include "text/model/bpe.h"
#include "text/model/byte_level.h"

namespace ingot {

namespace {

std::string_view as_view(const boost::json::string& s) { return {s.data(), s.size()}; }

// A merge is "left right" or ["left", "right"].
std::pair<std::string_view, std::string_view> merge_pair(const Json& json, size_t index) {
  std::pair<std::string_view, std::string_view> pair;
  if (json.is_array()) {
    const JsonArray& array = json.as_array();
    if (array.size() == 2 && array[0].is_string() && array[1].is_string()) {
      return {as_view(array[0].as_string()), as_view(array[1].as_string())};
    }
  } else if (json.is_string() && split_merge(as_view(json.as_string()), pair)) {
    return pair;
  }
  throw Error("[tokenizer] merge {} is no pair of tokens", index);
}

// The lists of a model that was read as a tree. Views of it.
void lists_of(const JsonObject& model, ModelLists& lists) {
  const JsonObject* vocab = find_object(model, "vocab");
  if (vocab == nullptr || vocab->empty()) throw Error("[tokenizer] the model has no vocab");
  for (const auto& member : *vocab) {
    const std::string_view text(member.key().data(), member.key().size());
    const int64_t* id = member.value().if_int64();
    if (id == nullptr) throw Error("[tokenizer] the id of '{}' is no integer", utf8_printable(text));
    lists.vocab.emplace_back(text, *id);
  }
  const JsonArray* merges = find_array(model, "merges");
  if (merges == nullptr) throw Error("[tokenizer] the BPE model has no merges");
  for (size_t i = 0; i < merges->size(); i++) lists.merges.push_back(merge_pair((*merges)[i], i));
}

void fill_vocab(const ModelLists& lists, const std::vector<AddedToken>& added, const std::vector<std::string>& shown,
                bool byte_level, Vocab& out) {
  JsonTokens tokens(lists.vocab.size() + added.size());
  for (const auto& [text, id] : lists.vocab) tokens.add(text, id);
  for (size_t i = 0; i < added.size(); i++) tokens.add(added[i], shown[i]);
  tokens.fill(byte_level, out);
}

// A merge's two tokens as bytes. False where they are no byte-level letters.
struct MergeBytes {
  std::string left, right;

  bool set(const std::pair<std::string_view, std::string_view>& merge, bool byte_level) {
    left.clear();
    right.clear();
    if (byte_level) return append_byte_level(merge.first, left) && append_byte_level(merge.second, right);
    left = merge.first;
    right = merge.second;
    return true;
  }
};

// The ids of all merges, found by several threads: each is three looks into a table beyond the cache, and Llama-3 has
// 280,000 merges. Those that are wrong are left incomplete.
std::vector<Bpe::MergeIds> find_merges(const ModelLists& lists, bool byte_level, const Bpe& bpe) {
  constexpr size_t kPiece = 16384;
  std::vector<Bpe::MergeIds> ids(lists.merges.size(), {kNoToken, kNoToken, kNoToken});
  std::atomic<size_t> next{0};
  const auto work = [&] {
    MergeBytes bytes;
    std::string joined;
    for (size_t begin = next.fetch_add(kPiece); begin < ids.size(); begin = next.fetch_add(kPiece)) {
      Token last = kNoToken;
      for (size_t i = begin; i < std::min(ids.size(), begin + kPiece); i++) {
        if (!bytes.set(lists.merges[i], byte_level)) continue;
        ids[i] = bpe.merge_ids(bytes.left, bytes.right, last + 1, joined);
        last = ids[i].whole;
      }
    }
  };
  std::vector<std::jthread> helpers;
  const size_t threads = std::min({ids.size() / kPiece + 1, static_cast<size_t>(available_cores()), size_t{4}});
  while (helpers.size() + 1 < threads) helpers.emplace_back(work);
  work();
  helpers.clear();
  return ids;
}

void add_merges(const ModelLists& lists, bool byte_level, Bpe& bpe) {
  bpe.reserve_merges(lists.merges.size());
  const std::vector<Bpe::MergeIds> ids = find_merges(lists, byte_level, bpe);
  MergeBytes bytes;
  for (size_t i = 0; i < ids.size(); i++) {
    if (ids[i].complete()) {
      bpe.add_merge(ids[i].left, ids[i].right, ids[i].whole);
      continue;
    }
    const auto& [a, b] = lists.merges[i];
    if (!bytes.set(lists.merges[i], byte_level)) {
      throw Error("[tokenizer] merge {} ('{}' + '{}') is no pair of byte-level tokens", i, utf8_printable(a),
                  utf8_printable(b));
    }
    bpe.add_merge(bytes.left, bytes.right);  // which says what is missing
  }
}

std::vector<AddedToken> read_added(const JsonObject& root) {
  std::vector<AddedToken> added;
  const JsonArray* array = find_array(root, "added_tokens");
  if (array == nullptr) return added;
  for (const Json& json : *array) {
    const JsonObject& object = as_object(json, "an entry of added_tokens");
    if (find(object, "id") == nullptr) throw Error("[tokenizer] an entry of added_tokens has no id");
    added.push_back(read_added_token(object, static_cast<Token>(get_int(object, "id", 0, 0, INT32_MAX))));
  }
  return added;
}

// As the vocabulary has it, which is in bytes with `byte_level`.
std::string unknown_text(const std::string& name, bool byte_level) {
  std::string bytes;
  return byte_level && append_byte_level(name, bytes) ? bytes : name;
}

BpeOptions bpe_options(const JsonObject& model, bool byte_level, TokenizerParts& parts) {
  BpeOptions options;
  options.byte_level = byte_level;
  options.byte_fallback = get_bool(model, "byte_fallback", false);
  options.fuse_unknown = get_bool(model, "fuse_unk", false);
  options.ignore_merges = get_bool(model, "ignore_merges", false);
  options.prefix = get_string(model, "continuing_subword_prefix", "");
  options.suffix = get_string(model, "end_of_word_suffix", "");
  const std::string unknown = get_string(model, "unk_token", "");
  if (unknown.empty()) return options;
  options.unknown = parts.vocab->find(unknown_text(unknown, byte_level));
  if (options.unknown == kNoToken) {
    const AddedToken* added = parts.added.find(unknown);
    options.unknown = added != nullptr ? added->id : kNoToken;
  }
  if (options.unknown == kNoToken) throw Error("[tokenizer] unk_token '{}' is no token", utf8_printable(unknown));
  parts.unknown = options.unknown;
  return options;
}

// Whether words can be merged byte by byte: no option of the model looks at the characters that stand for bytes.
bool keeps_bytes(const JsonObject& model, const TokenizerParts& parts) {
  return parts.decoder.is_byte_level() && get_string(model, "continuing_subword_prefix", "").empty() &&
         get_string(model, "end_of_word_suffix", "").empty() && !get_bool(model, "byte_fallback", false);
}

// `read`: the model's lists where they were read in place. `alphabet`: the pre-tokenizer writes bytes as characters.
void read_bpe(const JsonObject& model, const ModelLists* read, const std::vector<AddedToken>& added,
              const std::vector<std::string>& shown, bool alphabet, TokenizerParts& parts) {
  if (get_float(model, "dropout", 0.0) != 0.0) throw Error("[tokenizer] BPE with dropout is not supported");
  ModelLists own;
  if (read == nullptr) lists_of(model, own);
  const ModelLists& lists = read != nullptr ? *read : own;
  // Mostly the vocabulary is kept as bytes, decoded once for all; otherwise bytes are written as characters.
  const bool byte_level = alphabet && keeps_bytes(model, parts);
  if (byte_level) parts.decoder = Decoder();
  if (alphabet && !byte_level) parts.pre_tokenizer.add({.kind = PreTokenizerStage::Kind::kByteLevel});
  fill_vocab(lists, added, shown, byte_level, *parts.vocab);
  for (const AddedToken& token : added) parts.added.add(token, parts.normalizer);
  auto bpe = std::make_unique<Bpe>(*parts.vocab, bpe_options(model, byte_level, parts));
  add_merges(lists, byte_level, *bpe);
  parts.model = std::move(bpe);
  parts.kind = byte_level ? "byte-level BPE, tokenizer.json" : "BPE, tokenizer.json";
}

// `lists`: of a BPE model, where `json` has them empty.
std::unique_ptr<Tokenizer> build_tokenizer(const Json& json, const ModelLists* lists, const std::string& path) {
  const JsonObject& root = as_object(json, path);
  const JsonObject* model = find_object(root, "model");
  if (model == nullptr) throw Error("[tokenizer] tokenizer.json has no model");
  const std::string type = model_type(*model);
  TokenizerParts parts;
  const auto member = [&](const char* key) {
    const Json* value = find(root, key);
    return value == nullptr ? Json() : *value;
  };
  read_normalizer(member("normalizer"), parts.normalizer);
  const bool alphabet = read_pre_tokenizer(member("pre_tokenizer"), parts.pre_tokenizer);
  read_decoder(member("decoder"), parts.decoder);
  const std::vector<AddedToken> added = read_added(root);
  std::vector<std::string> shown;
  for (const AddedToken& token : added) {
    std::string buffer;
    shown.emplace_back(token.normalized ? parts.normalizer.apply(token.content, buffer) : token.content);
  }
  if (type == "BPE") {
    read_bpe(*model, lists, added, shown, alphabet, parts);
  } else {
    if (lists != nullptr) throw Error("[tokenizer] a model '{}' with merges", utf8_printable(type));
    if (alphabet) parts.pre_tokenizer.add({.kind = PreTokenizerStage::Kind::kByteLevel});
    read_other_model(type, *model, added, shown, parts);
    for (const AddedToken& token : added) parts.added.add(token, parts.normalizer);
  }
  read_post_processor(member("post_processor"), *parts.vocab, parts.prefix, parts.suffix);

  const std::string directory = std::filesystem::path(path).parent_path().string();
  apply_tokenizer_config(read_tokenizer_config(directory.empty() ? "." : directory), parts);
  if (!parts.bos && !parts.prefix.empty()) parts.bos = parts.prefix.front();
  add_named_end_tokens(parts);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, const std::string& path) {
  // Read in place where that goes well. Where it does not, the parser reads the whole and has the last word: it says
  // what is wrong and where, or takes what JSON allows beyond the plain.
  try {
    ModelLists lists;
    if (text.size() <= JsonLimits().max_bytes && read_model_lists(text, lists)) {
      return build_tokenizer(parse_json(lists.rest, path), &lists, path);
    }
  } catch (const Error&) {
  }
  return build_tokenizer(parse_json(text, path), nullptr, path);
}

std::unique_ptr<Tokenizer> load_tokenizer_json(const std::string& path) {
  // Mapped, not copied: a tenth of the time to load 17 MB.
  const MappedFile file = MappedFile::open(path);
  constexpr size_t kMaxBytes = size_t{256} << 20;
  if (file.bytes().size() > kMaxBytes) {
    throw Error("[tokenizer] '{}' has {} bytes, {} allowed", path, file.bytes().size(), kMaxBytes);
  }
  file.advise_sequential(file.bytes());
  return parse_tokenizer_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

}  // namespace ingot
