"""A Slurm cluster of two nodes on this machine, for the time of a test: munge, a controller and two slurmd, each node
with a network, processes, a host name and a /dev/shm of its own. Needs root, Debian's packages and iproute2."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("srun", "sbatch", "slurmctld", "slurmd", "munged", "mungekey", "ip", "unshare", "nsenter")
HEAD, NODES = "10.77.0.254", {"node1": "10.77.0.1", "node2": "10.77.0.2"}
CLONE_NEWNET = 0x40000000

CONFIG = """
ClusterName=ingot
SlurmctldHost=head({head})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
TmpFS={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing():
    """Why there can be no cluster here; empty where there can."""
    lacks = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
    if lacks:
        return f"{lacks[0]} is not installed"
    if os.geteuid() != 0:
        return "only root can make nodes"
    probe = "ip link add probe0 type veth peer name probe1 && ip link add probe2 type bridge"
    made = subprocess.run(["unshare", "--net", "--uts", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c", probe],
                          capture_output=True, text=True, env={**os.environ, "PATH": search_path()})
    return "" if made.returncode == 0 else f"no nodes can be made: {made.stderr.strip()}"


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class Cluster:
    """`environment` is what srun, sbatch and others need; run them by `popen`."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ingot-slurm-"))
        self.folder.chmod(0o755)
        self.environment = {"PATH": search_path(), "SLURM_CONF": str(self.folder / "slurm.conf"),
                            "TMPDIR": str(self.folder / "tmp")}
        self.started = []
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self):
        for name in ("state", "tmp", *NODES):
            (self.folder / name).mkdir()
        nodes = "\n".join(f"NodeName={name} NodeAddr={address} CPUs=2 Sockets=1 CoresPerSocket=2" for name, address in NODES.items())
        (self.folder / "slurm.conf").write_text(CONFIG.format(head=HEAD, folder=self.folder, nodes=nodes))
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in {"head": HEAD, **NODES}.items()))
        self.head = self._namespaces("head", "")
        self._ip("link", "add", "nodes", "type", "bridge")
        self._ip("addr", "add", f"{HEAD}/24", "dev", "nodes")
        self._ip("link", "set", "nodes", "up")
        self._munge()
        self.daemon("slurmctld", "-D")
        self.nodes = {}
        for number, (name, address) in enumerate(NODES.items()):
            up = f"ip addr add {address}/24 dev eth0 && ip link set eth0 up && slurmd -D & wait"
            holder = self._namespaces(name, f"mount -t tmpfs -o size=512m tmpfs /dev/shm; read go; {up}")
            inner = int(pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text())
            self._ip("link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", str(inner))
            self._ip("link", "set", f"port{number}", "master", "nodes", "up")
            holder.stdin.write(b"go\n")
            holder.stdin.flush()
            self.nodes[name] = inner
        self._await_nodes()

    def _namespaces(self, name, then):
        """A process in namespaces of its own that holds them. The head shares this machine's processes."""
        own = ["--pid", "--fork", "--kill-child", "--mount-proc"] if then else []
        script = (f"hostname {name} && mount --bind {self.folder}/hosts /etc/hosts && ip link set lo up && echo ready; "
                  + (then or "exec sleep infinity"))
        log = open(self.folder / f"{name}.start", "wb")
        holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", *own, "sh", "-c", script],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                  env={**os.environ, **self.environment})
        log.close()
        self.started.append(holder)
        if holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{name}: " + (self.folder / f"{name}.start").read_text())
        return holder

    def _ip(self, *words):
        subprocess.run(self.inside("ip", *words), check=True, env={**os.environ, **self.environment})

    def _munge(self):
        key, place = self.folder / "munge.key", self.folder / "munge.socket"
        subprocess.run(["mungekey", "--create", f"--keyfile={key}"], check=True,
                       env={**os.environ, **self.environment})
        self.daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={place}",
                    f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                    f"--seed-file={self.folder}/munged.seed")
        self.until(place.exists, 10, "munge")

    def _await_nodes(self):
        def idle():
            seen = self.run("sinfo", "--noheader", "--format=%T %D")
            return seen.stdout.split() == ["idle", "2"]
        self.until(idle, 30, "nodes")

    def until(self, holds, seconds, what):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in self.folder.glob("*.log"))
                raise RuntimeError(f"no {what} after {seconds} s\n{logs}")
            time.sleep(0.1)

    def inside(self, *command):
        """The command, on the head."""
        return ["nsenter", f"--target={self.head.pid}", "--net", "--uts", "--mount", *map(str, command)]

    def daemon(self, *command):
        log = open(self.folder / f"{command[0]}.start", "wb")
        self.started.append(subprocess.Popen(self.inside(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env={**os.environ, **self.environment}))
        log.close()

    def popen(self, *command, env=None, **options):
        return subprocess.Popen(self.inside(*command), env={**os.environ, **self.environment, **(env or {})},
                                **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                                   "text": True, **options})

    def run(self, *command, env=None, timeout=60):
        return subprocess.run(self.inside(*command), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, **self.environment, **(env or {})}, timeout=timeout)

    def shared_memory(self):
        """What lies in /dev/shm of each node."""
        return {name: sorted(os.listdir(f"/proc/{inner}/root/dev/shm")) for name, inner in self.nodes.items()}

    @contextlib.contextmanager
    def without_link(self, node):
        """Meanwhile the node reaches nobody, and nobody it."""
        port = f"port{list(NODES).index(node)}"
        self._ip("link", "set", port, "down")
        try:
            yield
        finally:
            self._ip("link", "set", port, "up")

    @contextlib.contextmanager
    def network(self):
        """Sockets that this thread makes meanwhile are the head's."""
        libc = ctypes.CDLL(None, use_errno=True)
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        heads = os.open(f"/proc/{self.head.pid}/ns/net", os.O_RDONLY)
        try:
            if libc.setns(heads, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                libc.setns(own, CLONE_NEWNET)
        finally:
            os.close(own)
            os.close(heads)

    def connect(self, node, port, timeout):
        with self.network():
            return socket.create_connection((NODES[node], port), timeout=timeout)

    def close(self):
        """Jobs and steps end with the processes of their nodes."""
        for process in reversed(self.started):
            process.send_signal(signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)
