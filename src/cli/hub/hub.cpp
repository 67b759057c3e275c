#include "cli/hub/hub.h"

#include "base/error.h"
#include "base/seeded_hash.h"
#include "cli/hub/download.h"
#include "cli/hub/model_files.h"
#include "cli/strings.h"
#include "files/json.h"

namespace ingot {

namespace {

constexpr size_t kMaxFiles = 100000;  // of one repository
constexpr int kMaxPages = 1000;       // of a listing

std::string endpoint_from_environment() {
  std::string endpoint = environment("HF_ENDPOINT", "https://huggingface.co");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

void check_revision(const std::string& revision) {
  bool good = !revision.empty() && revision.size() <= 200;
  for (char c : revision) good = good && static_cast<unsigned char>(c) > 0x20 && c != 0x7f;
  if (!good || revision.find("..") != std::string::npos) {
    throw Error("[pull] '{}' is not a revision: expected a branch, a tag or a commit", revision);
  }
}

// The address in `<…>; rel="next"`, or nothing.
std::string next_page(const std::string& link) {
  const size_t open = link.find('<');
  const size_t close = link.find('>', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {};
  if (link.find("rel=\"next\"", close) == std::string::npos) return {};
  return link.substr(open + 1, close - open - 1);
}

// A listing goes on where it began. Who answers for the hub names the address: it may not send this program to other
// machines, to what is not encrypted, or to files.
void check_next_page(const std::string& url, const std::string& endpoint) {
  if (url.empty() || url_origin(url) == url_origin(endpoint)) return;
  throw Error("[pull] the hub's list of files goes on at '{}', which is not {}: refused", url, url_origin(endpoint));
}

}  // namespace

bool is_commit(std::string_view revision) {
  return revision.size() == 40 && revision.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Hub::Hub(int retries) : endpoint_(endpoint_from_environment()), client_(endpoint_, environment("HF_TOKEN"), retries) {}

std::string Hub::file_url(const Repo& repo, const std::string& file) const {
  return fmt::format("{}/{}/resolve/{}/{}", endpoint_, repo.name, url_encode(repo.commit, false),
                     url_encode(file, true));
}

Repo Hub::list(const std::string& name, const std::string& revision) {
  check_revision(revision);
  const std::string label = revision == "main" ? name : fmt::format("{} at revision {}", name, revision);
  const std::string url = fmt::format("{}/api/models/{}/revision/{}", endpoint_, name, url_encode(revision, false));
  const HttpReply reply = client_.get({.url = url});
  if (reply.status != 200) throw Error("{}", http_problem(reply, label, client_.has_token()));
  const Json document = parse_json(reply.body, url);
  const JsonObject& object = as_object(document, "the hub's answer");
  Repo repo{.name = name, .commit = get_string(object, "sha", revision), .files = {}};
  check_revision(repo.commit);
  if (is_commit(revision) && repo.commit != revision) {
    throw Error("[pull] {}: the hub answers with {} when it is asked for {}", name, repo.commit, revision);
  }
  const JsonArray* siblings = find_array(object, "siblings");
  if (siblings == nullptr) throw Error("[pull] {}: the hub's answer lists no files", label);
  if (siblings->size() > kMaxFiles) throw Error("[pull] {}: more than {} files", label, kMaxFiles);
  for (const Json& sibling : *siblings) {
    repo.files.push_back({.path = get_string(as_object(sibling, "siblings[]"), "rfilename"), .size = -1, .sha256 = ""});
    check_repo_file(name, repo.files.back().path);
  }
  add_sizes(repo);
  return repo;
}

// Sizes and hashes are in another listing. Where a mirror lacks it, the answers of the downloads tell the hashes.
void Hub::add_sizes(Repo& repo) {
  SeededMap<RepoFile*> files;
  for (RepoFile& file : repo.files) files[file.path] = &file;
  std::string url =
      fmt::format("{}/api/models/{}/tree/{}?recursive=true", endpoint_, repo.name, url_encode(repo.commit, false));
  for (int page = 0; !url.empty() && page < kMaxPages; ++page) {
    const HttpReply reply = client_.get({.url = url});
    if (reply.status == 404) return;
    if (reply.status != 200) throw Error("{}", http_problem(reply, repo.name, client_.has_token()));
    const Json document = parse_json(reply.body, url);
    for (const Json& value : as_array(document, "the hub's list of files")) {
      const JsonObject& entry = as_object(value, "an entry of the hub's list of files");
      const auto it = files.find(get_string(entry, "path", ""));
      if (it == files.end()) continue;
      it->second->size = get_int(entry, "size", -1, -1);
      if (const JsonObject* lfs = find_object(entry, "lfs")) {
        it->second->sha256 = get_string(*lfs, "oid", "");
        it->second->size = get_int(*lfs, "size", it->second->size, -1);
      }
    }
    url = next_page(reply.header("link"));
    check_next_page(url, endpoint_);
  }
}

}  // namespace ingot
