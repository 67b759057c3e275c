// Traces of what a server was asked: when requests came and how long prompts and answers were. Two published kinds are
// read, told apart by their content:
//   Azure      CSV with the header TIMESTAMP,ContextTokens,GeneratedTokens
//   Mooncake   JSON lines {"timestamp": ms, "input_length", "output_length", "hash_ids": one for each 512 tokens of the
//              prompt}; equal ids are equal content, so prefixes that requests share are known
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

inline constexpr int kTraceBlockTokens = 512;
inline constexpr int kMaxTraceTokens = 1 << 24;  // of a prompt or an answer

struct TraceRequest {
  double arrival = 0;  // seconds since the first request
  int prompt = 0;      // tokens
  int output = 0;
  // What each kTraceBlockTokens tokens of the prompt hold, ids >= 0 that cover all of it; empty: shared with none.
  std::vector<int64_t> blocks = {};
};

struct Trace {
  std::string kind;                    // "azure" or "mooncake"
  std::vector<TraceRequest> requests;  // in the order of arrival, at least one
};

// The first `limit` requests; 0: all. Throws Error that names the line.
Trace read_trace(const std::string& path, size_t limit = 0);
// Likewise of a file's text; `where` names it in errors.
Trace parse_trace(std::string_view text, std::string_view where, size_t limit = 0);

}  // namespace ingot
