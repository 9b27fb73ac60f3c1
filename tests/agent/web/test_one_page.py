"""The page shows the numbers of the metrics: each container and pod of each shipped scenario."""

import re
from html import unescape

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from exporter.agent.api import About
from exporter.agent.simulation.load_scenario import shipped
from exporter.agent.web.page import Choice, node_of, page
from exporter.agent.web.page.entries import key_of
from exporter.metrics.text import Format, Renderer
from exporter.model import (
    SEVERAL,
    CgroupIdentity,
    DeviceFacts,
    GroupFacts,
    GroupHolding,
    GroupKey,
    ProcessInfo,
    Snapshot,
)
from exporter.shown.words import held_of, percent
from tests.agent.api.nodes import demo
from tests.agent.collector.bench import CID, DEVICE, Bench
from tests.snapshots import snapshot_of

Labels = tuple[str, ...]
Cells = tuple[str, str]  # core and memory
FIGURES = (
    "core_utilization_ratio",
    "core_limit_ratio",
    "memory_used_bytes",
    "memory_limit_bytes",
)


def plain(markup: str) -> str:
    return unescape(re.sub(r"<svg.*|<[^>]*>?", "", markup)).replace("\u00a0", " ").strip()


def known(text: str) -> str:
    """Without the mark of those who may use more than their share."""
    return "" if text.startswith("unknown") else text.removesuffix(" +")


def series(snapshot: Snapshot, level: str, *labels: str) -> dict[Labels, dict[str, float]]:
    """What the metrics have of a level: by labels, then by name."""
    found: dict[Labels, dict[str, float]] = {}
    for family in parsed(Renderer().render(snapshot, Format.TEXT).decode()):
        for sample in family.samples:
            if sample.name.startswith(f"mgpu_{level}_"):
                own = tuple(sample.labels[name] for name in labels)
                name = sample.name.removeprefix(f"mgpu_{level}_")
                found.setdefault(own, {})[name] = sample.value
    return found


def cells(core: float | None, limit: float | None, *memory: float | None) -> Cells:
    """What a reader is shown; "" instead of what is not known."""
    of = "" if limit is None else f" share {percent(limit)}"
    held = "" if memory[0] is None else held_of(*memory)
    return "" if core is None else plain(f"{percent(core)}{of}"), plain(held)


def shown(snapshot: Snapshot) -> dict[tuple[str, str], Cells]:
    """The cells of the page by entry and part; those of the entry itself are under ""."""
    markup = page(node_of(snapshot, About(), 0), Choice(all=True), 0, "")
    found: dict[tuple[str, str], Cells] = {}
    for key, entry in re.findall(r'<li data-k="(pod/[^"]*)">(.*?)</li>', markup, re.DOTALL):
        summary, _, parts = entry.partition("</summary>")
        core, memory = (each.partition(">")[2] for each in summary.split('"measured ')[1:])
        found[key, ""] = known(plain(core)), known(plain(memory))
        for of, row in re.findall(r'<tr class="part" data-k="([^"]*)">(.*?)</tr>', parts):
            columns = [plain(each) for each in re.findall(r"<td[^>]*>(.*?)</td>", row)]
            found[key, of] = known(columns[2]), known(columns[3])
    return found


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("seconds", [3, 60])
def test_page_and_metrics_show_the_same(name: str, seconds: int) -> None:
    snapshot = demo(seconds, name)
    found = shown(snapshot)
    containers = series(snapshot, "container", "namespace", "pod", "container", "uuid")
    for (namespace, pod, container, uuid), values in containers.items():
        expected = cells(*map(values.get, FIGURES))
        if any(expected):
            assert found[key_of("pod", namespace, pod), key_of(container, uuid)] == expected
    for labels, values in series(snapshot, "pod", "namespace", "pod").items():
        used, limit = values.get("core_usage_gpus"), values.get("core_limit_gpus")
        ratio = values.get("core_limit_utilization_ratio")
        core = ratio * limit if ratio is not None and limit else used
        memory = values.get("memory_used_bytes"), values.get("memory_limit_bytes")
        is_ended = all(name.endswith("_total") for name in values)
        shown_as = found[key_of("pod", *labels), ""]
        if is_ended:  # what it used within the averaging time stands beside it
            assert re.fullmatch(r"ended( [\d.]+ %)?", shown_as[0])
        else:
            assert shown_as == cells(core, limit, *memory)
    rows = {(key_of("pod", *labels[:2]), key_of(*labels[2:])) for labels in containers}
    assert {key for key in found if key[1]} <= rows, "a row of nothing"


def test_a_pod_whose_policy_lends_it_what_is_free_is_not_accused() -> None:
    markup = page(node_of(demo(60), About(), 0), Choice(all=True), 0, "")
    [entry] = re.findall(r'<li data-k="pod/inference/rerank[^"]*">.*?</li>', markup, re.DOTALL)

    assert "share\u00a010\u00a0%\u00a0+" in entry
    assert 'class="mark"' not in entry
    assert "over" not in " ".join(re.findall(r'class="([^"]*)"', entry)).split()


def test_a_process_of_a_job_inside_of_its_container_names_it() -> None:
    bench = Bench()
    bench.name_pod()
    bench.processes.identities[7] = CgroupIdentity("uid-1", CID)
    bench.processes.infos[7] = ProcessInfo("python", job="slurm/<31>")
    bench.use(7, 10**9 // 4)
    bench.cycle()
    snapshot = bench.cycle()
    for choice in (Choice(all=True), Choice(all=True, text="slurm/")):
        markup = page(node_of(snapshot, About(), 0), choice, 0, "")
        assert "python · slurm/&lt;31&gt;" in markup
    markup = page(node_of(snapshot, About(), 0), Choice(all=True, text="slurm/7"), 0, "")
    assert "python" not in markup


@pytest.mark.parametrize(("uid", "said"), [(1000, "alice"), (SEVERAL, "several users")])
def test_a_group_says_whose_it_is_or_that_it_is_several_users(uid: int, said: str) -> None:
    info = GroupFacts("jupyterhub.service", "alice" if uid > 0 else "", uid=uid)
    group = GroupHolding(
        owner=GroupKey("systemd", "jupyterhub.service"),
        index=0,
        uuid="GPU-0",
        ended=False,
        info=info,
    )
    snapshot = snapshot_of(devices=[DeviceFacts(device=DEVICE)], groups=[group])
    markup = page(node_of(snapshot, About(), 0), Choice(all=True), 0, "")
    assert ">jupyterhub.service<" in markup
    assert said in markup
