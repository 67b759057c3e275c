// ingot serve [MODEL]: the OpenAI server and the web page.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>

#include "app/device.h"
#include "app/server_options.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/hub/cache.h"
#include "cli/sampling_options.h"
#include "cli/serve_signals.h"
#include "cli/session.h"
#include "cli/strings.h"
#include "comm/world.h"
#include "serve/sandbox/sandbox.h"
#include "serve/server.h"

namespace ingot {

namespace {

struct Options {
  SessionOptions session = {.model = {}, .open = server_options(), .common = {}};
  ModelNames names = {.unlisted = {kDefaultModel}};  // of the model, for clients
  ServerOptions server;
  std::string log = "stderr";
  double drain_seconds = 30;
  bool no_sandbox = false;
  bool require_sandbox = false;
};

// A closed pipe or a file at its limit makes a write fail, and nothing else.
void ignore_failed_writes() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// Bodies and answers go back to the system when they end. By itself the allocator would take blocks as large as those
// that were freed before from its arenas, and keep them there: 100 MiB after twenty answers of 12 MiB.
void return_large_blocks() { ::mallopt(M_MMAP_THRESHOLD, 512 << 10); }

// Where the libraries of a device write: the devices themselves, names of threads, and the choices and compiled kernels
// that they keep.
std::vector<std::string> device_folders() {
  std::vector<std::string> folders = {"/dev", "/proc/self"};
  const std::string home = environment("HOME");
  std::string cache = environment("XDG_CACHE_HOME");
  if (!cache.starts_with('/')) cache = home.empty() ? "" : home + "/.cache";
  if (!home.empty()) folders.push_back(home + "/.nv");
  if (cache.empty()) return folders;
  folders.push_back(cache + "/ingot");
  std::error_code ignored;
  std::filesystem::create_directories(folders.back(), ignored);
  return folders;
}

void tell(Server& server, const Options& options, const char* what, const std::string& why) {
  if (why.empty()) return;
  if (options.require_sandbox) throw Error("[sandbox] {}: {}", what, why);
  server.log().warning(what, {{"why", why}});
}

SandboxOptions sandbox_options(const Options& options, bool device) {
  // MPI removes its files of shared memory at the end.
  return {.unlink = !options.server.http.unix_socket.empty() || World::joined() != nullptr,
          .device = device,
          .writable = device ? device_folders() : std::vector<std::string>()};
}

// A rank above 0: it listens to rank 0 alone, and is closed in the same two stages.
int follow(Options& options) {
  const auto demand = [required = options.require_sandbox](const char* what, const std::string& why) {
    if (!why.empty() && required) throw Error("[sandbox] {}: {}", what, why);
  };
  if (!options.no_sandbox) {
    const SandboxOptions sandbox = sandbox_options(options, false);
    demand("no sandbox while the model is loaded", enter_loading_sandbox(sandbox));
    options.session.open.on_follow = [=] { demand("no sandbox", enter_sandbox(sandbox)); };
  }
  open_session(options.session);
  return 0;
}

int run(Options options) {
  options.session.model = resolve_model(options.session.model);
  const std::string key = environment("INGOT_API_KEY");
  if (!key.empty()) options.server.keys.keys.push_back(key);
  options.server.log.path = options.log == "stderr" ? "" : options.log;
  OpenOptions& open = options.session.open;
  set_device_defaults(open);
  options.server.max_in_flight = open.engine.max_seqs + open.engine.max_waiting;
  options.server.version = INGOT_VERSION;

  ignore_failed_writes();
  return_large_blocks();
  if (World* const world = World::joined(); world != nullptr && world->rank() > 0) return follow(options);
  ServeSignals signals(options.drain_seconds);  // before any thread: all inherit that signals are its alone
  Server server(options.server);
  std::atomic<const Engines*> engines{nullptr};
  open.on_step = [&](const StepFacts& step) {
    server.on_step(step);
    // Who is in flight is told, step by step, and then nobody can be answered any more.
    const Engines* const running = engines.load();
    if (running != nullptr && !running->lost().empty() && engines.exchange(nullptr) != nullptr) signals.drain();
  };
  // Before the first byte of the model is read, which may be anybody's.
  const SandboxOptions sandbox = sandbox_options(options, choose_device(open.device, open.ref) >= 0);
  if (!options.no_sandbox)
    tell(server, options, "no sandbox while the model is loaded", enter_loading_sandbox(sandbox));
  Session session = open_session(options.session);
  std::string template_error;
  const ServedModel model = served_model(session, options.names, template_error);
  server.set_model(model);
  if (!template_error.empty()) {
    server.log().warning("the chat template cannot be used", {{"why", template_error}});
  }
  if (!options.no_sandbox) tell(server, options, "no sandbox", enter_sandbox(sandbox));
  signals.begin(server);  // before the line that tells others to come: who reads it may send a signal at once
  engines = &session.engines();
  fmt::print("ingot: listening on {}\n", server.address());
  std::fflush(stdout);
  const DeviceUse device = session.engine().device();
  JsonObject facts{{"address", server.address()},
                   {"model", model.name},
                   {"device", device.name.empty() ? "cpu" : device.name},
                   {"engines", session.engines().size()},
                   {"load_ms", static_cast<int64_t>(session.load_seconds() * 1e3)}};
  if (!device.name.empty()) {
    facts["graphs"] = device.graphs;
    facts["graphs_ms"] = static_cast<int64_t>(device.graph_seconds * 1e3);
  }
  server.log().info("ready", std::move(facts));
  server.run();
  engines = nullptr;  // a step that is lost from here on signals nobody
  signals.end();
  server.log().info("stopped");
  if (const std::string lost = session.engines().lost(); !lost.empty()) {
    World* const world = World::joined();
    if (world == nullptr || !world->tell(lost)) fmt::print(stderr, "ingot: {}\n", lost);
    std::fflush(nullptr);
    if (world != nullptr) world->leave(1);
    std::_Exit(1);  // a rank that hangs would not be joined
  }
  return 0;
}

void add_address_options(CLI::App& app, Options& options) {
  HttpOptions& http = options.server.http;
  app.add_option("--host", http.host, "Address to bind (127.0.0.1); others need a key")->type_name("ADDRESS");
  app.add_option("--port", http.port, "Port (8080); 0: any free one")->check(integer_in(0, 65535))->type_name("N");
  app.add_option("--unix", http.unix_socket, "Listen on a Unix socket instead")->type_name("PATH");
  app.add_option("--tls-cert", http.tls_cert, "Certificate chain, PEM: serves HTTPS")->type_name("FILE");
  app.add_option("--tls-key", http.tls_key, "Its private key, PEM")->type_name("FILE");
  app.add_option("--api-key-file", options.server.keys.file, "Tenants: lines NAME KEY [weight=X] [tpm=N] [rpm=N] …")
      ->type_name("FILE");
  app.add_option("--allow-host", options.server.allowed_hosts, "A further name that clients may call it by")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_option("--cors", options.server.cors_origin, "Pages of this origin may call it; *: any")->type_name("ORIGIN");
}

void add_engine_limits(CLI::App& app, Options& options) {
  add_engine_options(app, OptionsOf::kServer, options.session.open);
  app.add_option("--name", options.names.name, "The model's name for clients; --alias: a further one")
      ->type_name("NAME");
  app.add_option("--alias", options.names.aliases)->allow_extra_args(false)->group("");
}

// Kept out of the list of --help; the footer names them.
void add_rare_options(CLI::App& app, Options& options) {
  HttpLimits& limits = options.server.http.limits;
  const auto seconds = [&app](const char* name, double& value) {
    app.add_option(name, value)->check(number_in(0.01, 1e6))->group("");
  };
  seconds("--header-timeout", limits.header_seconds);
  seconds("--body-timeout", limits.body_seconds);
  seconds("--idle-timeout", limits.idle_seconds);
  seconds("--write-timeout", limits.write_seconds);
  seconds("--watchdog", options.server.watchdog_seconds);
  seconds("--queue-timeout", options.server.queue_seconds);
  seconds("--request-timeout", options.server.request_seconds);
  app.add_option("--max-connections", limits.connections)->check(integer_in(1, 1 << 20))->group("");
  app.add_option("--max-connections-per-address", limits.address_connections)->check(integer_in(0, 1 << 20))->group("");
  const auto bytes = [&app](const char* name, size_t& value) {
    app.add_option(name, value)
        ->transform(CLI::AsSizeValue(false).description(""))
        ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 50).description(""))
        ->group("");
  };
  bytes("--min-rate", limits.min_rate);
  bytes("--max-bodies", limits.bodies_bytes);
  bytes("--max-unsent", limits.answers_bytes);
  bytes("--store-responses", options.server.response_bytes);
  app.add_option("--max-body", limits.body_bytes)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(uint64_t{1} << 10, uint64_t{1} << 30).description(""))
      ->group("");
  app.add_option("--max-log", options.server.log.max_bytes)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 50).description(""))
      ->group("");
  app.add_option("--usage-log-bytes", options.server.usage_log.max_bytes)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 50).description(""))
      ->group("");
  for (CLI::Option* option : add_engine_options(app, OptionsOf::kServerHidden, options.session.open)) option->group("");
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->session.model, "The model (default: the default one)")->type_name("");
  add_address_options(app, *options);
  add_engine_limits(app, *options);
  app.add_option("--drain", options->drain_seconds, "Seconds that requests under way get at the end (30)")
      ->check(number_in(0, 1e6))
      ->type_name("S");
  app.add_option("--log", options->log, "A file, stderr or off")->type_name("FILE");
  app.add_flag("--log-json", options->server.log.json, "The log as lines of JSON");
  CLI::Option* const usage =
      app.add_option("--usage-log", options->server.usage_log.path, "A file that gets a line of JSON for each request");
  usage->type_name("FILE");
  app.add_flag("--usage-required", options->server.usage_log.required, "503 where that line cannot be written")
      ->needs(usage);
  CLI::Option* none = app.add_flag("--no-sandbox", options->no_sandbox, "Keep all system calls");
  app.add_flag("--require-sandbox", options->require_sandbox, "Do not serve where there is no sandbox")->excludes(none);
  add_rare_options(app, *options);
  add_session_options(app, options->session);
  return [options] { return run(*options); };
}

constexpr const char* kExample =
    "ingot serve --port 8080\n  curl localhost:8080/v1/chat/completions -d "
    "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n\n"
    "A single key may come in INGOT_API_KEY. Further limits, see docs/serving.md: --max-body, --max-connections,\n"
    "--max-connections-per-address, --max-bodies, --max-unsent, --min-rate, --header-, --body-, --idle-, --write-,\n"
    "--queue- and --request-timeout, --max-log, --usage-log-bytes, --watchdog, --gap-ms, --step-rows, "
    "--store-responses.";

}  // namespace

const Command kServeCommand = {"serve", "The OpenAI API and a web page over HTTP", kExample, setup};

}  // namespace ingot
