// The decoder of a tokenizer.json.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/tokenizer_json_stages.h"
#include "text/tokenizer_load.h"

namespace ingot {

namespace {

// Where the steps of a decoder may stand: Replace and ByteFallback work on tokens, Strip on the fused text.
struct DecoderOrder {
  bool fallback = false;
  bool fused = false;
};

void read_decoder_step(const JsonObject& object, const std::string& type, DecoderOrder& order, Decoder& decoder) {
  if (type == "ByteLevel") {
    decoder.byte_level = true;
  } else if (type == "Replace" && !order.fallback && !order.fused) {
    const StagePattern pattern = read_pattern(object, "Replace");
    if (pattern.regex || pattern.text.empty()) throw Error("[tokenizer] a Replace decoder by a regular expression");
    decoder.replace.emplace_back(pattern.text, get_string(object, "content"));
  } else if (type == "ByteFallback" && !order.fused) {
    decoder.byte_fallback = order.fallback = true;
  } else if (type == "Fuse") {
    order.fused = true;
  } else if (type == "Strip" && order.fused && get_string(object, "content", " ") == " " &&
             get_int(object, "stop", 0) == 0) {
    decoder.strip_left = static_cast<int>(get_int(object, "start", 0, 0, 1 << 20));
  } else if (type == "Metaspace" && !order.fused) {
    const MetaspaceOptions options = read_metaspace_options(object);
    if (options.prepend != MetaspaceOptions::Prepend::kNever) decoder.drop_in_first = options.replacement;
    decoder.replace.emplace_back(options.replacement, " ");
  } else {
    unknown_stage("decoder (at this place)", type);
  }
}

}  // namespace

void read_decoder(const Json& json, Decoder& decoder) {
  if (json.is_null()) throw Error("[tokenizer] a tokenizer.json without a decoder is not supported");
  DecoderOrder order;
  for_each_stage(json, "decoder", "decoders", [&](const JsonObject& object, const std::string& type) {
    read_decoder_step(object, type, order, decoder);
  });
}

}  // namespace ingot
