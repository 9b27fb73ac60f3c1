"""What ``why`` says of a pod: by tables of facts, of a simulated node, by a real Prometheus."""

import json
import re
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.why.case import Case, OnCard, SeenCard
from exporter.answers.why.sentences import Topic, sentences
from exporter.answers.why.seriescase import SeriesCase
from exporter.answers.why.whycommand import answer
from exporter.cli import main
from exporter.httpclient import NoAnswerError
from exporter.model.alerts import lost as lost_words
from exporter.shown.marks import MAKE_ROOM
from tests.pages import pages
from tests.store import Store, Target

GIB = 1 << 30
TO_DO = f"To do: {MAKE_ROOM}."
NOW = 1_780_000_000
OVER = {"batch/crawl-0": 1.9, "batch/other-0": 1.5}
CARD = SeenCard(
    uuid="GPU-a", gpu="0", node="n1", model="L4", busy=1.0, others=("batch/crawl-0",), over=OVER
)
STARVED = OnCard(
    container="main",
    card=CARD,
    core=0.18,
    share=0.5,
    waiting=0.63,
    waiting_on={"batch/crawl-0": 0.4, "user bob": 0.23},
    memory_bytes=12 * GIB,
    memory_limit_bytes=16 * GIB,
    last_active_unix_s=NOW - 2,
    scheme="hami",
)


def said(*parts: OnCard) -> dict[Topic, str]:
    case = Case(namespace="team", pod="chat-0", unix_s=NOW, window_s=60, parts=parts)
    found = sentences(case)
    assert len(found) == len({one.topic for one in found}) <= 8
    assert [one.urgent for one in found] == sorted((one.urgent for one in found), reverse=True)
    return {one.topic: one.text for one in found}


def test_a_lost_device_is_said_first_and_explains_what_is_not_known() -> None:
    lost = OnCard(
        container="main",
        card=SeenCard(uuid="a", gpu="1", lost=lost_words("nvidia", 79)),
        share=0.5,
        memory_bytes=float(2**30),  # the store's last value, of before
        unmeasured=dict.fromkeys(("core", "memory", "decoder"), "gpu_lost"),
    )
    found = said(lost)
    assert Topic.MEMORY not in found
    assert next(iter(found)) is Topic.LOST
    assert found[Topic.LOST] == (
        "GPU 1 is lost, and nothing of it is known. XID 79: it has fallen off the bus. To do: "
        "restart the node."
    )
    assert Topic.UNKNOWN not in found


def test_a_card_is_lost_in_the_first_seconds_too_while_its_owners_have_their_last_figures() -> None:
    lost = replace(STARVED, card=replace(CARD, lost=lost_words("nvidia", 79)))

    found = said(lost)

    assert found.keys() == {Topic.LOST, Topic.CARDS}
    assert "XID 79" in found[Topic.LOST]


def test_a_starved_pod_hears_of_waiting_first() -> None:
    found = said(STARVED)
    assert list(found) == [Topic.WAITING, Topic.USE, Topic.MEMORY, Topic.CARDS]
    assert list(found.values()) == [
        (
            "It may have waited for others up to 63% of the last minute, most of it for "
            "batch/crawl-0, then for user bob. batch/crawl-0 is at 190% of its share. To do: move "
            "one of the two to another card, or set a policy of fixed shares."
        ),
        "It used 18% of GPU 0 in the last minute; its share is 50%, and it used 36% of that.",
        "It holds 12.0 GiB of its 16.0 GiB of memory on GPU 0 (75%).",
        "It is on GPU 0 (L4, node n1) with batch/crawl-0.",
    ]


OTHER = replace(STARVED, card=replace(CARD, uuid="GPU-b", gpu="1"), core=0.42)


