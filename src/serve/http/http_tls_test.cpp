// TLS and Unix sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "serve/http/http.h"
#include "serve/http/http_test_support.h"

#ifdef INGOT_TLS
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#endif

namespace ingot {
namespace {

namespace fs = std::filesystem;

class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "ingot-http-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("no folder for the test");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

HttpCallbacks streaming() {
  HttpCallbacks callbacks;
  callbacks.handle = [](HttpRequest request, std::shared_ptr<Responder> responder) {
    HttpResponse head;
    head.body = request.head.path;
    responder->start(head);
    for (int i = 0; i < 10; ++i) responder->write(request.body);
    responder->write("end");
    responder->finish();
  };
  return callbacks;
}

TEST(HttpUnix, AnswersOnASocketOfItsUserAndRemovesIt) {
  const TempFolder folder;
  HttpOptions options;
  options.unix_socket = folder.file("s");
  {
    RunningServer server(streaming(), options);
    EXPECT_EQ(server->address(), "unix:" + options.unix_socket);
    EXPECT_EQ(fs::status(options.unix_socket).permissions() & fs::perms::all,
              fs::perms::owner_read | fs::perms::owner_write);
    RawClient client(options.unix_socket);
    ASSERT_TRUE(client.connected());
    client.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab");
    EXPECT_NE(client.read_until("abend").find("200 OK"), std::string::npos);
    EXPECT_THROW(HttpServer(options, streaming()), Error);  // in use
    EXPECT_TRUE(fs::exists(options.unix_socket));
  }
  EXPECT_FALSE(fs::exists(options.unix_socket));
}

TEST(HttpUnix, ASocketThatIsLeftIsTakenOverAndAFileIsNot) {
  const TempFolder folder;
  HttpOptions options;
  options.unix_socket = folder.file("s");
  {
    // What a killed server leaves: a socket on which nobody listens.
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, options.unix_socket.c_str(), options.unix_socket.size() + 1);
    ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
  }
  RunningServer server(streaming(), options);
  EXPECT_TRUE(RawClient(options.unix_socket).connected());
  options.unix_socket = folder.file("file");
  std::ofstream(options.unix_socket) << "precious";
  EXPECT_THROW(HttpServer(options, streaming()), Error);
  EXPECT_TRUE(fs::exists(options.unix_socket));
  options.unix_socket = folder.file(std::string(200, 'a'));
  EXPECT_THROW(HttpServer(options, streaming()), Error);
}

TEST(HttpTls, FilesThatAreMissingAreNamed) {
  const TempFolder folder;
  HttpOptions options;
  options.port = 0;
  options.tls_cert = folder.file("none.pem");
  EXPECT_THROW(HttpServer(options, streaming()), Error);  // no key
  options.tls_key = folder.file("none.key");
  try {
    HttpServer server(options, streaming());
    FAIL() << "no certificate, and yet a server";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("none.pem"), std::string::npos) << error.what();
  }
}

#ifdef INGOT_TLS

template <class T, void (*kFree)(T*)>
struct Freer {
  void operator()(T* object) const { kFree(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Freer<X509, X509_free>>;
using TlsContext = std::unique_ptr<SSL_CTX, Freer<SSL_CTX, SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Freer<SSL, SSL_free>>;

// A key and a certificate that it signs itself.
Key write_certificate(const std::string& cert_path, const std::string& key_path, const char* curve) {
  Key key(EVP_EC_gen(curve));
  const Cert cert(X509_new());
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 86400);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME* name = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert.get(), name);
  X509_sign(cert.get(), key.get(), EVP_sha256());
  std::FILE* file = std::fopen(cert_path.c_str(), "w");
  PEM_write_X509(file, cert.get());
  std::fclose(file);
  file = std::fopen(key_path.c_str(), "w");
  PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  return key;
}

// Seconds that this thread has computed.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What signing takes, which is all but the whole of a handshake with such a key.
double signing_seconds(EVP_PKEY* key, int times) {
  const double before = thread_seconds();
  for (int i = 0; i < times; ++i) {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    unsigned char signature[256];
    size_t size = sizeof(signature);
    EVP_DigestSignInit(context, nullptr, EVP_sha512(), nullptr, key);
    EXPECT_EQ(EVP_DigestSign(context, signature, &size, signature, 32), 1);
    EVP_MD_CTX_free(context);
  }
  return thread_seconds() - before;
}

double io_seconds(HttpServer& server) {
  std::promise<double> seconds;
  server.post([&] { seconds.set_value(thread_seconds()); });
  return seconds.get_future().get();
}

// What a client says first.
std::string client_hello() {
  const TlsContext context(SSL_CTX_new(TLS_client_method()));
  const Ssl ssl(SSL_new(context.get()));
  BIO* const written = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), written);
  EXPECT_NE(SSL_connect(ssl.get()), 1);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(written, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

class TlsClient {
 public:
  explicit TlsClient(int port) : raw_(port), context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_.get())) {
    SSL_set_fd(ssl_.get(), raw_.fd());
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  bool connected() const { return connected_; }
  void send(std::string_view text) { SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())); }
  std::string read_until(std::string_view what) {
    char room[16384];
    while (received_.find(what) == received_.npos) {
      const int count = SSL_read(ssl_.get(), room, sizeof(room));
      if (count <= 0) break;
      received_.append(room, static_cast<size_t>(count));
    }
    return received_;
  }
  // The end was told, not cut.
  bool ended_well() { return SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN; }
  void close() { raw_.close(); }

 private:
  RawClient raw_;
  TlsContext context_;
  Ssl ssl_;
  bool connected_ = false;
  std::string received_;
};

