// One file from the network to the disk: resumed where it broke off, checked against its SHA-256.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/hub/http.h"

namespace ingot {

struct Download {
  std::string url;
  std::string path;         // appears only when complete and checked; its data grow in a .part file beside it
  std::string label;        // names the file in errors
  std::string sha256 = {};  // 64 hex digits, or empty: taken from the answer where it names one
  int64_t size = -1;        // -1: not known
  std::function<void(uint64_t done, uint64_t resumed)> progress = {};  // bytes in the file, and those of an earlier try
};

// Returns the file's SHA-256. A file that is at `path` already and has the right hash is left as it is.
// Throws Error for a status other than 200 and 206 (see http_problem), a wrong hash or size (the data are
// removed) and a full disk (the .part file stays, to be resumed); Interrupted on Ctrl-C.
std::string download_file(HttpClient& client, const Download& what);

// "[pull] LABEL: …": what an answer's status means for the user, with a word on HF_TOKEN where a token could help.
std::string http_problem(const HttpReply& reply, const std::string& label, bool has_token);

// Throws Error unless `bytes` more fit on the disk that holds `dir`.
void check_free_space(const std::string& dir, uint64_t bytes);

}  // namespace ingot
