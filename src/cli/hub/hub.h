// The Hugging Face hub as `ingot pull` needs it: what a repository holds and where its files are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/hub/http.h"

namespace ingot {

struct RepoFile {
  std::string path;    // as the repository names it; passes check_repo_file
  int64_t size = -1;   // -1: not known
  std::string sha256;  // of large files; empty where the hub names none
};

struct Repo {
  std::string name;
  std::string commit;  // the revision asked for, resolved to a commit where the hub does
  std::vector<RepoFile> files;
};

// Whether it names one state of a repository for good: 40 hexadecimal digits.
bool is_commit(std::string_view revision);

class Hub {
 public:
  // Endpoint and token from HF_ENDPOINT and HF_TOKEN.
  explicit Hub(int retries);

  // Throws Error when the repository or the revision is not there or may not be read, or when a commit was asked for
  // and the hub answers with another. REQUIRES: valid_model_name(name).
  Repo list(const std::string& name, const std::string& revision);
  std::string file_url(const Repo& repo, const std::string& file) const;
  const std::string& endpoint() const { return endpoint_; }
  HttpClient& client() { return client_; }

 private:
  void add_sizes(Repo& repo);

  std::string endpoint_;  // without a slash at its end
  HttpClient client_;
};

}  // namespace ingot
