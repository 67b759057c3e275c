// The options of `ingot quantize` that name a size in place of a format, which is then searched for.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "cli/compress/method_options.h"
#include "compress/search/search.h"

namespace ingot {

struct SizeOptions {
  double bits = 0;   // of a parameter
  int64_t size = 0;  // of the file

  bool asked() const { return bits > 0 || size > 0; }
};

void add_size_options(CLI::App& app, CLI::Option* format, SizeOptions& options);

// Finds the formats and opens the method that rounds to them: `quantized` has both then. What the search measures with
// is taken from the end of the text, and the method does not see it. Throws Error.
struct SearchedMethod {
  Method method;
  SearchResult found;
};
SearchedMethod search_method(const SizeOptions& size, MethodOptions options, QuantizeOptions& quantized, bool dry);

}  // namespace ingot
