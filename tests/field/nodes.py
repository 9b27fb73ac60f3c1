"""A node in a directory, which a test moves on by hand: a page after seconds that nobody waits for.

Cgroups, /proc and /sys are files. NVIDIA's boards are tests/fakenvml under the real NVML source,
AMD's and others' are trees below ``sys``. Pods, the node, claims and the kubelet's answers are
documents and messages as they come over the wire, read by the decoders of the real sources.
"""

import errno
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from exporter.agent.collector import Collector, Sources
from exporter.agent.collector.cyclerules import keep_of
from exporter.agent.collector.wiring import make_collector
from exporter.agent.settings import load
from exporter.agent.sources.cgroups.batchpatterns import GroupPatterns
from exporter.agent.sources.cgroups.dmem import CgroupFiles
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.agent.sources.gpus.amd.amddiscovery import addresses
from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from exporter.agent.sources.gpus.amd.kfd import processes_of
from exporter.agent.sources.gpus.drm.drmsource import DrmSource
from exporter.agent.sources.gpus.gpusource import Demand, GpuSource
from exporter.agent.sources.groups.groupsource import GroupSource
from exporter.agent.sources.node.kubeletcalls import KubeletError
from exporter.agent.sources.node.nodesource import NodeSource, merged
from exporter.agent.sources.node.podresources import PodResources
from exporter.agent.sources.pods.claims import Claims
from exporter.agent.sources.pods.decode import KeyPrefixes, decode_node, decode_pod
from exporter.agent.sources.pods.podtable import PodStore
from exporter.agent.sources.source import AlwaysUp
from exporter.apiserver.serveranswers import ApiError
from exporter.metrics.compat import CompatPage
from exporter.metrics.text import Format, Renderer
from exporter.model import NodeFacts, PodTable, Reading, Snapshot
from tests.agent.simulation.clock import SECOND, ManualClock
from tests.agent.sources.cgroups.fakeproc import FakeProc
from tests.agent.sources.gpus.nvml.node import Node as Nvml
from tests.agent.sources.pods.apistate import Request, State
from tests.agent.sources.pods.devices import answer
from tests.agent.sources.pods.documents import Document
from tests.e2e.programs import Page
from tests.fakenvml.scenario import GIB, Gpu, Process, Scenario, Work

PATIENCE_S = 60.0
FIRST_PID = 70_001


