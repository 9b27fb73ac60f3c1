"""The page as a client gets it: what it says, what it may do, and to whom it is shown."""

import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest

from exporter.agent.api import About
from exporter.agent.web.page import choice_of, node_of, page
from exporter.agent.web.page.cards import Gpu, card_of
from exporter.agent.web.page.cells import core_against, memory_against
from exporter.agent.web.page.choice import SORTS
from exporter.agent.web.page.entries import colours, entries
from exporter.agent.web.page.glossary import meanings
from exporter.agent.web.page.templates import seen
from exporter.inputs.values import Address
from exporter.model import (
    NO_AVERAGES,
    AllocationFacts,
    Averages,
    ContainerKey,
    Device,
    DeviceFacts,
    DeviceState,
    Granted,
    Sensors,
    Snapshot,
    Unmeasured,
)
from exporter.shown.marks import MAKE_ROOM, MarkKind
from exporter.shown.processtree import tree_of_snapshot
from exporter.shown.words import memory
from tests.agent.api.nodes import HOSTILE, crowded, demo, failing, hostile
from tests.agent.simulation.clock import SECOND
from tests.agent.web.serving import PATIENCE_S, Site, serving
from tests.snapshots import container, snapshot_of

ROOT = Path(__file__).parents[3]
FILES = ("page.css", "page.js", "icon.svg")
EVERYWHERE = Address("0.0.0.0", 0)  # noqa: S104 - what is asked of it is the test
VOID = {"input", "link", "meta"}


class Reader(HTMLParser):
    """Reads markup strictly: every element that opens is closed, in order."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.names.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It ends what was opened last."""
        assert self.open.pop() == tag


def html(made: Snapshot, path: str = "/") -> str:
    """The page of a fresh snapshot, as a client gets it."""
    query = dict(parse_qsl(path.partition("?")[2], keep_blank_values=True))
    return page(node_of(made, About(), 0), choice_of(query), 0, "/metrics")


def text_of(site: Site, path: str = "/") -> str:
    got = site.ask(path)
    assert got.status == 200
    return got.body.decode()


def words_of(markup: str) -> str:
    """Its text; the age's own element is within a sentence."""
    plain = re.sub(r'<span class="since">([^<]*)</span>', r"\1", markup)
    plain = re.sub(r'<span aria-hidden="true"><span>.*?</bdi>', "</bdi>", plain)  # the short form
    return unescape(re.sub(r"<[^>]+>", " ", plain)).replace("\u00a0", " ")


def test_the_page_shows_gpus_pods_containers_and_processes() -> None:
    words = " ".join(words_of(html(demo())).split())

    assert "GPU 0 NVIDIA A100-SXM4-80GB" in words
    assert "chat-7b-6c9f7d9c5b-x2lqz server · inference 14 % share 40 % 27.0 of 32.0 GiB" in words
    assert "server pid 2001 C 14 % 27.0 GiB" in words
    assert "Simulated node: nothing here is measured." in words