struct TlsFiles {
  explicit TlsFiles(const char* curve = "P-256") { key = write_certificate(options.tls_cert, options.tls_key, curve); }
  Key key;
  TempFolder folder;
  HttpOptions options = [this] {
    HttpOptions result;
    result.tls_cert = folder.file("cert.pem");
    result.tls_key = folder.file("key.pem");
    return result;
  }();
};

TEST(HttpTls, AnswersKeepsAndCloses) {
  const TlsFiles files;
  RunningServer server(streaming(), files.options);
  EXPECT_TRUE(server->address().starts_with("https://127.0.0.1:"));
  TlsClient client(server.port());
  ASSERT_TRUE(client.connected());
  const std::string body(100'000, 'b');
  client.send("POST /one HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_NE(client.read_until("end").find("/one"), std::string::npos);
  client.send("GET /two HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string answers = client.read_until("no such text, so all");
  EXPECT_NE(answers.find("/twoend"), answers.npos);
  EXPECT_TRUE(client.ended_well());
  EXPECT_EQ(server->counters().requests, 2);
}

TEST(HttpTls, AClientThatGoesIsNoticed) {
  const TlsFiles files;
  std::atomic<int> gone = 0, arrived = 0;
  std::shared_ptr<Responder> kept;
  HttpCallbacks callbacks;
  callbacks.handle = [&](HttpRequest, std::shared_ptr<Responder> responder) {
    responder->on_close([&] { ++gone; });
    kept = std::move(responder);
    ++arrived;
  };
  RunningServer server(std::move(callbacks), files.options);
  TlsClient client(server.port());
  ASSERT_TRUE(client.connected());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return arrived == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
  EXPECT_TRUE(eventually([&] { return server->counters().open == 0; }));
}

TEST(HttpTls, NoHandshakeNoConnection) {
  TlsFiles files;
  files.options.limits.header_seconds = 0.2;
  RunningServer server(streaming(), files.options);
  RawClient plain(server.port()), silent(server.port());
  plain.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(plain.read_all().find("200"), std::string::npos);
  EXPECT_TRUE(plain.ended());
  silent.read_all();
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(eventually([&] { return server->counters().open == 0; }));
}

TEST(HttpTls, AKeyOfAnotherCertificateIsRefused) {
  const TlsFiles one, other;
  HttpOptions options = one.options;
  options.port = 0;
  options.tls_key = other.options.tls_key;
  EXPECT_THROW(HttpServer(options, streaming()), Error);
}

// Whoever connects without end would take it from those who are connected.
TEST(HttpTls, HandshakesAreNotComputedByTheIoThread) {
  const TlsFiles files("P-521");  // 2.6 ms of a Neoverse-V1
  RunningServer server(streaming(), files.options);
  constexpr int kClients = 20;
  const double before = io_seconds(*server);
  for (int i = 0; i < kClients; ++i) {
    TlsClient client(server.port());
    EXPECT_TRUE(client.connected());
  }
  EXPECT_LT(io_seconds(*server) - before, signing_seconds(files.key.get(), kClients) / 2);
}

// Many more than there are places: each is closed for a later one while its handshake waits for its turn, runs, or
// waits for the client.
TEST(HttpTls, HandshakesThatNobodyEndsLeaveNothingBehind) {
  TlsFiles files;
  files.options.limits.connections = 8;
  RunningServer server(streaming(), files.options);
  const std::string hello = client_hello();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(i % 3 == 0 ? hello.substr(0, hello.size() / 2) : hello);
    if (i % 5 == 0) clients.back()->reset();
  }
  TlsClient client(server.port());
  ASSERT_TRUE(client.connected());
  client.send("GET /it HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(client.read_until("end").find("/itend"), std::string::npos);
  EXPECT_GE(server->counters().gave_way, 100);
  clients.clear();
  client.close();
  EXPECT_TRUE(eventually([&] { return server->counters().open == 0; }));
}

TEST(HttpTls, AServerThatEndsAmidHandshakesEnds) {
  const TlsFiles files("P-521");
  std::vector<std::unique_ptr<RawClient>> clients;
  const std::string hello = client_hello();
  RunningServer server(streaming(), files.options);
  for (int i = 0; i < 30; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(hello);
  }
  ASSERT_TRUE(eventually([&] { return server->counters().open == 30; }));
  server.end();
  for (const auto& client : clients) {
    client->read_all();
    EXPECT_TRUE(client->ended());
  }
}

#endif

}  // namespace
}  // namespace ingot