@pytest.mark.parametrize(
    ("parts", "topic", "text"),
    [
        (
            [replace(STARVED, share=None, scheme="time-slicing")],
            Topic.USE,
            (
                "It used 18% of GPU 0 in the last minute; no share of the core is promised to it "
                "(time-slicing)."
            ),
        ),
        (
            [STARVED, OTHER],
            Topic.USE,
            (
                "It used 0.60 GPUs in the last minute, least of GPU 0 (18%); its shares are 1.00 "
                "GPUs, and it used 60% of them."
            ),
        ),
        (
            [replace(STARVED, waiting_on=None)],
            Topic.WAITING,
            (
                "It may have waited for others up to 63% of the last minute; who ran instead is "
                "not recorded (--metrics.enable=contention)."
            ),
        ),
        ([replace(STARVED, waiting=0.0)], Topic.WAITING, "It did not wait for others."),
        (  # the counters by name may be off: that does not mean that who ran had no name
            [replace(STARVED, waiting_on={"batch/crawl-0": 0.005})],
            Topic.WAITING,
            (
                "It may have waited for others up to 63% of the last minute; no name is recorded "
                "of who ran instead."
            ),
        ),
        (
            [replace(STARVED, waiting_on={"batch/crawl-0": 0.04, "user bob": 0.02})],
            Topic.WAITING,
            (
                "It may have waited for others up to 63% of the last minute: 4% for batch/crawl-0, "
                "2% for user bob; no name is recorded for most of it."
            ),
        ),
        (
            [replace(STARVED, waiting_on={"batch/a-0": 0.25, "batch/b-0": 0.2, "batch/c-0": 0.18})],
            Topic.WAITING,
            (
                "It may have waited for others up to 63% of the last minute: 25% for batch/a-0, "
                "20% for batch/b-0."
            ),
        ),
        (
            [replace(STARVED, waiting_on={"team/chat-0": 0.63})],
            Topic.WAITING,
            (
                "It may have waited for others up to 63% of the last minute, all of it for its own "
                "other containers."
            ),
        ),
        (
            [replace(STARVED, card=replace(CARD, throttled={"hw_thermal": 0.3, "sync_boost": 0}))],
            Topic.CLOCKS,
            "Clocks were held down: GPU 0 30% of the time by heat.",
        ),
        (
            [replace(STARVED, memory_bytes=15.5 * GIB)],
            Topic.MEMORY,
            (
                "It holds 15.5 GiB of its 16.0 GiB of memory on GPU 0 (97%): the next allocation "
                "may fail."
            ),
        ),
        (
            [replace(STARVED, memory_limit_bytes=None)],
            Topic.MEMORY,
            "It holds 12.0 GiB of memory; no limit is known.",
        ),
        (
            [replace(STARVED, last_active_unix_s=NOW - 3 * 3600)],
            Topic.IDLE,
            "It last ran on a GPU 3 hours ago, at 2026-05-28 17:26 UTC.",
        ),
        (
            [replace(STARVED, core=0.0, last_active_unix_s=None)],
            Topic.IDLE,
            "It has not run on a GPU since counting began.",
        ),
        (
            [replace(STARVED, card=replace(CARD, others=()))],
            Topic.CARDS,
            "It is on GPU 0 (L4, node n1), with no other that can be seen.",
        ),
        (
            [replace(STARVED, core=None, unmeasured={"core": "no_hostpid"})],
            Topic.UNKNOWN,
            "Not known: core. The exporter does not see the node's processes; set hostPID: true.",
        ),
        (
            [replace(STARVED, unmeasured={"memory": "a reason of a newer exporter"})],
            Topic.UNKNOWN,
            "Not known: memory. a reason of a newer exporter",
        ),
    ],
)
def test_each_topic(parts: list[OnCard], topic: Topic, text: str) -> None:
    found, _, to_do = said(*parts)[topic].partition(" To do: ")
    assert re.sub(r"( \S+ is at \d+% of its share\.)+$", "", found) == text
    assert not to_do or topic is Topic.WAITING


def test_what_is_not_known_is_said_first_and_never_as_zero() -> None:
    found = said(OnCard(container="main", card=CARD, unmeasured={"core": "no_hostpid"}))
    assert list(found) == [Topic.UNKNOWN, Topic.CARDS]


@pytest.mark.parametrize("reason", ["container_pending", "container_unknown"])
def test_use_of_no_container_in_particular_is_compared_with_what_all_were_promised(
    reason: str,
) -> None:
    """Of a pod in a sandbox, two of whose containers have an allocation."""
    nothing = replace(
        STARVED,
        core=None,
        waiting=None,
        waiting_on=None,
        memory_bytes=None,
        last_active_unix_s=None,
        unmeasured={"core": reason, "memory": reason},
    )
    whole = replace(
        STARVED, container="", share=None, memory_limit_bytes=None, scheme="", core=0.6, waiting=0.0
    )
    found = said(
        whole,
        replace(nothing, container="a"),
        replace(nothing, container="b", share=0.25, memory_limit_bytes=8 * GIB),
    )
    assert found[Topic.USE] == (
        "It used 60% of GPU 0 in the last minute; its share is 75%, and it used 80% of that."
    )
    assert found[Topic.MEMORY] == "It holds 12.0 GiB of its 24.0 GiB of memory on GPU 0 (50%)."
    assert found[Topic.UNKNOWN].startswith("Not known: which of its containers it was. ")


ELSEWHERE = replace(
    OTHER,
    core=0.4,
    share=None,
    waiting=0.0,
    memory_bytes=6 * GIB,
    memory_limit_bytes=None,
    misplaced=True,
)
OWN = replace(
    STARVED, core=0.0, waiting=0.0, memory_bytes=0, memory_limit_bytes=8 * GIB, misplaced=False
)


def test_a_placement_that_differs_is_said_first_with_what_is_used_where() -> None:
    found = said(OWN, ELSEWHERE)
    assert next(iter(found)) is Topic.PLACEMENT
    assert found[Topic.PLACEMENT] == (
        "It runs on GPU 1, but was allocated GPU 0: in the last minute it used 40% of GPU 1 with "
        "6.0 GiB held and 0% of GPU 0 with 0.0 GiB held."
    )
    assert "its shares are 0.50 GPUs, and it used 80% of them" in found[Topic.USE]
    assert found[Topic.MEMORY] == "It holds 6.0 GiB of its 8.0 GiB of memory (75%)."
    assert found[Topic.CARDS].startswith("It is on GPU 1 (L4, node n1)")


