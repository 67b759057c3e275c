#include "text/pre_names.h"

namespace ingot {

namespace {

constexpr PreName kNames[] = {
    {"default", {scan_punctuation_run, scan_gpt2, scan_numbers, scan_ascii_triple}},
    {"gpt-2", {scan_gpt2}},
    {"phi-2", {scan_gpt2}},
    {"jais", {scan_gpt2}},
    {"exaone4", {scan_gpt2}},
    {"mpt", {scan_gpt2}, false, false, true},
    {"olmo", {scan_gpt2}, false, false, true},
    {"smollm", {scan_number, scan_gpt2}},
    {"starcoder", {scan_number, scan_gpt2}},
    {"refact", {scan_number, scan_gpt2}},
    {"command-r", {scan_number, scan_gpt2}, false, false, true},
    {"codeshell", {scan_number, scan_gpt2}},
    {"exaone", {scan_number, scan_gpt2}},
    {"minerva-7b", {scan_number, scan_gpt2}},
    {"falcon", {scan_punctuation_tick, scan_gpt2, scan_ascii_triple}},
    {"llama-bpe", {scan_llama3}, true, true},
    {"llama3", {scan_llama3}, true, true},
    {"llama-v3", {scan_llama3}, true, true},
    {"falcon3", {scan_llama3}, true, true},
    {"falcon-h1", {scan_llama3}, true, true},
    {"pixtral", {scan_llama3}, true, true},
    {"midm-2.0", {scan_llama3}, true, true},
    {"lfm2", {scan_llama3}, true, true},
    {"dbrx", {scan_llama3}},
    {"smaug-bpe", {scan_llama3}},
    {"glm4", {scan_llama3}},
    {"chatglm-bpe", {scan_llama3}},
    {"qwen2", {scan_qwen2}, false, false, true},
    {"deepseek-r1-qwen", {scan_qwen2}, false, false, true},
    {"qwen35", {scan_qwen35}, false, false, true},
    {"stablelm2", {scan_qwen2}},
    {"hunyuan", {scan_qwen2}},
    {"deepseek-v3", {scan_number_1_3, scan_cjk_kana, scan_deepseek3}},
    {"hunyuan-dense", {scan_number_1_3, scan_cjk_kana, scan_deepseek3}},
    {"gpt-4o", {scan_o200k}},
    {"llama4", {scan_o200k}, false, true},
    {"tekken", {scan_tekken}, true, true},
};

}  // namespace

const PreName* find_pre_name(std::string_view name) {
  for (const PreName& known : kNames) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

}  // namespace ingot