class FieldNode:
    """``node = FieldNode(folder, Gpu(0))``, then pods and processes, then ``node.run(10)``."""

    def __init__(
        self,
        folder: Path,
        *gpus: Gpu,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        groups: Sequence[GroupSource] = (),
        library: Path | None = None,
        **settings: str,
    ) -> None:
        """``settings`` are flags with underscores for dots: ``energy_idle="equal"``.

        Each cycle reads the rings, unless a test says otherwise: a report is of seconds.
        """
        given = {"collection.samples-interval": ["1s"]}
        given |= {name.replace("_", ".", 1).replace("_", "-"): [v] for name, v in settings.items()}
        self.settings = load(given, {})
        self.folder, self.cgroup = folder, folder / "sys/fs/cgroup"
        self.proc, self.sys = FakeProc(folder / "proc"), folder / "sys"
        self.clock = ManualClock()
        self.document: Document = {
            "kind": "Node",
            "metadata": {"labels": dict(labels or {}), "annotations": dict(annotations or {})},
        }
        self.kubelet = StandInKubelet()
        self.pods = _Pods(self.clock, keep_of(self.settings))
        self.claims: dict[tuple[str, str], Document] = {}  # by namespace and name
        self.slices: list[Document] = []
        self._pids = iter(range(FIRST_PID, FIRST_PID + 10_000))
        self._put_cgroup("")
        (self.cgroup / "cgroup.controllers").write_text("pids\n")
        self._nvml = Nvml(folder)
        self._nvml.scenario.gpus = list(gpus)
        self._groups, self._library = tuple(groups), library
        self.facts: Callable[[FieldNode], Sequence[NodeSource]] = lambda node: (_Facts(node),)
        self.collector: Collector | None = None
        self.patient: list[_Patient] = []

    @property
    def driver(self) -> Scenario:
        """What the stand-in of NVIDIA's driver knows; a cycle sees what was changed."""
        return self._nvml.scenario

    # --- what there is ---

    def pod(self, document: Document) -> None:
        """Add a pod, or let it be as this document says."""
        self.pods.put(document)

    def delete(self, document: Document) -> None:
        """Let the API server say that a pod is gone."""
        self.pods.delete(document)

    def start(
        self,
        cgroup: str,
        *gpus: int,
        pid: int | None = None,
        duty: float = 1.0,
        period: float = 0.0,
        memory: int | None = GIB,
        **more: Any,
    ) -> int:
        """Start a process in a cgroup that works on NVIDIA's boards. Its pid.

        ``more`` is of the driver's ``Process`` and ``Work``: instance, kind, start.
        """
        pid = next(self._pids) if pid is None else pid
        self._put_cgroup(cgroup, pid)
        began = int(self.clock.monotonic_ns() / SECOND * 100)
        self.proc.put(pid, f"/{cgroup}", start=began)
        now = self.clock.now_ns / SECOND
        shared = {"instance": more["instance"]} if "instance" in more else {}
        for gpu in gpus:
            known: dict[str, Any] = {"start": now, **more}
            self.driver.processes.append(Process(gpu, pid, memory=memory, **known))
            if duty:
                self.driver.works.append(Work(gpu, pid, now, duty=duty, period=period, **shared))
        return pid

    def end(self, pid: int) -> None:
        """End a process: it leaves /proc, its cgroup and the driver's list."""
        self.proc.remove(pid)
        for path in self.cgroup.rglob("cgroup.procs"):
            kept = [line for line in path.read_text().split() if line != str(pid)]
            path.write_text("".join(f"{line}\n" for line in kept))
        driver, now = self.driver, self.clock.now_ns / SECOND
        driver.processes = [p for p in driver.processes if p.pid != pid]
        driver.works = [
            replace(w, end=now) if w.pid == pid and w.end is None else w for w in driver.works
        ]

    def _put_cgroup(self, cgroup: str, *pids: int) -> None:
        folder = self.cgroup / cgroup
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "cgroup.procs"
        there = path.read_text() if path.exists() else ""
        path.write_text(there + "".join(f"{pid}\n" for pid in pids))

    # --- time ---

    def cycle(self, after_s: float = 1.0) -> Snapshot:
        """One cycle, so much later."""
        self.collector = self.collector or self._collector()
        self.clock.move(after_s)
        self._nvml.scenario.now = self.clock.now_ns / SECOND
        self._nvml.write()
        return self.collector.cycle()

    def run(self, seconds: float = 1.0, step_s: float = 1.0) -> Page:
        """The page after so many seconds, with a cycle each ``step_s``."""
        for _ in range(round(seconds / step_s)):
            self.cycle(step_s)
        return self.page()

    def heard(self, uuid: str, xid: str) -> Page:
        """The page once the thread that waits for events has counted an XID."""
        for _ in range(100):
            page = self.run(1)
            if page.value("mgpu_device_xid_errors_total", uuid=uuid, xid=xid):
                return page
            threading.Event().wait(0.05)  # the driver's own time: the thread waits in it
        raise AssertionError((uuid, xid))

    def page(self, *programs: str) -> Page:
        """The page as it is now, with the compatible names of these programs."""
        assert self.collector is not None
        snapshot = self.collector.snapshot
        others = CompatPage(programs, "node-1").render(snapshot, Format.TEXT)
        return Page((Renderer().render(snapshot, Format.TEXT) + others).decode())

    def _collector(self) -> Collector:
        sys, proc = str(self.sys), str(self.proc.root)
        patterns = GroupPatterns(self.settings.groups_patterns)
        gpus: list[GpuSource] = []
        if self.driver.gpus:
            self._nvml.start(path=self._library)
            gpus.append(_Nvml(self._nvml))
        if (self.sys / "class/drm").is_dir() or (self.sys / "class/kfd").is_dir():
            amd = AmdSource(self.sys, self.proc.root, clock=self.clock)
            taken, computing = partial(addresses, self.sys), partial(processes_of, self.sys)
            drm = DrmSource(sys, proc, clock=self.clock, taken=taken, computing=computing)
            for source in (amd, drm):
                source.cgroups = CgroupFiles(str(self.cgroup), proc, patterns=patterns)
            self.patient = [_Patient(amd), _Patient(drm)]
            gpus += self.patient
        processes = CgroupProcesses(str(self.cgroup), proc, self.clock, patterns=patterns)
        asked = tuple(self.facts(self))
        sources = Sources(tuple(gpus), processes, self.pods, asked, groups=self._groups)
        return make_collector(self.settings, sources, self.clock)

    def close(self) -> None:
        """End what was started."""
        self._nvml.stop()


@contextmanager
def field_node(folder: Path, *gpus: Gpu, **more: Any) -> Iterator[FieldNode]:
    """A node that ends with the block."""
    node = FieldNode(folder, *gpus, **more)
    try:
        yield node
    finally:
        node.close()


