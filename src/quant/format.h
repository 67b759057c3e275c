// The encodings of weights. One format = one header in quant/formats/ with a struct of the same name in
// capitals: its block, its bytes, decode and encode (the reference). The list is written by CMake from
// the folder. A format's row is a whole number of blocks of `kBlock` consecutive values along K. Those with kWholeRows
// have scales that reach over blocks or rows: only a whole row can be decoded, and its bytes are no multiple of a
// block's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "quant/format_headers.inc"  // the struct of every format
#include "quant/format_list.inc"     // INGOT_FORMATS(X): X(Q4_0) …

namespace ingot {

enum class Format : uint8_t {
#define X(NAME) k##NAME,
  INGOT_FORMATS(X)
#undef X
};

// Calls f(Q4_0{}) with the struct of `format`; every format's instantiation is compiled.
template <class F>
decltype(auto) visit_format(Format format, F&& f) {
  switch (format) {
#define X(NAME)         \
  case Format::k##NAME: \
    return f(NAME{});
    INGOT_FORMATS(X)
#undef X
  }
  CHECK(false, "format {}", static_cast<int>(format));
  __builtin_unreachable();
}

std::string_view format_name(Format format);                    // "q4_0"
std::optional<Format> format_by_name(std::string_view name);    // any case
std::optional<Format> format_by_gguf_type(uint32_t ggml_type);  // of a GGUF file
std::optional<uint32_t> gguf_type(Format format);               // nothing where GGUF has no such type
int64_t format_block(Format format);                            // values in a block
int64_t format_block_bytes(Format format);                      // bytes of a block; whole rows have more
bool format_whole_rows(Format format);                          // only whole rows can be decoded

// Bytes of a row of `cols` values. REQUIRES: cols is a multiple of the block, and small enough that the
// result fits (sizes from files are checked by the readers with CheckedSize first).
int64_t format_row_bytes(Format format, int64_t cols);

// Decodes / encodes `n` consecutive values, for formats of whole rows a row. `importance`: a weight ≥ 0 for each of the
// n values (the mean square of what its column is multiplied with); the scales then are those of least error so
// weighted. Floats, Q8_0 and INT8 do not ask for it. REQUIRES: n is a multiple of the block.
void format_decode(Format format, const void* in, float* out, int64_t n);
void format_encode(Format format, const float* in, void* out, int64_t n, const float* importance = nullptr);
// Whether importances change what format_encode() does.
bool format_weighted(Format format);

}  // namespace ingot
