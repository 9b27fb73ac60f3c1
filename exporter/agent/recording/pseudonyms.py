"""Names as they are, or pseudonyms in their place. Pure.

A recording may hold private names: namespaces, pods, containers, owners, nodes, labels, ids. They
are replaced on their way to the cycle. The same name gets the same pseudonym everywhere, so that
processes still find their pods and allocations can still be decoded. What is not known to be
harmless is replaced or left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any

from exporter.agent.allocations.registry import NODE_ANNOTATION_PREFIXES
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.schemes import nvfractions
from exporter.agent.allocations.schemes.kai import (
    RESERVATION_CONTAINER,
    RESERVATION_NAME,
    RESERVATION_NAMESPACES,
)
from exporter.agent.recording.grants import (
    ALLOWED_TERMS,
    AMOUNT,
    PROFILE,
    disguised_amount,
    disguised_amounts,
    disguised_claims,
    disguised_grants,
    disguised_offers,
    disguised_ref,
    prefix_of,
)
from exporter.agent.settings.sitegroups import TAKEN
from exporter.agent.sources.cgroups.batchpatterns import SHIPPED
from exporter.model import (
    SEVERAL,
    CgroupIdentity,
    Container,
    Device,
    DeviceReading,
    GroupFacts,
    NodeFacts,
    Pod,
    PodSlot,
    PodTable,
    Reading,
    SourceStatus,
    Unattributed,
    Unit,
)

ANNOTATIONS, LABELS = Rules().annotations, Rules().labels  # of pods, or beginnings of keys
NODE_LABELS = re.compile(  # how the node's cards are shared, and their model
    rf"nvidia\.com/(gpu|gpu\.shared|mig-{PROFILE})"
    r"\.(count|memory|product|replicas|sharing-strategy)"
    r"|cloud\.google\.com/gke-(accelerator|gpu-sharing-strategy|max-shared-clients-per-gpu"
    r"|gpu-partition-size)"
    r"|((beta\.)?amd\.com/gpu|amd\.com)[./]compute-memory-partition"
    r"|vke\.volcengine\.com/mgpu-compute-policy|tke\.cloud\.tencent\.com/qgpu-schedule-policy"
    r"|mixed-qgpu-enable|ack\.node\.gpu\.schedule|cgpu|gpushare"
    r"|gpu-fractioning\.kai\.scheduler/nvidia-driver-version\.major",
    re.ASCII,
)
MODEL = re.compile(r"[a-z]{0,3}\d{1,5}[a-z]{0,2}", re.ASCII | re.IGNORECASE)  # H100, 80GB, 1g
WORDS = frozenset(  # in the values of such labels, beside those
    {
        *("nvidia", "amd", "intel", "tesla", "geforce", "quadro", "rtx", "gtx", "titan"),
        *("instinct", "radeon", "sxm", "pcie", "nvl", "hbm", "ti", "super", "ada", "generation"),
        *("laptop", "gpu", "gb", "mig", "me", "shared", "time", "slicing", "sharing", "mps"),
        *("spx", "dpx", "tpx", "qpx", "cpx", "nps", "cgpu", "core", "mem", "topology", "default"),
        *("fixed", "guaranteed", "burst", "native", "share", "best", "effort", "be", "fs", "bs"),
        *("none", "enable", "true", "false"),
    }
)
OWNER_KINDS = frozenset(
    {
        *("", "Pod", "Node", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"),
        *("ReplicationController", "Job", "CronJob", "JobSet", "Rollout", "Workflow"),
        *("RayCluster", "RayJob", "RayService", "LeaderWorkerSet", "Notebook"),
        *("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "TrainJob", "InferenceService"),
    }
)

OF_THE_BOARD = frozenset(  # texts of a device that are the same at many sites
    {
        *("vendor", "model", "pci_bus_id", "profile", "sharing", "driver_version"),
        *("cuda_version", "sysfs_name"),
    }
)
_MACHINES = {"lxc", "nspawn", "libvirt", "qemu"}
KINDS = TAKEN | {"slurm"} | _MACHINES | {each.pattern.kind for each in SHIPPED}
# The ids of pods, containers and devices: 32 hexadecimal digits, as a UUID or plain, or 64.
ID = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}(?:[0-9a-f]{32})?", re.IGNORECASE
)
WITH_ID = re.compile(rf"(GPU-|MIG-|MIG-GPU-)?(?:{ID.pattern})(/[0-9]+)*", re.IGNORECASE)
DIGIT = re.compile(r"[0-9a-f]", re.IGNORECASE)
TOKEN = re.compile(r"[^\s,;:=/{}\[\]()\"'_]+")
PUBLIC_LABEL = re.compile(
    r"app|k8s-app|component|tier|team|owner|env|environment|project|role|release|version|job-name|controller-uid|pod-template-hash"
    r"|controller-revision-hash|pod-template-generation"
    r"|app\.kubernetes\.io/(name|instance|version|component|part-of|managed-by)"
    r"|batch\.kubernetes\.io/(job-name|controller-uid|job-completion-index)"
    r"|statefulset\.kubernetes\.io/pod-name|apps\.kubernetes\.io/pod-index"
)


class Names:
    """Passes every name unchanged."""

    def reading(self, reading: Reading) -> Reading:
        """Returns a GPU source's reading, without what the driver answered before it."""
        devices = tuple(device._replace(raw=None) for device in reading.devices)
        return reading._replace(devices=devices)

    def identity(self, identity: CgroupIdentity | Unattributed) -> CgroupIdentity | Unattributed:
        """Returns a process's identity."""
        return identity

    def table(self, table: PodTable) -> PodTable:
        """Returns the node's pods."""
        return table

    def node(self, facts: NodeFacts) -> NodeFacts:
        """Returns the facts about the node."""
        return facts

    def group(self, facts: GroupFacts) -> GroupFacts:
        """Returns the facts about a group."""
        return facts

    def kind(self, kind: str) -> str:
        """Returns the kind of a group."""
        return kind

    def status(self, status: SourceStatus) -> SourceStatus:
        """Returns a source's status."""
        return status


