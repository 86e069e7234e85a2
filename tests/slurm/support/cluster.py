"""A real Slurm of four nodes on this host, in a separate folder: munged, slurmctld and a slurmd for each node. Two of
the nodes may be in network namespaces, whose links can be cut."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "run" / "support"))
from tool import SKIPPED, free_port, free_ports, wait_for  # noqa: E402, shared with tests of runs

NODES = 4
STORE_PORTS = range(10001, 30000)  # for jobs 1 to 19999: `weft slurm` uses port 10000 + the job's number % 20000
MOST_JOBS = 60  # the most jobs of a cluster
GPUS = 8        # plain files in the place of GPUs
START_S = 30.0  # on an idle host a cluster starts in about 1.5 s
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "sinfo")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
         "OUT_OF_MEMORY")

CONFIGURATION = """# slurm.conf of a test: every path is in the test's folder
ClusterName=weft{name}
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
OverTimeLimit=0
SlurmctldTimeout=10
SlurmdTimeout=5
InactiveLimit=0
MinJobAge=300
FirstJobId={first}
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
GresTypes=gpu
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=test Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP PreemptMode=OFF
PartitionName=again Nodes=n[1-{count}] MaxTime=INFINITE State=UP PreemptMode=REQUEUE
PartitionName=ended Nodes=n[1-{count}] MaxTime=INFINITE State=UP PreemptMode=CANCEL
PartitionName=graced Nodes=n[1-{count}] MaxTime=INFINITE State=UP PreemptMode=REQUEUE GraceTime=6
PartitionName=urgent Nodes=n[1-{count}] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def need_slurm():
    """Skips the test if Slurm is missing, or if this user may not run it."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing:
        print(f"skipped: no {', '.join(missing)} here: scripts/install-deps.sh --test installs Slurm")
        sys.exit(SKIPPED)
    if os.geteuid() != 0:
        print("skipped: a Slurm of the test's own is started by root")
        sys.exit(SKIPPED)


def kill(processes):
    """Sends SIGKILL. Some processes may have ended already, since the end of one can end others."""
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def tail_of(file, lines=8):
    """The end of a log."""
    with contextlib.suppress(OSError):
        return "\n".join(pathlib.Path(file).read_text(errors="replace").splitlines()[-lines:])
    return "(no log)"


class Network:
    """Node n3 is at 10.76.0.3 and n4 at 10.76.0.4, each in a separate namespace; the host is 10.76.0.1."""

    def __init__(self, name):
        self.bridge = f"wb{name}"
        self.spaces = {3: f"weft-{name}-3", 4: f"weft-{name}-4"}
        self.links = {node: f"wl{name}{node}" for node in self.spaces}

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)

    def open(self):
        self.ip("link", "add", self.bridge, "type", "bridge")
        self.ip("address", "add", "10.76.0.1/24", "dev", self.bridge)
        self.ip("link", "set", self.bridge, "up")
        for node, space in self.spaces.items():
            self.ip("netns", "add", space)
            self.ip("-n", space, "link", "set", "lo", "up")
            self.ip("link", "add", self.links[node], "type", "veth", "peer", "name", "eth0", "netns", space)
            self.ip("link", "set", self.links[node], "master", self.bridge, "up")
            self.ip("-n", space, "address", "add", f"10.76.0.{node}/24", "dev", "eth0")
            self.ip("-n", space, "link", "set", "eth0", "up")

    def cut(self, node):
        self.ip("link", "set", self.links[node], "down")

    def join(self, node):
        self.ip("link", "set", self.links[node], "up")

    def address(self, node):
        return f"10.76.0.{node}" if node in self.spaces else "10.76.0.1"

    def inside(self, node):
        """The words before a command that run it on the node. Not `ip netns exec`, which mounts /sys again: slurmd then
        finds no control groups."""
        return ["nsenter", f"--net=/run/netns/{self.spaces[node]}"] if node in self.spaces else []

    def close(self):
        for space in self.spaces.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
        for link in (*self.links.values(), self.bridge):
            subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)


class Cluster:
    """Starts at the begin of a `with` block, and leaves no process, file or namespace behind. `namespaces`: n3 and n4
    are in network namespaces. `address`: of all nodes, without namespaces."""

    def __init__(self, namespaces=False, address="127.0.0.1"):
        need_slurm()
        self.name = uuid.uuid4().hex[:6]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-slurm-"))
        self.network = Network(self.name) if namespaces else None
        self.address = "10.76.0.1" if namespaces else address
        self.daemons = {}
        own = ("WEFT_SOURCE", "WEFT_TEST_", "WEFT_FAKE_")  # for tests only: the tool would report them as unknown
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith(own)},
                            "SLURM_CONF": str(self.folder / "slurm.conf"),
                            "TEST_JOB": self.name, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}

    # --- start and end ---

    def __enter__(self):
        try:
            if self.network:
                self.network.open()
            self.write_configuration()
            self.start_munge()
            self.daemons["slurmctld"] = self.daemon("slurmctld", "-D", "-f", self.folder / "slurm.conf", "-c")
            for node in range(1, NODES + 1):
                self.start_node(node)
            self.wait_idle()
        except BaseException:
            self.show()
            self.__exit__()
            raise
        return self

    def write_configuration(self):
        gpus = [self.folder / f"gpu{i}" for i in range(GPUS)]
        for gpu in gpus:
            gpu.touch()
        for folder in ("state", "work", *(f"spool-n{node}" for node in range(1, NODES + 1))):
            (self.folder / folder).mkdir()
        host = socket.gethostname()
        nodes = "\n".join(
            f"NodeName=n{node} NodeHostname={host} NodeAddr={self.address_of(node)} Port={free_port()} CPUs=4 "
            f"RealMemory=1000 Gres=gpu:{GPUS} State=UNKNOWN" for node in range(1, NODES + 1))
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            name=self.name, host=host, address=self.address, port=free_port(), folder=self.folder, nodes=nodes,
            count=NODES, first=free_ports(MOST_JOBS, within=STORE_PORTS) - STORE_PORTS.start + 1)
            + ("CommunicationParameters=EnableIPv6\n" if ":" in self.address else ""))
        (self.folder / "gres.conf").write_text(f"NodeName=n[1-{NODES}] Name=gpu File={self.folder}/gpu[0-{GPUS - 1}]\n")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")

    def address_of(self, node):
        return self.network.address(node) if self.network else self.address

    def start_munge(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.daemons["munged"] = self.daemon(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
            f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
            f"--seed-file={self.folder}/munged.seed", "--num-threads=2")
        wait_for("munged", lambda: (self.folder / "munge.socket").exists(), START_S)

    def daemon(self, *command, inside=()):
        with open(self.folder / f"{pathlib.Path(command[0]).name}.out", "ab") as output:
            return subprocess.Popen([*inside, *map(str, command)], stdin=subprocess.DEVNULL, stdout=output,
                                    stderr=output, env=self.environment, cwd=self.folder, start_new_session=True)

    def start_node(self, node):
        inside = self.network.inside(node) if self.network else []
        self.daemons[f"n{node}"] = self.daemon("slurmd", "-D", "-N", f"n{node}", "-f", self.folder / "slurm.conf",
                                               inside=inside)

    def wait_idle(self, nodes=NODES):
        """Waits until `nodes` nodes are idle."""
        def states():
            dead = [name for name, process in self.daemons.items() if process.poll() is not None]
            assert not dead, f"{', '.join(dead)} ended by itself"
            said = self.call("sinfo", "-h", "-N", "-p", "test", "-o", "%t", check=False).stdout.split()
            return len(said) == NODES and said.count("idle") >= nodes
        wait_for("idle nodes", states, START_S)

    def __exit__(self, *why):
        if why and why[0]:
            self.show()
        self.end_jobs()
        for name in sorted(self.daemons, key=lambda one: one == "munged"):  # munged last: the others use it
            self.end(self.daemons[name])
        self.end_strays()
        if self.network:
            self.network.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end_jobs(self):
        """Ends the jobs that still run, so that no step outlives its slurmd."""
        with contextlib.suppress(OSError, subprocess.SubprocessError, AssertionError):
            self.call("scancel", "--signal=KILL", "--full", "-u", "root", check=False)
            self.call("scancel", "-u", "root", check=False)
            wait_for("the end of all jobs", lambda: not self.call("squeue", "-h", check=False).stdout.strip(), 10)

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def strays(self):
        """Processes that have this cluster's folder in their environment or arguments: the remains of its jobs."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if b"\nState:\tZ" in (entry / "status").read_bytes():
                    continue
                if str(self.folder).encode() in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found

    def end_strays(self):
        """Waits a while for the end of all processes, since slurmstepd ends by itself. Then kills the others, and waits
        until they have ended, since they may write into the folder until then."""
        with contextlib.suppress(AssertionError):
            wait_for("the end of all steps", lambda: not self.strays(), 5)
        kill(self.strays())
        with contextlib.suppress(AssertionError):
            wait_for("the end of what was killed", lambda: not self.strays(), START_S)

    def show(self):
        """Prints the ends of the logs, for a test that failed."""
        for log in sorted(self.folder.glob("*.log")):
            print(f"--- {log.name}", tail_of(log), sep="\n")

    # --- for tests ---

    def call(self, *command, check=True, environment=None, seconds=30, inside=()):
        """Runs a command as a user of the cluster does."""
        done = subprocess.run([*inside, *map(str, command)], capture_output=True, text=True, timeout=seconds,
                              check=False, env={**self.environment, **(environment or {})}, cwd=self.folder / "work")
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def job(self, number):
        """The fields of a job that scontrol prints, by name."""
        said = self.call("scontrol", "show", "job", "-o", number, check=False).stdout.splitlines()
        return dict(word.split("=", 1) for word in said[0].split() if "=" in word) if said else {}

    def state(self, number):
        return self.job(number).get("JobState", "")

    def wait_end(self, number, seconds=120):
        """Waits for the end of the job; returns its last state, and its exit code in the form of Slurm."""
        wait_for(f"the end of job {number}", lambda: self.state(number) in ENDED, seconds)
        job = self.job(number)
        return job["JobState"], job["ExitCode"]

    def kill_node(self, node):
        """Kills only slurmd, with SIGKILL: its job steps continue."""
        self.daemons[f"n{node}"].kill()
        self.daemons[f"n{node}"].wait()
