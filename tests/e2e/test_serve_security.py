"""What the server gives away, to whom it answers, and what it may do: Host, CORS, bodies, sandbox."""
import json
import os
import re
import shutil
import socket
import subprocess
import unittest

import models
import serving
import support


class Hosts(serving.ToyCase):
    def test_no_cors_and_no_foreign_host(self):
        own = f"127.0.0.1:{self.server.port}"
        for host in (own, "localhost", f"localhost:{self.server.port}"):
            answer = self.server.get("/v1/models", headers={"host": host})
            self.assertEqual(answer.status, 200, host)
        for host in ("evil.example", "127.0.0.1.evil.example", "10.1.2.3:80"):
            answer = self.server.get("/v1/models", headers={"host": host})
            self.assertEqual(answer.status, 403, host)
        for origin in ("http://evil.example", "null", "https://127.0.0.1.evil.example"):
            for method, path in (("GET", "/v1/models"), ("POST", "/v1/completions"), ("OPTIONS", "/v1/completions")):
                answer = self.server.request(method, path, "{}" if method == "POST" else None,
                                             headers={"origin": origin})
                self.assertEqual(answer.status, 403, f"{method} {path} {origin}")
                self.assertFalse([name for name in answer.headers if name.startswith("access-control")])
        same = self.server.get("/v1/models", headers={"host": own, "origin": f"http://{own}"})
        self.assertEqual(same.status, 200)
        self.assertNotIn("access-control-allow-origin", same.headers)

    def test_cors_where_it_was_asked_for(self):
        with serving.Server(self.model, "--cors", "https://app.example") as server:
            headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
            answer = server.request("OPTIONS", "/v1/chat/completions", headers=headers)
            self.assertEqual(answer.status, 204)
            self.assertEqual(answer.headers["access-control-allow-origin"], "https://app.example")
            answer = server.get("/v1/models", headers={"origin": "https://app.example"})
            self.assertEqual(answer.headers["access-control-allow-origin"], "https://app.example")
            self.assertEqual(server.get("/v1/models", headers={"origin": "https://evil.example"}).status, 403)

    def bad_requests(self):
        """(method, path, body): wrong in as many ways as there are layers."""
        yield "GET", "/../../etc/passwd", None
        yield "GET", "/nowhere", None
        yield "DELETE", "/v1/models", None
        yield "GET", "/v1/models/%2e%2e%2fetc%2fpasswd", None
        yield "DELETE", "/v1/responses/%2e%2e%2fetc%2fpasswd", None
        yield "GET", "/v1/responses/../../etc/passwd", None
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/tokenize",
                     "/detokenize", "/v1/messages/count_tokens"):
            for body in ("", "{", "[]", "nul", '{"model": 3}', '{"model": "../../etc/passwd"}', '{"a": 1, "a": 2}',
                         "[" * 1000, '{"messages": [{"role": "user", "content": "x"}], "n": 1e99}', "\xff\xfe",
                         json.dumps({"messages": [{"role": "x" * 1000, "content": None}], "prompt": [-1]})):
                yield "POST", path, body.encode("latin-1")

    def test_no_address_path_or_stack_in_bodies(self):
        for method, path, body in self.bad_requests():
            answer = self.server.request(method, path, body)
            self.assertTrue(400 <= answer.status < 500, f"{method} {path} {body}: {answer.status}")
            self.assertIsNone(serving.INSIDE.search(answer.body), f"{method} {path} {body}: {answer.body[:500]}")
            self.assertNotIn(os.fsencode(self.directory.name), answer.body)
        for path in ("/v1/models", "/v1/limits", "/v1/engine", "/metrics", "/health"):
            answer = self.server.get(path)
            self.assertEqual(answer.status, 200)
            self.assertIsNone(re.search(rb"0x[0-9a-f]{6,}|/(?:work|home|root|tmp|usr|proc)/", answer.body), path)
        self.assert_alive()


# What a kernel without seccomp answers.
REFUSE_SECCOMP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_seccomp) {
    errno = ENOSYS;
    return -1;
  }
  long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"""
# Tells of each file of the model whether a filter was in force when it was opened.
TELL_SECCOMP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int tell(const char* name, const char* path, int flags, int mode) {
  int (*real)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, name);
  if (strstr(path, "/tiny/")) {
    char status[8192], line[1024];
    int fd = real("/proc/thread-self/status", O_RDONLY);
    long n = fd < 0 ? 0 : read(fd, status, sizeof status - 1);
    status[n < 0 ? 0 : n] = 0;
    if (fd >= 0) close(fd);
    const char* at = strstr(status, "Seccomp:\t");
    int size = snprintf(line, sizeof line, "opened %s seccomp %c\n", path, at ? at[9] : '?');
    (void)!write(2, line, (size_t)size);
  }
  return real(path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = va_arg(list, int);
  va_end(list);
  return tell("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = va_arg(list, int);
  va_end(list);
  return tell("open64", path, flags, mode);
}
"""


