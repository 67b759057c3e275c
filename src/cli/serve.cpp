// ingot serve [MODEL]: the OpenAI server and the web page.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <ctime>
#include <memory>

#include "base/error.h"
#include "cli/command.h"
#include "cli/sampling_options.h"
#include "cli/serve_model.h"
#include "cli/serve_signals.h"
#include "cli/strings.h"
#include "serve/sandbox.h"
#include "serve/server.h"

namespace ingot {

namespace {

struct Options {
  ServeModelOptions model;
  ServerOptions server;
  std::string log = "stderr";
  double drain_seconds = 30;
  bool no_sandbox = false;
};

// A closed pipe or a file at its limit makes a write fail, and nothing else.
void ignore_failed_writes() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void enter(Server& server, const Options& options, bool device) {
  if (options.no_sandbox) return;
  const std::string why = enter_sandbox({.unlink = !options.server.http.unix_socket.empty(), .device = device});
  if (!why.empty()) server.log().warning("no sandbox", {{"why", why}});
}

int run(Options options) {
  options.model.session.model = resolve_model(options.model.session.model);
  const std::string key = environment("INGOT_API_KEY");
  if (!key.empty()) options.server.keys.keys.push_back(key);
  options.server.log.path = options.log == "stderr" ? "" : options.log;
  options.model = with_device_defaults(std::move(options.model));
  options.server.max_in_flight = options.model.seqs + options.model.max_queue;
  options.server.version = INGOT_VERSION;

  ignore_failed_writes();
  ServeSignals signals(options.drain_seconds);  // before any thread: all inherit that signals are its alone
  Server server(options.server);
  ServeModel model(options.model, [&server](const StepFacts& step) { server.on_step(step); });
  server.set_model(model.served());
  if (!model.template_error().empty()) {
    server.log().warning("the chat template cannot be used", {{"why", model.template_error()}});
  }
  enter(server, options, !model.served().engine->device().name.empty());
  signals.begin(server);  // before the line that tells others to come: who reads it may send a signal at once
  fmt::print("ingot: listening on {}\n", server.address());
  std::fflush(stdout);
  const DeviceUse device = model.served().engine->device();
  JsonObject facts{{"address", server.address()},
                   {"model", model.served().name},
                   {"device", device.name.empty() ? "cpu" : device.name},
                   {"load_ms", static_cast<int64_t>(model.load_seconds() * 1e3)}};
  if (!device.name.empty()) {
    facts["graphs"] = device.graphs;
    facts["graphs_ms"] = static_cast<int64_t>(device.graph_seconds * 1e3);
  }
  server.log().info("ready", std::move(facts));
  server.run();
  signals.end();
  server.log().info("stopped");
  return 0;
}

void add_address_options(CLI::App& app, Options& options) {
  HttpOptions& http = options.server.http;
  app.add_option("--host", http.host, "Address to bind (127.0.0.1); others need a key")->type_name("ADDRESS");
  app.add_option("--port", http.port, "Port (8080); 0: any free one")->check(integer_in(0, 65535))->type_name("N");
  app.add_option("--unix", http.unix_socket, "Listen on a Unix socket instead")->type_name("PATH");
  app.add_option("--tls-cert", http.tls_cert, "Certificate chain, PEM: serves HTTPS")->type_name("FILE");
  app.add_option("--tls-key", http.tls_key, "Its private key, PEM")->type_name("FILE");
  app.add_option("--api-key-file", options.server.keys.file, "Lines NAME KEY [concurrency=N] [tpm=N]")
      ->type_name("FILE");
  app.add_option("--allow-host", options.server.allowed_hosts, "A further name that clients may call it by")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_option("--cors", options.server.cors_origin, "Pages of this origin may call it; *: any")->type_name("ORIGIN");
}

void add_engine_limits(CLI::App& app, Options& options) {
  ServeModelOptions& model = options.model;
  app.add_option("--parallel", model.seqs, "Requests that run at once (16; on a GPU 256)")
      ->check(integer_in(1, 4096))
      ->type_name("N");
  app.add_option("--max-queue", model.max_queue, "Requests that may wait (256); more get 503")
      ->check(integer_in(0, 1 << 20))
      ->type_name("N");
  app.add_option("--kv-memory", model.kv_bytes, "Of the KV cache, such as 512M")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50).description(""))
      ->type_name("BYTES");
  app.add_option("--name", model.name, "The model's name for clients")->type_name("NAME");
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
  app.add_option("--max-connections", limits.connections)->check(integer_in(1, 1 << 20))->group("");
  app.add_option("--max-body", limits.body_bytes)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(uint64_t{1} << 10, uint64_t{1} << 30).description(""))
      ->group("");
  app.add_option("--max-log", options.server.log.max_bytes)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 50).description(""))
      ->group("");
  app.add_option("--gap-ms", options.model.gap_ms)->check(number_in(0, 1e6))->group("");
  app.add_option("--step-rows", options.model.step_rows)->check(integer_in(1, 1 << 16))->group("");
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model.session.model, "The model (default: the default one)")->type_name("");
  add_address_options(app, *options);
  add_engine_limits(app, *options);
  app.add_option("--drain", options->drain_seconds, "Seconds that requests under way get at the end (30)")
      ->check(number_in(0, 1e6))
      ->type_name("S");
  app.add_option("--log", options->log, "A file, stderr or off")->type_name("FILE");
  app.add_flag("--log-json", options->server.log.json, "The log as lines of JSON");
  app.add_flag("--no-sandbox", options->no_sandbox, "Keep all system calls");
  add_rare_options(app, *options);
  add_session_options(app, options->model.session);
  return [options] { return run(*options); };
}

constexpr const char* kExample =
    "ingot serve --port 8080\n  curl localhost:8080/v1/chat/completions -d "
    "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n\n"
    "A single key may come in INGOT_API_KEY. Further limits, see docs/serving.md: --max-body, --max-connections,\n"
    "--header-timeout, --body-timeout, --idle-timeout, --write-timeout, --queue-timeout, --max-log, --watchdog, "
    "--gap-ms,\n"
    "--step-rows.";

}  // namespace

const Command kServeCommand = {"serve", "The OpenAI API and a web page over HTTP", kExample, setup};

}  // namespace ingot
