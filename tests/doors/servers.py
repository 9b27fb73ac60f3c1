"""The kubelet and the API server of a node, asked by the real sources once in each cycle."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from exporter.agent.sources.node.kubeletcalls import KubeletError
from exporter.agent.sources.node.nodesource import NodeSource, StaticNodeSource
from exporter.agent.sources.node.podresources import PodResources
from exporter.agent.sources.pods.claims import Claims
from exporter.agent.sources.pods.decode import decode_node
from exporter.agent.sources.polled import Inquiry, Polled
from exporter.apiserver.serveranswers import ApiError
from exporter.model import NodeFacts, PodTable
from tests.field.nodes import Body, FieldNode, StandInApi, StandInKubelet

KUBELET = {
    "absent": KubeletError("there is no socket"),
    "refused": KubeletError("the kubelet answers List", "PERMISSION_DENIED"),
    "failed": KubeletError("the kubelet does not answer", "UNAVAILABLE"),
    "hangs": KubeletError("the kubelet did not answer", "DEADLINE_EXCEEDED"),
    "enormous": KubeletError("larger than max", "RESOURCE_EXHAUSTED"),
}
API = {"refused": 403, "failed": 500, "busy": 429, "unauthorized": 401, "no answer": None}
Change = Callable[[bytes], bytes]
CONTENTS: Mapping[str, Change] = {
    "cut": lambda content: content[: len(content) // 2],
    "garbled": lambda _content: b"\xff\xfe not what it was",
    "empty": lambda _content: b"",
}
JSONS: Mapping[str, Change] = {
    **CONTENTS,
    "another form": lambda _content: b"[]",
    "a string": lambda _content: b'"x"',
}


class FaultyKubelet(StandInKubelet):
    """``fault``: how it answers."""

    fault = ""

    @contextmanager
    def connected(self) -> Iterator["FaultyKubelet"]:
        if self.fault == "absent":
            raise KUBELET["absent"]
        yield self

    def list(self) -> bytes:
        if self.fault in KUBELET:
            raise KUBELET[self.fault]
        content = super().list()
        return CONTENTS[self.fault](content) if self.fault in CONTENTS else content


class FaultyApi(StandInApi):
    """``fault``: an answer, of the paths that have this part."""

    fault: tuple[str, str] = ("", "")

    @contextmanager
    def get(self, path: str, query: Mapping[str, str], timeout_s: float) -> Iterator[Body]:
        part, answer = FaultyApi.fault
        met = bool(part) and part in path
        if met and answer in API:
            raise ApiError(API[answer], answer)
        with super().get(path, query, timeout_s) as body:
            content = body.read(1 << 30)
            yield Body(JSONS[answer](content) if met and answer in JSONS else content)


class Stepped(Polled[PodTable, object, NodeFacts]):
    """Asks in each cycle, and not in a thread of its own."""

    def __init__(self, inquiry: Inquiry[PodTable, object, NodeFacts], node: FieldNode) -> None:
        super().__init__(inquiry, clock=node.clock)

    def start(self) -> None: ...

    def facts(self, given: PodTable) -> NodeFacts:
        super().facts(given)
        if self._inquiry.subject(given) is not None:
            self._ask(given)
        return super().facts(given)


def sources(node: FieldNode) -> Sequence[NodeSource]:
    """What is asked about the node and the devices of its pods."""

    def known() -> NodeFacts:
        about = decode_node(node.document, node.pods.keep)
        return NodeFacts(
            labels=about.labels, annotations=about.annotations, allocatable=about.allocatable
        )

    claims = Claims(lambda: FaultyApi(node), "node-1", node.clock)  # type: ignore[arg-type,return-value] # a stand-in
    held = PodResources(node.kubelet, node.clock)  # type: ignore[arg-type] # likewise
    return (
        StaticNodeSource("node_api", known, node.clock),
        Stepped(held, node),  # type: ignore[arg-type] # its answers
        Stepped(claims, node),  # type: ignore[arg-type] # its answers
    )