class _Patient:
    """A GPU source that a busy machine cannot make late."""

    def __init__(self, source: GpuSource) -> None:
        self._source = source
        self.newest: Reading | None = None

    def read(self) -> Reading:
        self.newest = self._source.read()
        return self.newest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def follow(self, demand: Demand) -> None:
        self._source.follow(replace(demand, deadline_s=PATIENCE_S))


class _Nvml:
    """The NVML source, in the process that has loaded the stand-in library."""

    name = "nvml"

    def __init__(self, node: Nvml) -> None:
        self._node = node

    def read(self) -> Reading:
        return self._node.read()

    def release(self, released: bool) -> None:  # noqa: FBT001 - the Protocol's signature
        self._node.ask("release", released)

    def follow(self, demand: Demand) -> None:
        self._node.ask("follow", replace(demand, deadline_s=PATIENCE_S))

    def look_soon(self) -> None:
        self._node.ask("look_soon")

    def close(self) -> None:
        """The node's own."""


class _Pods(AlwaysUp):
    """The pods, by the store and the decoder of the real sources."""

    def __init__(self, clock: ManualClock, keep: KeyPrefixes) -> None:
        super().__init__("pods_api", clock)
        self._now, self.keep = clock.monotonic_ns, keep
        self._documents: dict[str, Document] = {}
        self._store = PodStore()
        self._fails = False

    def put(self, document: Document) -> None:
        self._documents[document["metadata"]["uid"]] = document
        self._store.upsert(decode_pod(document, self.keep).pod, self._now())

    def delete(self, document: Document) -> None:
        self._documents.pop(document["metadata"]["uid"])
        self._store.delete(decode_pod(document, self.keep).pod, self._now())

    def fail(self, how: str = "") -> None:
        """Let the watch of pods say again what it has said, or the next table fail; or neither."""
        self._fails = how == "fails"
        documents = list(self._documents.values())
        for document in documents if how == "gone and back" else ():
            self.delete(document)
        for document in documents if how in {"twice", "gone and back"} else ():
            self.put(document)
        if how == "listed anew":
            pods = [decode_pod(document, self.keep).pod for document in documents]
            self._store.relist(pods, self._now())

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - the protocol's
        return True

    def table(self) -> PodTable:
        if self._fails:
            raise OSError(errno.EIO, "the pods cannot be had")
        self._store.expire(self._now())
        return self._store.table

    def follow(self, keep: KeyPrefixes) -> None:
        self.keep = keep
        for document in self._documents.values():
            self.put(document)


class StandInKubelet:
    """A kubelet's answer to List, of tests/agent/sources/node; None: it does not answer."""

    def __init__(self) -> None:
        self.answer: bytes | None = None

    @contextmanager
    def connected(self) -> Iterator["StandInKubelet"]:
        yield self

    def list(self) -> bytes:
        assert self.answer is not None
        return self.answer

    def get(self, namespace: str, name: str) -> bytes:
        raise KubeletError(f"Get of {namespace}/{name} is not served", "UNIMPLEMENTED")


class StandInApi:
    """The API server's answers about claims and slices, as a client of it has them."""

    def __init__(self, node: FieldNode) -> None:
        self._node = node

    @contextmanager
    def get(self, path: str, query: Mapping[str, str], _timeout_s: float) -> Iterator["Body"]:
        claims = {"/".join(key): document for key, document in self._node.claims.items()}
        state = State(versions=("v1",), claims=claims, slices=self._node.slices)
        body = answer(Request(path, query, ""), state)
        if body is None:
            raise ApiError(404, "not found")
        yield Body(body)

    def close(self) -> None:
        """Nothing is held."""


class Body:
    """The body of an answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def read(self, _most: int) -> bytes:
        return self._body

    def chunks(self) -> Iterator[bytes]:
        yield self._body


class _Facts(AlwaysUp):
    """What is known of the node, of its claims, and by the kubelet, which is asked each cycle."""

    def __init__(self, node: FieldNode) -> None:
        super().__init__("node_api", node.clock)
        self._node = node
        self._held = PodResources(node.kubelet, node.clock)  # type: ignore[arg-type] # a stand-in
        self._claims = Claims(lambda: StandInApi(node), "node-1", node.clock)  # type: ignore[arg-type,return-value] # likewise

    def facts(self, given: PodTable) -> NodeFacts:
        node = self._node
        known = decode_node(node.document, node.pods.keep)
        parts = [
            NodeFacts(
                labels=known.labels, annotations=known.annotations, allocatable=known.allocatable
            )
        ]
        if node.kubelet.answer is not None:
            parts.insert(0, self._held.facts(self._held.ask(given), given))
        if self._claims.subject(given) is not None:
            parts.append(self._claims.facts(self._claims.ask(given), given))
        return merged(parts)