def test_many_different_pages_at_once_do_not_hold_up_the_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go = threading.Event()

    def slow(*arguments: Any) -> str:
        assert go.wait(PATIENCE_S)
        return page(*arguments)

    monkeypatch.setattr("exporter.agent.web.live.page", slow)
    with serving(demo()) as site, ExitStack() as opened:
        readers = [opened.enter_context(site.raw()) for _ in range(30)]
        for number, reader in enumerate(readers):
            reader.sendall(f"GET /?q={number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert site.ask("/-/ready").status == 200  # by now they wait, each for a page of its own
        metrics = site.ask("/metrics")
        go.set()
        first = {reader.recv(12) for reader in readers}
    assert metrics.status == 200
    assert first == {b"HTTP/1.1 200"}


@pytest.mark.parametrize("made", [Snapshot, demo, failing, hostile, crowded])
@pytest.mark.parametrize("path", ["/", "/?all=1", "/?q=gpu0", "/?sort=name"])
def test_the_markup_is_whole_and_has_nothing_inline(
    made: Callable[[], Snapshot], path: str
) -> None:
    page = Reader(html(made(), path))

    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | {"style"} & names
    assert "style" not in page.names
    assert page.names.count("script") == 1


@pytest.mark.parametrize("name", [name for name in HOSTILE if "<" in name or "'" in name])
def test_hostile_names_are_text(name: str) -> None:
    page = html(hostile(), f"/?q={quote(name)}")

    assert name not in page
    assert name in unescape(page)


def test_what_is_unseen_is_shown() -> None:
    page = html(hostile())

    assert not re.search("[\u202a-\u202e\x00]", page)
    assert "\ufffdgnp.exe" in page


def test_the_policy_forbids_what_the_page_does_not_need() -> None:
    with serving(demo()) as site:
        policy = site.ask("/").headers["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "trusted-types 'none'" in policy
    assert "unsafe" not in policy
    assert "//" not in policy


def test_nothing_comes_from_elsewhere() -> None:
    with serving(demo()) as site:
        files = {name: site.ask(f"/static/{name}").body.decode() for name in FILES}
        page = text_of(site)

    assert not re.search(r"(src|href|action)=\"(https?:|/)", page)
    assert not re.search(r"url\(|@import", files["page.css"])
    assert "://" not in files["page.js"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_sent_once(name: str) -> None:
    with serving() as site:
        first = site.ask(f"/static/{name}")
        zipped = site.ask(f"/static/{name}", Accept_Encoding="gzip")
        again = site.ask(f"/static/{name}", If_None_Match=first.headers["Etag"])

    assert (first.status, again.status, again.body) == (200, 304, b"")
    assert first.headers["Cache-Control"] == "no-cache"
    assert zipped.headers["Content-Encoding"] == "gzip"


@pytest.mark.parametrize("path", ["/static/", "/static/../app.py", "/static/page.py"])
def test_there_are_no_other_files(path: str) -> None:
    with serving() as site:
        assert site.ask(path).status == 404


def test_a_page_is_made_once_for_a_snapshot_and_a_choice() -> None:
    with serving(demo()) as site:
        first, second = site.ask("/"), site.ask("/")
        other = site.ask("/?sort=name")
        known = site.ask("/", If_None_Match=first.headers["Etag"])

    assert first.body == second.body != other.body
    assert known.status == 304


def test_the_live_page_is_not_for_everybody() -> None:
    with serving(demo(), address=EVERYWHERE) as site:
        landing = site.ask("/")
        private = [site.ask(path).status for path in ("/api/v1/snapshot", "/static/page.js")]

    assert landing.status == 200
    assert b"chat-7b" not in landing.body
    assert private == [403, 403]


def test_an_open_page_is() -> None:
    with serving(demo(), address=EVERYWHERE, web_open_page=True) as site:
        assert b"chat-7b" in site.ask("/").body


def test_a_filter_keeps_what_holds_all_its_words() -> None:
    page = words_of(html(demo(), "/?q=INFERENCE+chat"))
    nothing = words_of(html(demo(), "/?q=nowhere"))

    assert "chat-7b" in page
    assert "notebook-bob" not in page
    assert nothing.count("No GPU, pod, owner or process has all words of the filter.") == 1
    assert "None." not in nothing
    assert re.search(r"Pods and processes\s+\d+ of \d+", page)


def test_a_filter_knows_models_owners_and_sharing_systems() -> None:
    by_model = words_of(html(demo(), "/?q=a100"))
    by_owner = words_of(html(demo(), "/?q=replicaset"))
    by_scheme = words_of(html(demo(), "/?q=mgpu"))

    assert re.search(r"GPUs\s+[1-9]", by_model)
    for words in (by_model, by_owner, by_scheme):
        assert "No match." not in words
        assert "These sums are of the whole node." in words


def test_a_gpu_that_cannot_be_read_is_in_the_title_the_banner_and_the_sums() -> None:
    markup = html(failing())

    assert title_of(markup).startswith("(!) ")
    [banner] = re.findall(r'<p class="banner bad" role="alert" data-k="unread">(.*?)</p>', markup)
    [link] = re.findall(r'href="#(gpu-[^"]+)"', banner)
    assert f'id="{link}"' in markup
    assert re.search(r"1 of \d+ GPUs cannot be read", words_of(banner))
    assert "(1 unknown)" in words_of(markup)


def test_a_gpu_that_is_lost_with_its_instances_is_one(tmp_path: Path) -> None:
    mig = tmp_path / "mig.yaml"
    lost = "faults: [{device: 0, state: lost, from: 3s}]"
    mig.write_text(f"{(ROOT / 'examples/demo/mig.yaml').read_text()}\n{lost}\n")

    said = words_of(html(demo(20, str(mig))))

    assert "1 of 2 GPUs cannot be read" in said
    assert "of 2 GPUs (1 unknown)" in said


@pytest.mark.parametrize(("unmeasured", "said"), [(1, "of 4 GPUs (1 unknown)"), (4, "(4 unknown)")])
def test_a_gpu_whose_core_use_is_not_known_counts_as_one(unmeasured: int, said: str) -> None:
    made = demo()
    devices = [
        replace(device, average=NO_AVERAGES) if number < unmeasured else device
        for number, device in enumerate(made.facts.devices)
    ]
    facts = replace(made.facts, devices=tuple(devices))
    words = words_of(html(replace(made, measured=lambda: facts)))
    assert said in words
    assert "of 256.0 GiB" in words  # memory is known of all
    assert ("Core in use ?" in " ".join(words.split())) is (unmeasured == len(devices))


def test_a_gpu_that_needs_a_reset_comes_first_in_every_order_but_that_of_numbers() -> None:
    made = demo()
    last = [*cards_of(html(made))][-1]
    devices = tuple(
        replace(device, sensors=Sensors.of(recovery_action=1))
        if last == f"GPU {device.index}"
        else device
        for device in made.facts.devices
    )
    facts = replace(made.facts, devices=devices)

    for sort in SORTS:
        cards = [*cards_of(html(replace(made, measured=lambda: facts), f"/?sort={sort}"))]
        assert cards[0] == (last if sort else "GPU 0")
    first = made.facts.devices[0]
    many = [
        replace(first, device=replace(first.device, index=index, uuid=f"GPU-{index}"))
        for index in range(60)
    ]
    many[-1] = replace(many[-1], sensors=Sensors.of(recovery_action=1))
    facts = replace(made.facts, devices=tuple(many))
    cards = [*cards_of(html(replace(made, measured=lambda: facts), "/?q=gpu-"))]
    assert (len(cards), cards[0], cards[-1]) == (24, "GPU 0", "GPU 59")  # it is not cut off


def test_an_order_that_is_not_by_number_is_said() -> None:
    said = "not in the order of their numbers: faults first, then by core use in ten minutes."
    assert said in " ".join(words_of(html(demo(), "/?sort=core")).split())
    assert "order of their numbers" not in words_of(html(demo()))


def test_it_says_over_which_time_core_and_memory_are() -> None:
    node = node_of(demo(), About(window_ns=15 * SECOND), 0)

    words = " ".join(words_of(page(node, choice_of({}), 0, "/metrics")).split())

    assert "Core is the average of the last 15 s, memory is what is held now." in words


def test_a_node_whose_gpus_are_read_has_no_alarm() -> None:
    markup = html(demo())

    assert not title_of(markup).startswith("(!)")
    assert "cannot be read" not in markup


def title_of(markup: str) -> str:
    """The title of a page, as the browser's tab shows it."""
    title = re.findall("<title>(.*?)</title>", markup)[0]
    return unescape(title)


@pytest.mark.parametrize("query", ["sort=nonsense", "q=" + "x" * 1500, "all=2", "q=%00%ff&sort="])
def test_a_query_that_makes_no_sense_is_left_aside(query: str) -> None:
    with serving(demo()) as site:
        assert site.ask(f"/?{query}").status == 200


def test_pods_are_sorted_as_asked() -> None:
    names = re.findall(r'<details class="entry" data-k="pod/([^"]+)"', html(demo(), "/?sort=name"))

    assert names == sorted(names)


def test_gpus_are_sorted_as_their_owners_and_parts_of_a_board_stay_together() -> None:
    with serving(demo()) as site, serving(demo(20, "mixed")) as mixed:
        orders = {sort: [*cards_of(text_of(site, f"/?sort={sort}"))] for sort in SORTS}
        parts = [*cards_of(text_of(mixed))]

    gpus = {device.index: device for device in demo().facts.devices}
    held = sorted(gpus, key=lambda index: -(gpus[index].memory.used_bytes or 0))
    assert orders["memory"] == [f"GPU {index}" for index in held]
    assert orders["name"] == [f"GPU {index}" for index in sorted(gpus)]
    assert orders["core"] != orders["name"]
    assert orders[""] == orders["name"]
    first = parts.index("GPU 100")
    assert parts[first : first + 9] == ["GPU 100", *(f"GPU 100-{part}" for part in range(8))]


def test_an_owner_has_one_colour_on_all_its_devices() -> None:
    everyone = entries(tree_of_snapshot(demo(20, "mixed")), off_kubernetes=False)
    found: dict[tuple[str, str], set[int]] = {}
    for (key, name, _), colour in colours(everyone).items():
        found.setdefault((key, name), set()).add(colour)

    assert max(len({part.uuid for part in entry.parts}) for entry in everyone) > 1
    assert {len(each) for each in found.values()} == {1}


def test_partitions_are_numbered_and_only_whole_gpus_are_counted() -> None:
    words = " ".join(words_of(html(demo(20, "mixed"))).split())

    assert "of 5 GPUs" in words
    numbers = [f"GPU {board}-{part} cpx_nps1" for board in (100, 101) for part in range(8)]
    assert [number for number in numbers if words.count(number) != 1] == []
    assert "GPU 203 Intel Arc B580" in words
    assert "GPUs 5" in words
    assert "100-1, 100-2" in words  # where finetune-0 is, in the list


def test_a_crowd_is_bounded_until_all_is_asked_for() -> None:
    some, everything = html(crowded()), html(crowded(), "/?all=1")

    assert (some.count("<article"), everything.count("<article")) == (24, 64)
    assert some.count('<details class="entry"') == 60
    assert everything.count('<details class="entry"') >= 500
    assert "40 GPUs more" in words_of(some)


def test_what_cannot_be_measured_is_said_with_its_reason_and_is_not_zero() -> None:
    words = " ".join(words_of(html(failing())).split())

    assert "This GPU cannot be read. The device is lost. It has fallen off the bus" in words
    assert "train main · ml unknown: GPU lost unknown: GPU lost" in words
    assert "cgroups hostPID is not set" in words
    assert "Set hostPID: true in the exporter's pod." in words


def test_a_memory_bar_is_left_out_where_the_total_is_not_known() -> None:
    found = html(demo(20, "mixed")).partition("Arc B580")[2].partition("</article>")[0]

    gauge = found.partition(">Memory<")[2].partition('class="who"')[0]
    assert '<svg class="bar"' not in gauge
    assert "1.5 GiB" in words_of(found)


def test_nothing_is_said_to_run_where_a_gpu_cannot_be_read() -> None:
    idle = Gpu(DeviceFacts(device=Device("GPU-0", 0, "nvidia")), (), 0.0, (), {})
    lost = idle._replace(facts=replace(idle.facts, state=DeviceState.LOST))

    assert card_of(idle, ()).nobody == "Nothing runs on it."
    assert not card_of(lost, ()).nobody


def test_a_stale_snapshot_shows_no_figures() -> None:
    with serving(demo()) as site:
        site.clock.now_ns += 30 * SECOND
        page = text_of(site)

    assert "Nothing was measured for 30 s." in words_of(page)
    assert "<article" not in page
    assert 'role="alert"' in page


def test_without_scripts_the_page_comes_again_by_itself() -> None:
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in html(demo())


def cards_of(markup: str) -> dict[str, str]:
    """The markup of each card, by its GPU's name."""
    starts = [each.start() for each in re.finditer(r'<(?:article|details) class="gpu', markup)]
    ends = [*starts[1:], markup.index('id="tree"')]
    cards = [markup[start:end] for start, end in zip(starts, ends, strict=True)]
    return {words_of(re.findall(r"<h[34][^>]*>(.*?)</h", card)[0]): card for card in cards}


def test_both_bars_of_a_partition_are_of_the_partition() -> None:
    card = cards_of(html(demo(20, "mixed")))["GPU 100-1"]

    widths = re.findall(r'<rect class="c\d" [^>]*width="([\d.]+)%"', card)
    assert "of 12 %" in words_of(card)
    assert max(map(float, widths)) > 60  # of its eighth, not of the board


def test_a_gpu_on_which_nothing_works_is_folded() -> None:
    cards = cards_of(html(demo(20, "mixed")))

    assert '<details class="gpu idle' in cards["GPU 100-7"]
    assert "idle · nothing runs on it" in words_of(cards["GPU 100-7"])
    assert "idle" not in cards["GPU 100-1"]
    assert '<article class="gpu board"' in cards["GPU 100"]  # something works on a part of it


def test_the_sources_are_folded_while_all_answer() -> None:
    with serving(demo()) as well, serving(failing()) as ill:
        assert '<details class="sources"' in text_of(well)
        assert '<section class="sources"' in text_of(ill)


def test_the_end_of_a_long_name_is_apart_so_that_it_stays_visible() -> None:
    page = html(demo())

    names = re.findall(
        r'<bdi class="name cut" title="([^"]+)"><span>([^<]+)</span>'
        r'<span aria-hidden="true"><span>([^<]+)</span><span>([^<]+)</span></span>',
        page,
    )
    assert names
    assert all(title == whole == head + tail for title, whole, head, tail in names)


def charts_of(markup: str) -> list[tuple[str, list[str]]]:
    """Of each chart, its own words and those of its minutes."""
    return [
        (words_of(re.findall(r"<figcaption>(.*?)</figcaption>", figure)[0]), minutes_of(figure))
        for figure in re.findall(r"<figure (.*?)</figure>", markup)
    ]


def minutes_of(figure: str) -> list[str]:
    found = re.findall(r'<span class="at"[^>]* aria-label="([^"]*)"', figure)
    return [unescape(each).replace("\u00a0", " ") for each in found]


@pytest.mark.slow
def test_a_gpu_shows_its_last_hour_on_request() -> None:
    plain = html(demo(150))
    [key] = re.findall(r'value="(gpu-[^"]+)"', html(demo(150), "/?sort=name"))[:1]
    markup = html(demo(150), f"/?hour={key}")

    assert "<figure" not in plain
    (core, minutes), (memory, _) = charts_of(markup)
    assert re.match(r" Core +now \d+ %, mean \d+ %, most \d+ %, allocated 70 %", core)
    assert re.match(r" Memory +now 3\d\.\d GiB", memory)
    assert len(minutes) == 60
    assert re.fullmatch(r"\d\d:\d\d UTC: not measured", minutes[0])
    said = re.fullmatch(
        r"\d\d:\d\d UTC: ([\d.]+) %(?:, at most [\d.]+ %)?((?:; .+ .+ .+ %)+)", minutes[-1]
    )
    assert said is not None
    parts = [float(part) for part in re.findall(r" ([\d.]+) %", said[2])]
    assert sum(parts) == pytest.approx(float(said[1]), abs=3)  # as they are rounded
    assert len(re.findall(r'<path class="area c\d" d="M', markup)) >= 2 * len(parts)


def test_use_beyond_its_limit_is_more_than_the_limit_as_it_is_written() -> None:
    assert core_against(0.1006, 0.1, over=True).text.split() == ["10.06", "%"]
    assert core_against(0.1006, 0.1).text.split() == ["10", "%"]  # who may borrow
    assert core_against(0.12, 0.1, over=True).text.split() == ["12", "%"]
    assert memory_against(8.04 * 2**30, 8 * 2**30, over=True).text == "8.04"
    assert memory_against(9 * 2**30, 8 * 2**30, over=True).text == "9.0"


def test_a_pod_shows_the_last_hour_of_each_container() -> None:
    [key] = re.findall(r'value="(pod/media/speech[^"]+)"', html(demo(30)))
    markup = html(demo(30), f"/?hour={key}")

    assert [words.split(" now ")[0].strip() for words, _ in charts_of(markup)] == [
        *("Core of the pod", "Memory of the pod"),
        *("Core of recognise on GPU 1", "Memory of recognise on GPU 1"),
        *("Core of synthesise on GPU 1", "Memory of synthesise on GPU 1"),
    ]
    assert f'<details class="entry" data-k="{key}" open>' in markup


def test_the_last_hour_of_nothing_is_none() -> None:
    assert "<figure" not in html(demo(), "/?hour=pod/no/such")


def test_an_hour_in_charts_costs_little() -> None:
    """The charts have bounded parts."""
    [key] = re.findall(r'value="(gpu-[^"]+)"', html(demo(30)))[:1]
    more = len(html(demo(30), f"/?hour={key}")) - len(html(demo(30)))

    assert 5_000 < more < 40_000


def test_every_word_that_can_be_asked_for_has_its_meaning() -> None:
    for made in (demo(), demo(20, "mixed"), failing()):
        markup = html(made)
    asked = set(re.findall(r'popovertarget="([^"]+)"', markup))
    answered = re.findall(r'<div id="([^"]+)" class="meaning" popover="auto"', markup)

    assert {"word-core", "word-memory", "word-unattributed", "word-reason"} <= asked
    assert asked <= set(answered)
    assert len(set(answered)) == len(answered)


def test_the_meanings_are_those_of_the_glossary() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text().replace("`", "")

    assert all(f"| {text} |" in glossary for text in meanings().values())


def test_off_kubernetes_the_page_speaks_of_jobs_units_and_users() -> None:
    shown = html(demo(20, "hpc")).partition('<div class="words"')[0]
    words = " ".join(words_of(shown).split())

    assert not re.search(r"\bPods?\b|\bpods?\b|outside Kubernetes|Container Core", words)
    assert re.search(r"Jobs \d+ .*Units \d+ .*Users \d+", words)
    assert re.search(r"Jobs, .*with processes \d+ Owner GPU", words)


def test_who_waits_on_a_full_gpu_and_who_runs_meanwhile_are_both_marked() -> None:
    full = DeviceFacts(device=Device("GPU-1", 0, "nvidia"), average=Averages(1.0))
    waits = container(
        average=Averages(0.1, waiting=0.63), allocation=AllocationFacts((Granted("s"),), 0.5)
    )
    runs = container(owner=ContainerKey("batch", "crawl-0", "main"), average=Averages(0.9))
    tree = tree_of_snapshot(snapshot_of(devices=[full], containers=[waits, runs]))

    marks = {
        entry.name: [(mark.kind, mark.detail) for part in entry.parts for mark in part.marks]
        for entry in entries(tree, off_kubernetes=False)
    }

    victim = waits.owner.pod
    said = f"it waits up to 63% of the time, most for batch/crawl-0. To do: {MAKE_ROOM}"
    assert marks == {
        victim: [(MarkKind.WAITING, said)],
        "crawl-0": [(MarkKind.CROWDS, f"waiting most for it: {waits.owner.namespace}/{victim}")],
    }


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (100, "<1 MiB"),
        (1023.4 * (1 << 20), "1023 MiB"),
        (1023.7 * (1 << 20), "1.0 GiB"),
        (27 << 30, "27.0 GiB"),
    ],
)
def test_memory_that_is_held_is_not_0_and_1024_mib_are_a_gib(count: float, text: str) -> None:
    assert memory(count).replace("\u00a0", " ") == text


@pytest.mark.parametrize("hidden", "\u061c\u200b\u2028\u2066\ufeff\U000e0041\x7f")
def test_a_character_without_width_makes_no_name_like_another_one(hidden: str) -> None:
    assert seen(f"root{hidden}") == "root\ufffd"


def test_memory_that_no_gpu_tells_is_not_0() -> None:
    card = DeviceFacts(
        device=Device("GPU-1", 0, "nvidia"),
        unmeasured={"device_memory": Unmeasured.NOT_SUPPORTED},
        average=Averages(core=0.5),
    )
    made = page(node_of(snapshot_of(devices=[card]), About(), 0), choice_of({}), 0.0, "/metrics")
    text = " ".join(unescape(re.sub("<[^>]+>", " ", made)).split())
    assert "Memory in use ? of ?" in text
    assert "Memory unknown: not supported" in text
