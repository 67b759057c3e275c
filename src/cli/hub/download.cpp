#include "cli/hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/sha256.h"
#include "cli/hub/progress.h"

namespace ingot {

namespace {

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// "\"abc\"" and "W/\"abc\"" -> abc
std::string unquote_etag(std::string text) {
  if (text.starts_with("W/")) text.erase(0, 2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

// The file's hash as the hub names it. `etag` serves for those that copy the hub without its own header.
std::string announced_sha256(const HttpReply& reply) {
  for (const char* name : {"x-linked-etag", "etag"}) {
    const std::string etag = unquote_etag(reply.header(name));
    if (is_sha256(etag)) return etag;
  }
  return {};
}

// The first byte's place in "bytes 100-199/200"; -1 where the header is missing or malformed.
int64_t range_start(const std::string& header) {
  int64_t start = -1;
  if (!header.starts_with("bytes ")) return -1;
  const auto [end, error] = std::from_chars(header.data() + 6, header.data() + header.size(), start);
  return error == std::errc() && end != header.data() + header.size() && *end == '-' ? start : -1;
}

// The growing .part file with the running hash of its bytes.
class PartFile {
 public:
  explicit PartFile(std::string path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) throw Error("[pull] cannot create {}: {}", path_, std::strerror(errno));
    std::array<char, 1 << 16> buffer;
    for (ssize_t n; (n = ::read(fd_, buffer.data(), buffer.size())) > 0;)
      count({buffer.data(), static_cast<size_t>(n)});
  }
  ~PartFile() { close(); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t size() const { return size_; }

  void append(std::string_view piece) {
    for (size_t done = 0; done < piece.size();) {
      const ssize_t n = ::pwrite(fd_, piece.data() + done, piece.size() - done, static_cast<off_t>(size_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw Error("[pull] cannot write {}: {}", path_, std::strerror(n < 0 ? errno : ENOSPC));
      done += static_cast<size_t>(n);
    }
    count(piece);
  }

  void restart() {
    if (::ftruncate(fd_, 0) != 0) throw Error("[pull] cannot empty {}: {}", path_, std::strerror(errno));
    hash_ = {};
    size_ = 0;
  }

  std::string hash() const {
    Sha256 copy = hash_;
    return hex(copy.finish());
  }

  void remove() {
    close();
    ::unlink(path_.c_str());
  }

  // On the disk before it is called complete: after a power cut no torn file bears the final name.
  void finish_as(const std::string& path) {
    if (::fsync(fd_) != 0) throw Error("[pull] cannot write {}: {}", path_, std::strerror(errno));
    close();
    if (std::rename(path_.c_str(), path.c_str()) != 0) {
      throw Error("[pull] cannot move {} to {}: {}", path_, path, std::strerror(errno));
    }
  }

 private:
  void count(std::string_view piece) {
    hash_.update(std::as_bytes(std::span(piece.data(), piece.size())));
    size_ += piece.size();
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  Sha256 hash_;
};

// Asks for what the part lacks until it is complete. Returns the hash that the server announced, if any.
class Fetcher {
 public:
  Fetcher(HttpClient& client, const Download& what, PartFile& part) : client_(client), what_(what), part_(part) {}

  std::string run() {
    resumed_ = part_.size();
    int barren = 0;  // breaks in a row without a new byte
    for (int tries = 0; !complete(); ++tries) {
      const uint64_t before = part_.size();
      try {
        fetch_rest();
        return announced_;
      } catch (const HttpClient::Broken& broken) {
        barren = part_.size() > before ? 0 : barren + 1;
        // The second bound is for a server that breaks after every few bytes; it is 0 without retries.
        if (barren > client_.retries() || tries >= 20 * client_.retries()) {
          throw Error("[pull] {}: {}; gave up, the part that came is kept for the next try", what_.label,
                      broken.reason);
        }
        HttpClient::back_off(barren);
      }
    }
    return announced_;
  }

 private:
  bool complete() const {
    return part_.size() > 0 && what_.size >= 0 && part_.size() == static_cast<uint64_t>(what_.size);
  }

  void fetch_rest() {
    if (what_.size >= 0 && part_.size() > static_cast<uint64_t>(what_.size)) restart();
    HttpGet request{.url = what_.url, .offset = part_.size()};
    bool first = true;
    request.sink = [&](const HttpReply& reply, std::string_view piece) {
      if (first) begin(reply, request.offset);
      first = false;
      if (what_.size >= 0 && part_.size() + piece.size() > static_cast<uint64_t>(what_.size)) {
        throw Error("[pull] {}: the server sends more than the {} bytes it announced", what_.label, what_.size);
      }
      part_.append(piece);
      if (what_.progress) what_.progress(part_.size(), resumed_);
    };
    HttpReply reply = client_.get(request);
    if (reply.status == 416 && request.offset > 0) {
      restart();
      request.offset = 0;
      reply = client_.get(request);
    }
    if (reply.status != 200 && reply.status != 206)
      throw Error("{}", http_problem(reply, what_.label, client_.has_token()));
    if (first) begin(reply, request.offset);  // an empty file has no piece
  }

  void begin(const HttpReply& reply, uint64_t offset) {
    announced_ = announced_sha256(reply);
    if (offset == 0) return;
    if (reply.status == 200) {
      restart();  // a server without ranges sends the whole file
    } else if (range_start(reply.header("content-range")) != static_cast<int64_t>(offset)) {
      throw Error("[pull] {}: asked for the bytes from {} on, the answer has '{}'", what_.label, offset,
                  reply.header("content-range"));
    }
  }

  void restart() {
    part_.restart();
    resumed_ = 0;
  }

  HttpClient& client_;
  const Download& what_;
  PartFile& part_;
  std::string announced_;
  uint64_t resumed_ = 0;
};

bool has_content(const std::string& path, const Download& what) {
  struct stat info {};
  if (what.sha256.empty() || ::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (what.size >= 0 && info.st_size != what.size) return false;
  return sha256_file(path) == what.sha256;
}

}  // namespace

std::string http_problem(const HttpReply& reply, const std::string& label, bool has_token) {
  const std::string code = reply.header("x-error-code");
  std::string text;
  if (reply.status == 401 || reply.status == 403) {
    text = has_token
               ? "access denied: HF_TOKEN is not accepted for it, or its owner has not granted access yet"
               : "access denied: it is private, gated or does not exist; set HF_TOKEN to a token that may read it";
  } else if (reply.status == 404) {
    text = code == "RevisionNotFound" ? "no such revision" : code == "EntryNotFound" ? "no such file" : "not found";
  } else {
    text = "the server refuses";
  }
  return fmt::format("[pull] {}: {} (status {} from {})", label, text, reply.status, url_origin(reply.url));
}

void check_free_space(const std::string& dir, uint64_t bytes) {
  struct statvfs info {};
  if (::statvfs(dir.c_str(), &info) != 0 || info.f_frsize == 0) return;  // not known: writing will tell
  if (bytes / info.f_frsize >= info.f_bavail) {
    throw Error("[pull] no space in {}: {} needed, {} free", dir, format_bytes(bytes),
                format_bytes(static_cast<uint64_t>(info.f_bavail) * info.f_frsize));
  }
}

std::string download_file(HttpClient& client, const Download& what) {
  if (has_content(what.path, what)) return what.sha256;
  // Parts of different contents never meet: the name holds the hash. Without a hash nothing is resumed.
  const std::string part_path =
      fmt::format("{}.{}.part", what.path, what.sha256.empty() ? "0" : what.sha256.substr(0, 16));
  if (what.sha256.empty()) ::unlink(part_path.c_str());
  for (bool again = true;; again = false) {
    PartFile part(part_path);
    const bool resumed = part.size() > 0;
    const std::string announced = Fetcher(client, what, part).run();
    const std::string wanted = what.sha256.empty() ? announced : what.sha256;
    const std::string found = part.hash();
    const bool right_size = what.size < 0 || part.size() == static_cast<uint64_t>(what.size);
    if (right_size && (wanted.empty() || found == wanted)) {
      part.finish_as(what.path);
      return found;
    }
    const uint64_t size = part.size();
    part.remove();
    if (resumed && again) continue;  // the part from an earlier run was damaged: once more from the start
    if (!right_size) throw Error("[pull] {}: {} bytes came, {} were announced: removed", what.label, size, what.size);
    throw Error("[pull] {}: wrong SHA-256 {}, expected {}: removed", what.label, found, wanted);
  }
}

}  // namespace ingot
