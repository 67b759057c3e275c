"""Checks deploy/: files are well formed, agree with the sources and with each other, and pass the tools that are here.

Tools that are used where they are installed: promtool, systemd-analyze; from build/venv: PyYAML, kubernetes-validate.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
BINARY = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build/release/ingot"))
sys.path += sorted(str(path) for path in (ROOT / "build/venv/lib").glob("python3*/site-packages"))


def source(*parts):
    return "".join(path.read_text() for path in sorted(ROOT.glob("/".join(parts))))


def metric_names():
    """Names of series that the server's sources write, histograms with their suffixes."""
    names = set()
    for call, name in re.findall(r'\b(\w+)\(out, "((?:ingot|process)_\w+)"', source("src/serve/metrics*.cpp")):
        names |= {name + suffix for suffix in ("_bucket", "_sum", "_count")} if call == "histogram" else {name}
    return names


def tool(name):
    path = shutil.which(name)
    if not path:
        raise unittest.SkipTest(f"{name} is not installed")
    return path


class DeployCase(unittest.TestCase):
    def run_tool(self, name, *args, cwd=None):
        done = subprocess.run([tool(name), *map(str, args)], capture_output=True, text=True, timeout=120, cwd=cwd)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def yaml(self, path):
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed (tools/make_test_venv.py)")
        return list(yaml.safe_load_all(path.read_text()))

    def assert_options_exist(self, words):
        known = set(re.findall(r'"(--[\w-]+)', source("src/cli/serve*.cpp") + source("src/cli/engine_options.cpp")))
        for word in words:
            if word.startswith("--"):
                self.assertIn(word.split("=")[0], known, "ingot serve has no such option")


class Container(DeployCase):
    def setUp(self):
        text = (DEPLOY / "Dockerfile").read_text()
        text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
        lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
        starts = [i for i, (word, _) in enumerate(lines) if word == "FROM"]
        self.build, self.image = lines[: starts[1]], lines[starts[1] :]
        self.assertEqual(len(starts), 2)

    def last(self, word):
        return [rest for name, rest in self.image if name == word][-1]

    def test_it_runs_as_an_unprivileged_user_in_exec_form(self):
        self.assertRegex(self.last("USER"), r"^[1-9]\d{3,}:[1-9]\d{3,}$")
        self.assertEqual(json.loads(self.last("ENTRYPOINT")), ["/usr/local/bin/ingot"])
        command = json.loads(self.last("CMD"))
        self.assertEqual(command[0], "serve")
        self.assert_options_exist(command)

    def test_what_it_copies_is_there_and_not_ignored(self):
        ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
        for word, rest in self.build:
            if word == "COPY":
                for name in rest.split()[:-1]:
                    self.assertTrue((ROOT / name).exists(), name)
                    self.assertIn(f"!{name}", ignored)
        self.assertIn("--from=build", self.last("COPY"))

    def test_the_launcher_needs_no_package_that_the_image_does_not_install(self):
        launcher = re.search(r"run_packages=\(([^)]*)\)", (ROOT / "ingot").read_text())[1].split()
        installed = " ".join(rest for word, rest in self.build if word == "RUN").split()
        for package in launcher:
            if package not in ("ca-certificates", "python3-pip"):  # for fetching models, not for building
                self.assertIn(package, installed)

    def test_the_image_has_every_library_that_the_program_links(self):
        if not BINARY.exists():
            self.skipTest(f"{BINARY.name} is not built (INGOT_BIN)")
        needed = re.findall(r"NEEDED\s+(?:.*\[)?([\w.+-]+\.so[\w.]*)", self.run_tool("objdump", "-p", BINARY))
        self.assertTrue(needed)
        release = pathlib.Path("/etc/os-release").read_text()
        if "VERSION_ID=\"12\"" not in release or "ID=debian" not in release:
            self.skipTest("packages have other names than in Debian 12, the image's system")
        installed = " ".join(rest for word, rest in self.image if word == "RUN").split()
        always = {"libc6", "libgcc-s1", "libstdc++6"}  # of every Debian
        for library in needed:
            owners = {line.split(":")[0] for line in self.run_tool("dpkg", "-S", f"*/{library}").splitlines()}
            self.assertTrue(owners & (always | set(installed)), f"{library} of {owners}")

    def test_the_health_check_tells_a_good_server_from_a_bad_one(self):
        command = json.loads(re.search(r"CMD (\[.*)$", self.last("HEALTHCHECK"))[1])
        for status, wanted in ((200, True), (503, False)):
            with self.subTest(status):
                self.assertEqual(self.probe(command, status), wanted)

    def probe(self, command, status):
        import http.server
        import threading

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status if self.path == "/health" else 404)
                self.end_headers()

            def log_message(self, *args):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            here = [word.replace("/8080", f"/{server.server_port}") for word in command]
            self.assertNotEqual(here, command)
            return subprocess.run(here, timeout=60, capture_output=True).returncode == 0
        finally:
            server.shutdown()
            server.server_close()