def test_a_placement_that_differs_from_none_known_is_said_too() -> None:
    found = said(replace(ELSEWHERE, core=None), replace(STARVED, container="side"))
    assert found[Topic.PLACEMENT] == (
        "It runs on GPU 1, which it was not allocated: in the last minute it used an unknown part "
        "of GPU 1 with 6.0 GiB held."
    )
    assert Topic.PLACEMENT not in said(STARVED, replace(OTHER, misplaced=False))


def test_a_placement_that_differs_is_said_of_a_node_and_by_its_series(tmp_path: Path) -> None:
    file = tmp_path / "moved.yaml"
    file.write_text(MOVED)
    with Store(tmp_path) as store:
        snapshots = list(pages(str(file), 3))
        for at, page in snapshots:
            store.scrape(Target({"job": "mgpu", "instance": "a"}), page, at)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        first, *_ = sentences(SeriesCase(asks, snapshots[-1].at, 60).read("team", "moved-0"))
    assert first.topic is Topic.PLACEMENT
    assert first.text.startswith("It runs on GPU 1, but was allocated GPU 0: in the last minute")


MOVED = """
devices: [{model: NVIDIA A10, memory: 24GiB}, {model: NVIDIA A10, memory: 24GiB}]
pods:
  - name: moved-0
    namespace: team
    annotations:
      vke.volcengine.com/assumed: "true"
      vke.volcengine.com/gpu-index-container-main: "0"
    containers:
      - name: main
        limits: {vke.volcengine.com/mgpu-core: "50", vke.volcengine.com/mgpu-memory: "8192"}
        processes: [{device: 1, duty: 0.4, memory: 6GiB}]
"""


def test_waiting_without_a_second_sign_is_not_urgent() -> None:
    at_its_share = said(replace(STARVED, core=0.5))
    assert next(iter(at_its_share)) is Topic.USE
    nothing_promised = said(replace(STARVED, share=None))
    assert next(iter(nothing_promised)) is Topic.WAITING


def test_a_pod_of_a_simulated_node(capsys: pytest.CaptureFixture[str]) -> None:
    pod = "inference/rerank-58d4f8f7c4-9vkmt"
    flags = ["--since=1s", "--collection.interval=2s", "--format=json"]  # shorter than a cycle
    assert main(["why", pod, "--simulate=demo", *flags]) == 0
    document = json.loads(capsys.readouterr().out)
    [part] = document["parts"]
    assert part["core"] > part["share"] == pytest.approx(0.1)
    assert "inference/chat-7b-6c9f7d9c5b-x2lqz" in part["card"]["others"]
    topics = [one["topic"] for one in document["sentences"]]
    assert {"use", "memory", "cards"} <= set(topics)


@pytest.mark.parametrize("pod", ["a/b/c", "/", "a/"])
def test_what_names_no_pod_is_answered_with_how_one_is_named(
    pod: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", pod, "--simulate=demo"]) == 2
    assert f"{pod}: name the pod as NAMESPACE/POD" in capsys.readouterr().err


def test_the_only_pod_of_a_name_needs_no_namespace_and_what_may_be_meant_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["why", "rerank-58d4f8f7c4-9vkmt", "--simulate=demo", "--since=1s"]) == 0
    out = capsys.readouterr().out
    assert "in the last second; its share is 10%" in out
    assert main(["why", "rerank-58", "--simulate=demo", "--since=1s"]) == 1
    assert capsys.readouterr().err == (
        "mgpu-exporter why: rerank-58 is not known to this node; did you mean "
        "inference/rerank-58d4f8f7c4-9vkmt?\n"
    )