class Pseudonyms(Names):
    """Replaces every name by a keyed hash: without the key, guessing a name cannot be verified."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._real, self._pseudonymised = PodTable(version=-1), PodTable(version=-1)

    def name(self, text: str) -> str:
        """Returns the pseudonym of a name. An id stays an id of the same form."""
        # Decoders know the pods by which KAI and Run:ai reserve cards by these names. Under
        # pseudonyms their cards would be nobody's.
        if not text or text in RESERVATION_NAMESPACES or text == RESERVATION_CONTAINER:
            return text
        if text.startswith(f"{RESERVATION_NAME}-"):
            return f"{RESERVATION_NAME}-{self._digest(text)[:10]}"
        if not WITH_ID.fullmatch(text):
            return f"x{self._digest(text)[:10]}"

        def disguised(found: re.Match[str]) -> str:
            # An id has one pseudonym, with dashes or without, in small letters or capital ones:
            # cgroups, the kubelet and the driver write the same id in different ways.
            digits = iter(self._digest(found[0].lower().replace("-", "")))
            return DIGIT.sub(lambda _: next(digits), found[0])

        return ID.sub(disguised, text)

    def _digest(self, text: str) -> str:
        content = text.encode(errors="surrogatepass")
        return blake2b(content, key=self._key, digest_size=32).hexdigest()

    def reading(self, reading: Reading) -> Reading:
        """See ``Names``."""
        return reading._replace(
            status=self.status(reading.status),
            devices=tuple(map(self._device_reading, reading.devices)),
        )

    def _device_reading(self, reading: DeviceReading) -> DeviceReading:
        memory = reading.memory
        if memory is not None and memory.charges:
            charges = tuple(
                one._replace(identity=self._identity(one.identity)) for one in memory.charges
            )
            memory = replace(memory, charges=charges)
        device = self._device(reading.device)
        return reading._replace(device=device, detail="", raw=None, memory=memory)

    def _device(self, device: Device) -> Device:
        # A text that is added to Device later may name somebody, and is disguised until it is
        # listed: what a reader of a recording needs as it was is listed, not what is secret.
        disguised: dict[str, Any] = {
            each.name: self.name(text)
            for each in fields(device)
            if each.name not in OF_THE_BOARD and isinstance(text := getattr(device, each.name), str)
        }
        return replace(device, **disguised)

    def identity(self, identity: CgroupIdentity | Unattributed) -> CgroupIdentity | Unattributed:
        """See ``Names``."""
        return identity if isinstance(identity, Unattributed) else self._identity(identity)

    def _identity(self, identity: CgroupIdentity) -> CgroupIdentity:
        return identity._replace(
            pod_uid=self._maybe(identity.pod_uid),
            container_id=self._maybe(identity.container_id),
            enclosing=tuple(
                PodSlot(self.name(slot.pod_uid), self._maybe(slot.container_id))
                for slot in identity.enclosing
            ),
            unit=identity.unit and self._unit(identity.unit),
            job=identity.job and self._unit(identity.job),
            nested=self._maybe(identity.nested),
        )

    def _unit(self, unit: Unit) -> Unit:
        """The user's number is left out: group sources are asked about the real process."""
        return unit._replace(kind=self.kind(unit.kind), name=self.name(unit.name), uid=None)

    def kind(self, kind: str) -> str:
        """Returns the kind of a group; a site's own has a pseudonym."""
        return kind if kind in KINDS else self.name(kind)

    def group(self, facts: GroupFacts) -> GroupFacts:
        """Returns it under pseudonyms. A job's step is in the identity of its processes."""
        name = self.name
        uid = SEVERAL if facts.uid == SEVERAL else None
        return GroupFacts(name(facts.name), name(facts.user), name(facts.account), uid=uid)

    def _maybe(self, text: str | None) -> str | None:
        return None if text is None else self.name(text)

    def table(self, table: PodTable) -> PodTable:
        """Returns the pods under pseudonyms; those of the last table are kept."""
        # A source returns the same object while no pod changes: nothing is hashed in such a cycle.
        if table is self._real:
            return self._pseudonymised
        name = self.name
        by_id = table.by_container_id.items()
        self._pseudonymised = PodTable(
            version=table.version,
            pods={name(uid): self.pod(pod) for uid, pod in table.pods.items()},
            by_kubelet_uid={name(a): name(b) for a, b in table.by_kubelet_uid.items()},
            by_container_id={name(cid): (name(uid), name(own)) for cid, (uid, own) in by_id},
        )
        self._real = table
        return self._pseudonymised

    def pod(self, pod: Pod) -> Pod:
        """Returns a pod under pseudonyms, with the allocations of the real one."""
        name = self.name
        return replace(
            pod,
            uid=name(pod.uid),
            namespace=name(pod.namespace),
            name=name(pod.name),
            static_hash=name(pod.static_hash),
            owner_kind=pod.owner_kind if pod.owner_kind in OWNER_KINDS else name(pod.owner_kind),
            owner_name=name(pod.owner_name),
            containers=tuple(map(self._container, pod.containers)),
            annotations=dict(self._annotations(pod)),
            labels=dict(self._labels(pod)),
            unhealthy=tuple(map(name, pod.unhealthy)),
        )

    def _container(self, container: Container) -> Container:
        return replace(
            container,
            name=self.name(container.name),
            container_ids=tuple(map(self.name, container.container_ids)),
            limits=disguised_amounts(container.limits, self.name),
            claims=tuple(disguised_ref(ref, self.name) for ref in container.claims),
            environment={
                k: disguised_amount(v, self.name) for k, v in container.environment.items()
            },
        )

    def _annotations(self, pod: Pod) -> Mapping[str, str]:
        """Annotations that a sharing system reads. Some keys end in a container's name."""
        containers = {container.name for container in pod.containers}
        made = {}
        for key, value in pod.annotations.items():
            prefix = prefix_of(key, ANNOTATIONS)
            if not prefix:
                continue
            rest = key.removeprefix(prefix)
            owner, _, end = rest.partition(".")
            if owner in containers and end in nvfractions.ENDS:
                rest = f"{self.name(owner)}.{end}"
            elif rest in containers or not AMOUNT.fullmatch(rest):
                rest = self.name(rest)
            made[prefix + rest] = self._tokens(value)
        return made

    def _labels(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Labels that a sharing system reads, whose keys may end in a name, and public labels."""
        for key, value in pod.labels.items():
            if prefix := prefix_of(key, LABELS):
                rest = self.name(key.removeprefix(prefix))
                yield prefix + rest, TOKEN.sub(lambda found: self._token(found[0]), value)
            # The key is the same at many sites, and says what the label is for. The value may be a
            # customer.
            elif PUBLIC_LABEL.fullmatch(key):
                yield key, self.name(value)

    def _tokens(self, text: str) -> str:
        return TOKEN.sub(lambda found: self._token(found[0]), text)

    def _token(self, text: str) -> str:
        return text if text in ALLOWED_TERMS or AMOUNT.fullmatch(text) else self.name(text)

    def _word(self, text: str) -> str:
        known = MODEL.fullmatch(text) or text.lower() in WORDS
        return text if known else self.name(text)

    def node(self, facts: NodeFacts) -> NodeFacts:
        """See ``Names``."""
        labels = {
            key: re.sub(r"[^\W_]+", lambda found: self._word(found[0]), text)
            for key, text in facts.labels.items()
            if NODE_LABELS.fullmatch(key)
        }
        allocatable = disguised_amounts(facts.allocatable, self.name)
        if (facts.labels or facts.allocatable) and not (labels or allocatable):
            labels = {"kubernetes.io/os": "linux"}  # without labels it counts as unknown
        annotations = {
            key: self._tokens(text)
            for key, text in facts.annotations.items()
            if key.startswith(NODE_ANNOTATION_PREFIXES)
        }
        return replace(
            facts,
            devices=tuple(map(self._device, facts.devices)),
            labels=labels,
            annotations=annotations,
            allocatable=allocatable,
            grants=disguised_grants(facts.grants, self.name),
            claims=disguised_claims(facts.claims, facts.offered, self.name),
            offered=disguised_offers(facts.offered, self.name),
            card_policies={card: self._token(own) for card, own in facts.card_policies.items()},
        )

    def status(self, status: SourceStatus) -> SourceStatus:
        """Returns it without the detail, which is free text and may name anything."""
        return status._replace(detail="")