class Systemd(DeployCase):
    unit = DEPLOY / "systemd/ingot.service"

    def test_the_unit_is_valid(self):
        tool("systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / self.unit.name
            # The program need not be installed here.
            copy.write_text(self.unit.read_text().replace("/usr/local/bin/ingot", "/bin/true"))
            said = self.run_tool("systemd-analyze", "verify", "--man=no", copy)
        self.assertNotIn(self.unit.name, said)

    def test_it_is_locked_down(self):
        said = self.run_tool("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", self.unit)
        self.assertIn("Overall exposure level", said)

    def test_calls_that_the_server_makes_are_allowed(self):
        """Of the groups that are taken away again, what the sources use: a call that fails is not noticed otherwise."""
        text = self.unit.read_text()
        taken = text.index("SystemCallFilter=~@privileged @resources")
        allowed = " ".join(re.findall(r"^SystemCallFilter=([^~\n]+)$", text[taken:], re.MULTILINE)).split()
        resources = ("ioprio_set", "mbind", "nice", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
                     "set_mempolicy", "setpriority", "setrlimit")
        files = [path for folder in ("base", "engine", "serve") for path in (ROOT / "src" / folder).rglob("*.cpp")
                 if not path.name.endswith("_test.cpp")]
        code = "".join(path.read_text() for path in files)
        used = {name for name in resources if re.search(rf"(?<![\w.]){name}\(", code)}
        self.assertLessEqual({"sched_setaffinity", "setpriority"}, used)
        self.assertLessEqual(used, set(allowed))

    def test_it_waits_longer_than_the_drain(self):
        text = self.unit.read_text()
        drain = re.search(r"drain_seconds = (\d+)", source("src/cli/serve*.cpp"))
        if drain is None:
            self.skipTest("the default of --drain is written elsewhere")
        self.assertGreater(int(re.search(r"TimeoutStopSec=(\d+)", text)[1]), int(drain[1]))
        self.assertNotIn("ExecStop", text)


class Kubernetes(DeployCase):
    folder = DEPLOY / "kubernetes"

    def objects(self):
        [kustomization] = self.yaml(self.folder / "kustomization.yaml")
        listed = sorted(kustomization["resources"])
        self.assertEqual(listed, sorted(p.name for p in self.folder.glob("*.yaml") if p.name != "kustomization.yaml"))
        return {item["kind"]: item for name in listed for item in self.yaml(self.folder / name)}

    def test_objects_agree_with_the_schema(self):
        objects = self.objects()
        try:
            import kubernetes_validate
        except ImportError:
            self.skipTest("kubernetes-validate is not installed (tools/make_test_venv.py)")
        for item in objects.values():
            kubernetes_validate.validate(item, kubernetes_validate.latest_version(), strict=True)

    def test_objects_agree_with_each_other(self):
        objects = self.objects()
        template = objects["Deployment"]["spec"]["template"]
        labels = template["metadata"]["labels"]
        for selector in (
            objects["Deployment"]["spec"]["selector"]["matchLabels"],
            objects["Service"]["spec"]["selector"],
            objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        ):
            self.assertEqual(selector, labels)
        [server] = template["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in server["ports"]}
        self.assertIn(f"--port={ports['http']}", server["args"])
        self.assertEqual(objects["Service"]["spec"]["ports"][0]["targetPort"], "http")
        self.assertEqual(objects["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"], ports["http"])
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        for container in template["spec"]["containers"] + template["spec"]["initContainers"]:
            for mount in container["volumeMounts"]:
                self.assertIn(mount["name"], volumes)
            self.assertEqual(container["image"], server["image"])
        claim = volumes["models"]["persistentVolumeClaim"]["claimName"]
        self.assertEqual(claim, objects["PersistentVolumeClaim"]["metadata"]["name"])

    def test_the_server_is_started_asked_and_stopped_rightly(self):
        spec = self.objects()["Deployment"]["spec"]["template"]["spec"]
        [server] = spec["containers"]
        [pull] = spec["initContainers"]
        self.assertEqual((server["args"][0], pull["args"][0]), ("serve", "pull"))
        self.assertEqual(server["args"][1], pull["args"][1])
        self.assert_options_exist(server["args"])
        self.assertIn("--require-sandbox", server["args"])
        routes = source("src/serve/routes*.cpp")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            get = server[probe]["httpGet"]
            self.assertEqual(get["port"], "http")
            self.assertIn(f'"{get["path"]}"', routes)
        drain = next(int(arg.split("=")[1]) for arg in server["args"] if arg.startswith("--drain="))
        pause = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
        self.assertGreater(spec["terminationGracePeriodSeconds"], drain + pause)
        self.assertTrue(spec["securityContext"]["runAsNonRoot"])
        user = spec["securityContext"]["runAsUser"]
        self.assertIn(f"USER {user}:", (DEPLOY / "Dockerfile").read_text())
        for container in (server, pull):
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
            self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
            self.assertEqual(container["securityContext"]["capabilities"]["drop"], ["ALL"])
            self.assertIn("memory", container["resources"]["limits"])


    def test_the_model_is_pinned_and_checked(self):
        objects = self.objects()
        spec = objects["Deployment"]["spec"]["template"]["spec"]
        [server], [pull] = spec["containers"], spec["initContainers"]
        self.assertRegex(" ".join(pull["args"]), r" --revision=[0-9a-f]{40}$")
        path = next(arg.split("=")[1] for arg in server["args"] if arg.startswith("--verify="))
        mount = next(mount for mount in server["volumeMounts"] if path.startswith(mount["mountPath"] + "/"))
        volume = next(volume for volume in spec["volumes"] if volume["name"] == mount["name"])
        self.assertEqual(volume["configMap"]["name"], objects["ConfigMap"]["metadata"]["name"])
        manifest = json.loads(objects["ConfigMap"]["data"][path.rsplit("/", 1)[1]])
        self.assertEqual(manifest["ingot_manifest"], 1)
        names = [file["name"] for file in manifest["files"]]
        self.assertLessEqual({"config.json", "tokenizer.json", "model.safetensors"}, set(names))
        for file in manifest["files"]:
            self.assertRegex(file["sha256"], r"^[0-9a-f]{64}$")
            self.assertEqual(sum(region["bytes"] for region in file["regions"]), file["bytes"])

    def test_the_sandbox_is_required_everywhere(self):
        self.assertIn("ingot serve --require-sandbox ", (DEPLOY / "systemd/ingot.service").read_text())
        command = re.search(r"^CMD (\[.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[1]
        self.assertIn("--require-sandbox", json.loads(command))
        self.assertIn('serve "$model" --require-sandbox ', (DEPLOY / "slurm/ingot.sbatch").read_text())


class Monitoring(DeployCase):
    def expressions(self):
        """(where, expression) of the dashboard."""
        dashboard = json.loads((DEPLOY / "grafana/ingot.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                yield panel["title"], target["expr"]

    def test_every_series_that_is_asked_for_exists(self):
        known = metric_names()
        self.assertGreater(len(known), 30)
        alerts = (DEPLOY / "prometheus/alerts.yaml").read_text() + (DEPLOY / "prometheus/alerts_test.yaml").read_text()
        for where, text in [*self.expressions(), ("alerts", alerts)]:
            for name in re.findall(r"\b(?:ingot|process)_\w+", text):
                self.assertIn(name, known, where)

    def test_labels_that_are_asked_for_exist(self):
        written = source("src/serve/metrics*.cpp")
        asked = " ".join(text for _, text in self.expressions()) + (DEPLOY / "prometheus/alerts.yaml").read_text()
        for label in set(re.findall(r"by \((\w+)\)", asked)) - {"le", "instance"}:
            self.assertRegex(written, rf'"{label}"|{label}=')
        for _, value in re.findall(r'(reason|status)="(\w+)"', asked):
            self.assertIn(value.replace("5xx", "xx"), written)

    def test_the_dashboard_is_laid_out(self):
        dashboard = json.loads((DEPLOY / "grafana/ingot.json").read_text())
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells

    def test_expressions_are_valid(self):
        rules = []
        for number, (_, text) in enumerate(self.expressions()):
            plain = text.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", ".*")
            rules.append(f"      - {{record: 'panel:{number}', expr: {json.dumps(plain)}}}")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rules.yaml"
            file.write_text("groups:\n  - name: dashboard\n    rules:\n" + "\n".join(rules) + "\n")
            self.assertIn(f"{len(rules)} rules found", self.run_tool("promtool", "check", "rules", file))

    def test_alerts_and_scraping(self):
        folder = DEPLOY / "prometheus"
        self.assertIn("SUCCESS", self.run_tool("promtool", "check", "rules", folder / "alerts.yaml"))
        self.assertIn("SUCCESS", self.run_tool("promtool", "test", "rules", folder / "alerts_test.yaml"))
        self.run_tool("promtool", "check", "config", "--syntax-only", folder / "prometheus.yaml")


if __name__ == "__main__":
    unittest.main()