@pytest.mark.parametrize(
    ("scenario", "name", "words"),
    [
        ("demo", "inference/rerank", "its share is 10%"),
        ("hpc", "slurm/4711", "It used 1."),
        ("hpc", "job/4711", "no share of the core is promised"),
        ("hpc", "docker/llm-server", "with podman carols-notebook."),
        ("hpc", "lxc/render", "with systemd ollama.service and user dave."),
        ("hpc", "llm-server", "of GPU 2"),
        ("hpc", "user/dave", "of GPU 3"),
    ],
)
def test_a_workload_a_job_a_container_and_a_user_are_named_as_people_call_them(
    scenario: str, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", name, f"--simulate={scenario}", "--since=1s"]) == 0
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("ollama", "did you mean systemd/ollama.service?"),
        ("alice", "known there: docker/llm-server, lxc/render, podman/carols-notebook, "),
    ],
)
def test_where_there_are_no_pods_an_unknown_name_is_answered_with_groups(
    name: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", name, "--simulate=hpc", "--since=1s"]) == 1
    error = capsys.readouterr().err
    assert f"{name} is not known to this node; {advice}" in error
    assert error.endswith("?\n" if "?" in advice else " more\n")


def test_a_store_answers_for_a_workload_a_job_and_who_is_over_its_share(tmp_path: Path) -> None:
    owner = 'owner_kind="Deployment",owner_name="chat"'
    job = 'kind="slurm",group="7",gpu="0",uuid="GPU-a"'

    def page(second: int) -> str:
        pods = "".join(
            f'mgpu_pod_info{{namespace="team",pod="{pod}",uid="{pod}",{owner}}} 1\n'
            + "".join(
                f'mgpu_container_{family}{{namespace="team",pod="{pod}",container="main",gpu="0",'
                f'uuid="GPU-a"}} {value}\n'
                for family, value in (
                    ("core_seconds_total", second * use),
                    ("core_waiting_seconds_total", second * 0.5 * (use < 0.4)),
                    ("core_limit_ratio", 0.4),
                    ("core_utilization_ratio", use),
                    ("memory_used_bytes", 1),
                )
            )
            for pod, use in (("chat-a", 0.2), ("chat-b", 0.76))
        )
        return (
            f'{pods}mgpu_device_busy_seconds_total{{gpu="0",uuid="GPU-a"}} {second}\n'
            f'mgpu_group_info{{kind="slurm",group="7",name="train"}} 1\n'
            f"mgpu_group_core_seconds_total{{{job}}} {second * 0.04}\n"
            f"mgpu_group_core_utilization_ratio{{{job}}} 0.04\n"
            f"mgpu_group_memory_used_bytes{{{job}}} {GIB}\n"
        )

    with Store(tmp_path) as store:
        for second in range(0, 301, 15):
            store.scrape(Target({"job": "mgpu", "instance": "a"}), page(second), NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))

        def reader() -> SeriesCase:
            return SeriesCase(asks, NOW + 300, 240)

        assert reader().members("team", "chat") == [("team", "chat-a"), ("team", "chat-b")]
        assert reader().members("", "chat") == reader().members("team", "chat")
        waits = {one.topic: one.text for one in sentences(reader().read("team", "chat-a"))}
        assert "team/chat-b is at 190% of its share. To do: move" in waits[Topic.WAITING]
        [group] = reader().groups("job", "7")
        assert reader().groups("", "train") == [group]
        assert reader().groups("docker", "7") == []
        found = {one.topic: one.text for one in sentences(reader().read_group(group))}
    assert found[Topic.USE].startswith("It used 4% of GPU 0 in the last 4 minutes; no share")
    assert found[Topic.CARDS].endswith("with team/chat-a and team/chat-b.")


def test_who_may_use_more_than_his_share_is_said() -> None:
    sentence = said(replace(STARVED, may_borrow=True))[Topic.USE]
    assert "its share is 50%, beyond which it may use what is free, and it used 36%" in sentence


def test_an_exporter_is_not_asked_about_another_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "a/b", "--simulate=demo", "--until=1d"]) == 2
    assert "an exporter knows of now alone" in capsys.readouterr().err


def test_who_looks_at_one_namespace_of_a_node_is_told_no_names_of_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pod = "inference/rerank-58d4f8f7c4-9vkmt"
    flags = ["--simulate=demo", "--since=1s", "--metrics.enable=contention"]
    assert main(["why", pod, "-n", "research", *flags]) == 0
    said = capsys.readouterr().out
    assert "with others and research/notebook-alice-0." in said
    assert "inference/" not in said
    assert "in the last second;" in said
    assert main(["why", "research/nobody", "-n", "research", *flags]) == 1
    assert "inference/" not in capsys.readouterr().err


def test_an_unknown_pod_is_answered_with_names_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "infrence/rerank", "--simulate=demo", "--since=1s"]) == 1
    assert capsys.readouterr().err == (
        "mgpu-exporter why: infrence/rerank is not known to this node; did you mean "
        "inference/rerank-58d4f8f7c4-9vkmt?\n"
    )


def _page(second: int, started: int = NOW - 3600) -> str:
    """Chat has a half of a card and waits for crawl, which takes nearly all of it."""
    mine = 'namespace="team",pod="chat-0",container="main",gpu="0",uuid="GPU-a"'
    its = 'namespace="batch",pod="crawl-0",container="main",gpu="0",uuid="GPU-a"'
    return f"""\
process_start_time_seconds {started}
mgpu_exporter_cycles_total {second}
mgpu_device_info{{gpu="0",uuid="GPU-a",model="L4"}} 1
mgpu_device_busy_seconds_total{{gpu="0",uuid="GPU-a"}} {second}
mgpu_device_throttle_seconds_total{{gpu="0",uuid="GPU-a",reason="hw_thermal"}} {second * 0.5}
mgpu_device_throttle_seconds_total{{gpu="0",uuid="GPU-a",reason="sync_boost"}} NaN
mgpu_pod_info{{namespace="team",pod="chat-0",uid="1"}} 1
mgpu_container_allocation_info{{{mine},scheme="hami",policy="",priority=""}} 1
mgpu_container_core_limit_ratio{{{mine}}} 0.5
mgpu_container_memory_limit_bytes{{{mine}}} {16 * GIB}
mgpu_container_memory_used_bytes{{{mine}}} {4 * GIB}
mgpu_container_memory_used_bytes{{{its}}} {4 * GIB}
mgpu_group_memory_used_bytes{{kind="slurm",group="7",gpu="0",uuid="GPU-a"}} {4 * GIB}
mgpu_container_last_active_timestamp_seconds{{{mine}}} {NOW + second}
mgpu_container_unmeasured{{{mine},quantity="energy",reason="not_supported"}} 1
mgpu_container_core_seconds_total{{{mine}}} {second * 0.2}
mgpu_container_core_waiting_seconds_total{{{mine}}} {second * 0.8}
mgpu_container_core_waiting_on_seconds_total{{{mine},by_namespace="batch",by_pod="crawl-0"}} {second * 0.8}
"""  # noqa: E501