class Sandbox(serving.ToyCase):
    def test_the_suites_servers_have_it(self):
        """Of every option: none may hide that a server runs without."""
        if not serving.has_sandbox():
            self.skipTest("this build or kernel has no sandbox")
        with serving.Server(self.model, "--log", "off") as server:
            self.assertEqual(support.status_of(server.pid)["Seccomp"], "2")
        self.assertEqual(serving.has_sandbox(), "no sandbox" not in self.server.errors())

    def test_no_new_rights_and_a_filter_on_every_thread(self):
        if not serving.has_sandbox():
            self.skipTest("this build or kernel has no sandbox")
        self.assertEqual(support.status_of(self.server.pid)["NoNewPrivs"], "1")
        tasks = os.listdir(f"/proc/{self.server.pid}/task")
        self.assertGreater(len(tasks), 2)
        for task in tasks:
            self.assertEqual(support.status_of(f"{self.server.pid}/task/{task}")["Seccomp"], "2", task)
        self.chat()
        self.assertEqual(self.server.get("/metrics").status, 200)

    def test_the_suites_server_is_nobody(self):
        """The servers of all suites run as another user where the tests run as root."""
        command, why_not = support.nobody()
        if not command:
            self.skipTest(why_not)
        status = support.status_of(self.server.pid)
        self.assertEqual(set(status["Uid"].split() + status["Gid"].split()), {str(support.NOBODY)})
        self.assertEqual(status["Groups"].split(), [])
        self.assertEqual(status["CapEff"], "0" * 16)

    def test_two_filters_and_none_is_an_error_where_it_is_required(self):
        if not serving.has_sandbox():
            self.skipTest("this build or kernel has no sandbox")
        filters = support.status_of(self.server.pid).get("Seccomp_filters")
        if filters is not None:
            self.assertEqual(int(filters), 2)
        with serving.Server(self.model, "--require-sandbox") as server:
            self.assertEqual(server.get("/health").status, 200)
        self.assert_fails(support.run("serve", self.model, "--no-sandbox", "--require-sandbox"), 2)

    def test_a_sandbox_that_fails_is_an_error_where_it_is_required(self):
        """Seccomp is refused by a filter that is there already."""
        library = self.preload(REFUSE_SECCOMP)
        env = {"LD_PRELOAD": library}
        with serving.Server(self.model, env=env) as server:
            self.assertEqual(server.get("/health").status, 200)
            self.assertIn("no sandbox", server.errors())
        result = support.run("serve", self.model, "--port", "0", "--require-sandbox", env=env)
        self.assert_fails(result, 1, "sandbox", "seccomp")

    def test_no_byte_of_the_model_is_read_outside_of_it(self):
        """Asked of the kernel whenever a file is opened."""
        if not serving.has_sandbox():
            self.skipTest("this build or kernel has no sandbox")
        with serving.Server(self.model, env={"LD_PRELOAD": self.preload(TELL_SECCOMP)}) as server:
            told = re.findall(r"^opened (\S+) seccomp (\d)$", server.errors(), re.MULTILINE)
        names = {os.path.basename(path) for path, _ in told}
        self.assertLessEqual({"config.json", "tokenizer.json", "model.safetensors"}, names)
        self.assertEqual({path for path, state in told if state != "2"}, set())

    def preload(self, source):
        """A library that is loaded before the program."""
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
        if not compiler:
            self.skipTest("no C compiler")
        folder = self.temp_dir()
        os.chmod(folder, 0o755)
        (folder / "preload.c").write_text(source)
        built = subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "preload.so", folder / "preload.c", "-ldl"],
                               capture_output=True, text=True)
        if built.returncode != 0:
            self.skipTest(f"it cannot be compiled: {built.stderr[-300:]}")
        return str(folder / "preload.so")

    def test_another_user_on_a_read_only_root(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        for tool in ("setpriv", "unshare", "mount"):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        # The binary and the model must be readable by anybody, wherever the build lies.
        folder = support.pathlib.Path(self.directory.name)
        os.chmod(folder, 0o755)
        binary = folder / "ingot-copy"
        shutil.copy(support.BINARY, binary)
        os.chmod(binary, 0o755)
        script = ("mount --make-rprivate / && mount -o remount,ro,bind / && "
                  f"exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs {binary} "
                  f"serve {self.model} --port 0")
        probe = subprocess.run(["unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount -o remount,ro,bind /"],
                               capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest(f"a read-only root cannot be made here: {probe.stderr.strip()}")
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, "HOME": "/nonexistent"})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        self.assertIn("listening on ", line, line or process.stderr.read())
        port = int(line.rsplit(":", 1)[1])
        self.assertEqual(support.status_of(process.pid)["Uid"].split()[0], "65534")
        body = json.dumps({"prompt": "a", "max_tokens": 2})
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(
                f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:300])
        process.terminate()
        self.assertEqual(process.wait(60), 0)


class UnixSocket(support.TestCase):
    def test_a_unix_socket_inside_the_sandbox(self):
        folder = self.temp_dir()
        model = models.make_tiny(folder / "tiny")
        path = folder / "socket"
        with serving.Server(model, "--unix", path) as server:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(60)
                connection.connect(str(path))
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
            self.assertEqual(server.stop(), 0)
        self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