@pytest.fixture(
    scope="module", params=[(), ("namespace", "pod"), ("namespace",), ("pod", "container")]
)
def prometheus(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """Ten minutes of one node. Its labels that its target has too are renamed."""
    own = {"namespace": "mgpu", "pod": "x", "container": "exporter"}
    has = {name: value for name, value in own.items() if name in request.param}
    target = Target({"job": "mgpu", "instance": "a:10045", "node": "n1", **has}, honors=False)
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        for second in range(0, 601, 15):
            store.scrape(target, _page(second), NOW + second)
        yield store


@pytest.mark.parametrize(
    ("seen", "other", "company"),
    [("", "batch/crawl-0", "batch/crawl-0 and slurm 7"), ("team", "others", "others")],
)
def test_a_pod_by_its_series(prometheus: Store, seen: str, other: str, company: str) -> None:
    asks = HttpClient(f"http://{prometheus.address}")
    case = SeriesCase(Prometheus(asks), NOW + 600, 300, seen).read("team", "chat-0")
    assert [(one.topic, one.text) for one in sentences(case)] == [
        (
            Topic.WAITING,
            (
                "It may have waited for others up to 80% of the last 5 minutes, all of it for "
                f"{other}. {TO_DO}"
            ),
        ),
        (Topic.CLOCKS, "Clocks were held down: GPU 0 50% of the time by heat."),
        (
            Topic.USE,
            (
                "It used 20% of GPU 0 in the last 5 minutes; its share is 50%, and it used 40% of "
                "that."
            ),
        ),
        (Topic.MEMORY, "It holds 4.0 GiB of its 16.0 GiB of memory on GPU 0 (25%)."),
        (Topic.CARDS, f"It is on GPU 0 (L4, node n1) with {company}."),
        (Topic.UNKNOWN, "Not known: energy. The driver does not report this for this device."),
    ]


def test_a_card_is_looked_at_since_the_last_gap_and_full_after_it(tmp_path: Path) -> None:
    """Its node was away within the range: the card was not idle meanwhile."""
    with Store(tmp_path) as store:
        target = Target({"job": "mgpu", "instance": "a:10045", "node": "n1"})
        for begin, end in ((0, 60), (480, 660)):
            for second in range(0, end - begin + 1, 15):
                store.scrape(target, _page(second, NOW + begin), NOW + begin + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        case = SeriesCase(asks, NOW + 660, 300).read("team", "chat-0")
    waiting, clocks, *_ = sentences(case)
    assert (waiting.topic, waiting.text.endswith(TO_DO)) == (Topic.WAITING, True)
    assert clocks.text == "Clocks were held down: GPU 0 50% of the time by heat."


def test_waiting_that_was_counted_for_a_part_of_the_time_is_of_that_part(tmp_path: Path) -> None:
    """An older exporter, or a smaller profile, had no counter of it; and then none by name."""
    with Store(tmp_path) as store:
        target = Target({"job": "mgpu", "instance": "a:10045", "node": "n1"})
        for second in range(0, 3601, 15):
            names = [name for name, begins in COUNTED.items() if second < begins]
            lines = (line for line in _page(second).splitlines() if line.split("{")[0] not in names)
            store.scrape(target, "\n".join((*lines, "")), NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        case = SeriesCase(asks, NOW + 3600, 3600).read("team", "chat-0")
    [said] = [one.text for one in sentences(case) if one.topic is Topic.WAITING]
    assert said == (
        "It may have waited for others up to 80% of the 10 minutes of the last hour in which "
        "waiting was counted: 20% for batch/crawl-0; no name is recorded for most of it. " + TO_DO
    )


COUNTED = {  # since when, in seconds
    "mgpu_container_core_waiting_seconds_total": 3000,
    "mgpu_container_core_waiting_on_seconds_total": 3450,
}


def test_the_exporters_own_pod_is_not_taken_for_those_that_it_measures(prometheus: Store) -> None:
    asks = SeriesCase(Prometheus(HttpClient(f"http://{prometheus.address}")), NOW + 600, 300)
    assert asks.read("mgpu", "x").parts == ()


@pytest.mark.parametrize(("seen", "named"), [("", ["team/chat-0"]), ("batch", [])])
def test_names_of_pods_are_those_of_the_viewers_namespace(
    prometheus: Store, seen: str, named: list[str]
) -> None:
    asks = Prometheus(HttpClient(f"http://{prometheus.address}"))
    assert SeriesCase(asks, NOW + 600, 300, seen).pods() == named


REPLACED = {"a": (0, 285), "b": (300, 600)}


@pytest.mark.parametrize(
    "scraped",
    [
        [("mgpu", "a:10045", 0, 600), ("other", "b:10045", 0, 600)],
        [("mgpu", "a:10045", 0, 600), ("mgpu", "a:10045 again", 0, 600)],
        [("mgpu", "a:10045", 0, 285), ("mgpu", "b:10045", 300, 600)],
        [(job, f"{at}:1", *times) for job in ("mgpu", "other") for at, times in REPLACED.items()],
    ],
    ids=["two jobs", "replicas", "replaced", "both"],
)
def test_what_several_series_say_of_one_time_counts_once(
    tmp_path: Path, scraped: list[tuple[str, str, int, int]]
) -> None:
    """A pod that is seen for 10 of 30 minutes, on a card that works all the time."""
    with Store(tmp_path) as store:
        for second in range(0, 616, 15):
            for job, address, begin, end in scraped:
                instance, _, replica = address.partition(" ")
                labels = {"job": job, "instance": instance, "node": "n1"}
                target = Target(labels | ({"replica": replica} if replica else {}))
                if begin <= second <= end:
                    store.scrape(target, _page(second - begin, NOW + begin), NOW + second)
                elif second == end + 15:
                    store.scrape(target, "", NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        case = SeriesCase(asks, NOW + 1200, 1800).read("team", "chat-0")

    [part] = case.parts
    assert case.observed_s == pytest.approx(600, abs=15)
    assert part.core == pytest.approx(0.2)
    assert part.waiting_on is not None
    assert part.waiting_on["batch/crawl-0"] == pytest.approx(0.8, abs=0.05)
    assert part.card.busy == pytest.approx(1, abs=0.05)
    assert part.card.throttled["hw_thermal"] == pytest.approx(0.5, abs=0.03)


def of_cluster(store: Store, cluster: str) -> Prometheus:
    return Prometheus(HttpClient(f"http://{store.address}"), targets={"cluster": cluster})


def test_of_one_name_in_two_clusters_one_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path) as store:
        for second in range(0, 601, 15):
            for cluster, faster in (("east", 1), ("west", 3)):
                labels = {
                    "cluster": cluster,
                    "k8s_cluster": cluster,
                }  # a store may call it anything
                of = Target({"job": "mgpu", "instance": "a:1", "node": "n1", **labels})
                store.scrape(of, _page(second * faster, NOW - faster), NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        with pytest.raises(NoAnswerError, match="--target=cluster=east or --target=cluster=west"):
            SeriesCase(asks, NOW + 600, 300).read("team", "chat-0")
        for cluster, used in (("east", 0.2), ("west", 0.6)):
            case = SeriesCase(of_cluster(store, cluster), NOW + 600, 300).read("team", "chat-0")
            [part] = case.parts
            assert part.core == pytest.approx(used)
            assert part.card.busy == pytest.approx(used * 5, abs=0.05)
            assert part.card.node == f"{cluster}/n1"
            assert part.waiting_on is not None
            assert part.waiting_on["batch/crawl-0"] == pytest.approx(used * 4, abs=0.05)
        assert SeriesCase(of_cluster(store, "north"), NOW + 600, 300).pods() == []
        flags = [f"--prometheus=http://{store.address}", "--cluster=north"]
        assert main(["why", "team/chat-0", *flags]) == 1
    assert "is not known" in capsys.readouterr().err


def test_exporters_of_two_clusters_that_started_at_one_time_are_two(tmp_path: Path) -> None:
    """A store calls its clusters as it likes."""
    with Store(tmp_path) as store:
        for second in range(0, 601, 15):
            for cluster in ("east", "west"):
                labels = {"job": "mgpu", "instance": "a:1", "node": "n1", "k8s_cluster": cluster}
                page = _page(second, NOW).replace("GPU-", f"GPU-{cluster}-")
                store.scrape(Target(labels), page, NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        wanted = "--target=k8s_cluster=east or --target=k8s_cluster=west"
        with pytest.raises(NoAnswerError, match=wanted):
            SeriesCase(asks, NOW + 600, 300).read("team", "chat-0")
        asks = Prometheus(HttpClient(f"http://{store.address}"), targets={"k8s_cluster": "west"})
        [part] = SeriesCase(asks, NOW + 600, 300).read("team", "chat-0").parts
        assert part.card.uuid.startswith("GPU-west-")


def test_of_one_name_in_two_clusters_one_may_have_ended(tmp_path: Path) -> None:
    """Either may be meant: it ended in the time that is asked about."""
    with Store(tmp_path) as store:
        for second in range(0, 901, 15):
            for cluster, until in (("east", 900), ("west", 300)):
                of = Target({"job": "mgpu", "instance": "a:1", "node": "n1", "cluster": cluster})
                if second <= until + 15:
                    page = _page(second, NOW - until) if second <= until else ""
                    store.scrape(of, page, NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        with pytest.raises(NoAnswerError, match="--target=cluster=east or --target=cluster=west"):
            SeriesCase(asks, NOW + 900, 700).read("team", "chat-0")
        for chosen, over in (("east", 300), ("west", 700)):
            asks = of_cluster(store, chosen)
            case = SeriesCase(asks, NOW + 900, over).read("team", "chat-0")
            assert (case.ended_unix_s is None) is (chosen == "east")


def test_a_sentence_of_long_names_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    names = tuple(f"{letter * 63}/{letter * 253}" for letter in "abc")
    case = Case(
        namespace="team",
        pod="chat-0",
        unix_s=NOW,
        window_s=60,
        parts=(replace(STARVED, card=replace(CARD, others=names)),),
    )
    assert answer(lambda: [case], Namespace(format="text", program="mgpu-exporter")) == 0
    assert f" and {names[2]}.\n" in capsys.readouterr().out


def test_a_part_of_a_gpu_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "research/finetune-0", "--simulate=mixed", "--since=1s"]) == 0
    said = capsys.readouterr().out
    assert "It is on GPU 100-1 (" in said
    assert "read its partitions" not in said


def _young(second: int) -> str:
    """A pod at 94 % of its part of a card."""
    mine = 'namespace="team",pod="tune-0",container="main",gpu="1",uuid="GPU-b"'
    return f"""\
mgpu_device_info{{gpu="1",uuid="GPU-b",model="L4",parent_uuid="GPU-a",gpu_instance="2"}} 1
mgpu_container_unmeasured{{{mine},quantity="energy",reason="mig"}} 1
mgpu_device_throttle_seconds_total{{gpu="1",uuid="GPU-b",reason="hw_thermal"}} {second * 0.5}
mgpu_container_core_limit_ratio{{{mine}}} 1
mgpu_container_memory_used_bytes{{{mine}}} {4 * GIB}
mgpu_container_core_seconds_total{{{mine}}} {second * 0.94}
mgpu_container_core_waiting_seconds_total{{{mine}}} {second * 0.06}
"""


@pytest.mark.parametrize(
    ("lives", "over", "span", "ended"),
    [
        ([(0, 300)], 86_400, "the last 5 minutes, since it was first seen", ""),
        ([(0, 45)], 300, "the last 45 seconds, since it was first seen", ""),
        ([(0, 600), (36_000, 36_300)], 86_400, "the 15 minutes of the last day in which", ""),
        ([(0, 3600)], 3600, "the last hour", ""),
        ([(0, 600)], 3600, "the 10 minutes of the last hour in which", "20 minutes ago, at 2026-"),
    ],
    ids=["new", "just begun", "twice", "old", "ended"],
)
def test_time_that_nobody_observed_is_no_idle_time(
    tmp_path: Path, lives: list[tuple[int, int]], over: int, span: str, ended: str
) -> None:
    with Store(tmp_path) as store:
        for begin, end in lives:
            target = Target({"job": "mgpu", "instance": f"{begin}:10045", "node": "n1"})
            for second in range(begin, end + 1, 15):
                store.scrape(target, _young(second - begin), NOW + second)
            if ended or (begin, end) != lives[-1]:
                store.scrape(target, "", NOW + end + 15)
        now = NOW + lives[-1][1] + (1200 if ended else 0)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        case = SeriesCase(asks, now, over).read("team", "tune-0")

    found = {one.topic: one.text for one in sentences(case)}
    assert Topic.UNKNOWN not in found
    assert f"It used 94% of GPU 1-2 in {span}" in found[Topic.USE]
    assert f"up to 6% of {span}" in found[Topic.WAITING]
    if len(lives) == 1:
        assert found[Topic.CLOCKS] == "Clocks were held down: GPU 1-2 50% of the time by heat."
    assert (ended in found[Topic.ENDED]) if ended else Topic.ENDED not in found
    assert ("It was on GPU 1-2" in found[Topic.CARDS]) is bool(ended)


@pytest.mark.parametrize(("called", "name"), [("", "slurm 7"), ("train", "slurm train")])
def test_a_group_that_ran_instead_is_named_as_elsewhere(
    called: str, name: str, tmp_path: Path
) -> None:
    with Store(tmp_path) as store:
        target = Target({"job": "mgpu", "instance": "a:10045", "node": "n1"})
        for second in range(0, 601, 15):
            page = _page(second).replace(
                'by_namespace="batch",by_pod="crawl-0"', 'by_namespace="",by_pod="slurm/7"'
            )
            info = f'kind="slurm",group="7",gpu="0",uuid="GPU-a",name="{called}"'
            page += f"mgpu_group_info{{{info}}} 1\n"
            store.scrape(target, page, NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        [part] = SeriesCase(asks, NOW + 600, 300).read("team", "chat-0").parts
    assert list(part.waiting_on or ()) == [name]
    assert name in (part.card.others or ())


def test_a_gpu_whose_number_changed_is_one(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        target = Target({"job": "mgpu", "instance": "a:10045", "node": "n1"})
        for second in range(0, 601, 15):
            page = _young(second).replace('gpu="1"', f'gpu="{second // 400}"')
            store.scrape(target, page, NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        case = SeriesCase(asks, NOW + 600, 600).read("team", "tune-0")
    [part] = case.parts
    assert case.observed_s is None
    assert part.core == pytest.approx(0.94)
    assert part.card.gpu == "1-2"


def test_an_instance_that_is_lost_with_its_gpu_has_the_remedy_of_its_gpus_last_xid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remedy = "XID 79: it has fallen off the bus. To do: restart the node."
    gone = 'mgpu_device_unmeasured{gpu="1",uuid="GPU-b",quantity="device",reason="gpu_lost"} 1\n'
    with Store(tmp_path) as store:
        target = Target({"job": "mgpu", "instance": "a:10045", "node": "n1"})
        for second in range(0, 601, 15):
            xid = f'xid_last_timestamp_seconds{{gpu="1",uuid="GPU-a",xid="79"}} {NOW}\n'
            store.scrape(target, f"{_young(second)}mgpu_device_{xid}{gone}", NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        case = SeriesCase(asks, NOW + 600, 600).read("team", "tune-0")
    assert remedy in {one.topic: one.text for one in sentences(case)}[Topic.LOST]

    node = tmp_path / "mig.yaml"
    demo = (Path(__file__).parents[3] / "examples" / "demo" / "mig.yaml").read_text()
    node.write_text(f"{demo}\nfaults: [{{device: 0, state: lost, from: 1s}}]\n")
    assert main(["why", "search/embed-7f8c9d6b5-kx2lp", f"--simulate={node}", "--since=3s"]) == 0
    assert remedy in " ".join(capsys.readouterr().out.split())


def test_a_pod_that_has_ended_is_known_while_its_counters_last(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        target = Target({"job": "mgpu", "instance": "a:10045", "node": "n1"})
        for second in range(0, 901, 15):
            page = _young(min(second, 600)).splitlines()
            lasting = [line for line in page if "container" not in line or "_total" in line]
            store.scrape(
                target, "\n".join([*(page if second <= 600 else lasting), ""]), NOW + second
            )
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        case = SeriesCase(asks, NOW + 900, 900).read("team", "tune-0")
    found = {one.topic: one.text for one in sentences(case)}
    assert "5 minutes ago" in found[Topic.ENDED]
    assert "It used 94% of GPU 1-2" in found[Topic.USE]


def test_the_command_names_what_a_prometheus_knows(
    prometheus: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["why", "team/chat-0", f"--prometheus=http://{prometheus.address}"])
    assert status == 1  # today, nothing is scraped
    assert "known there: nobody with a GPU" in capsys.readouterr().err


def test_a_target_that_is_renamed_is_one_exporter_all_the_time(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for second in range(0, 601, 15):
            labels = {"job": "mgpu", "instance": "a:1", "node": "n1"}
            labels |= {"instance": "n1", "job": "again", "zone": "z"} if second > 300 else {}
            for each in (labels, {"job": "mgpu", "instance": "a:1", "node": "n1"}):
                page = _page(second) if each == labels else ""
                store.scrape(Target(each), page, NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        case = SeriesCase(asks, NOW + 600, 500).read("team", "chat-0")
    [part] = case.parts
    assert part.core == pytest.approx(0.2)
    assert part.card.busy == pytest.approx(1, abs=0.1)
    assert case.observed_s is None  # about all of it: one scrape of 15 s is not known


def test_a_forged_pod_of_the_name_is_refused_unless_the_job_is_named(tmp_path: Path) -> None:
    """A tenant's own page may say anything of anybody's pod."""
    with Store(tmp_path) as store:
        for second in range(0, 601, 15):
            true = {"job": "mgpu", "instance": "a:1", "node": "n1"}
            store.scrape(Target(true), _page(second), NOW + second)
            store.scrape(
                Target({"job": "pods", "instance": "b:1"}), _page(second * 5, NOW), NOW + second
            )
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        with pytest.raises(NoAnswerError, match=r"has two pods team/chat-0.*--job=mgpu or --job="):
            SeriesCase(asks, NOW + 600, 300).read("team", "chat-0")
        asks = Prometheus(HttpClient(f"http://{store.address}"), targets={"job": "mgpu"})
        [part] = SeriesCase(asks, NOW + 600, 300).read("team", "chat-0").parts
    assert part.core == pytest.approx(0.2)


def test_a_job_that_two_exporters_have_is_refused_as_a_job(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for second in range(0, 601, 15):
            for name, started in (("mgpu", NOW - 3600), ("pods", NOW)):
                page = f'mgpu_group_info{{kind="slurm",group="7"}} 1\n{_page(second, started)}'
                store.scrape(Target({"job": name, "instance": "a:1"}), page, NOW + second)
        asks = Prometheus(HttpClient(f"http://{store.address}"))
        reader = SeriesCase(asks, NOW + 600, 300)
        [job] = reader.groups("", "7")
        with pytest.raises(NoAnswerError, match=r"has two jobs slurm/7, of two exporters.*--job="):
            reader.read_group(job)
