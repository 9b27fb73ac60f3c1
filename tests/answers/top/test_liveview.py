"""The live view, driven by textual's pilot; the feed is set by the test."""

import asyncio
import queue
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from exporter.answers.reading.feeds import FeedResult
from exporter.answers.reading.feeds.fleetlines import FleetFigures, Look, Sums
from exporter.answers.reading.feeds.overview import LineKind, SortKey
from exporter.answers.top.linetree import LineTree
from exporter.answers.top.liveview import Top
from exporter.httpclient import NoAnswerError
from tests.agent.api.nodes import crowded, demo, hostile
from tests.answers.reading.views import document, is_harmless, of_document, sight

PATIENCE_S = 60.0
CHAT = "chat-7b"

Step = Callable[[Top, Pilot[None]], Awaitable[None]]


class SetFeed:
    """A ``Feed`` that waits until the test has something to say, once for each read."""

    name = "test"

    def __init__(self, first: FeedResult) -> None:
        self._news: queue.SimpleQueue[FeedResult | Exception] = queue.SimpleQueue()
        self.say(first)

    def say(self, news: FeedResult | Exception) -> None:
        """Let the next read bring this."""
        self._news.put(news)

    def read(self) -> FeedResult:
        """What was said, when it is."""
        news = self._news.get()
        if isinstance(news, Exception):
            raise news
        return news

    def close(self) -> None:
        """Let the read that waits end."""
        self.say(NoAnswerError("closed"))


def drive(feed: SetFeed, *steps: Step, size: tuple[int, int] = (100, 30)) -> None:
    """Start the view, wait for its first lines, take these steps."""

    async def run() -> None:
        app = Top(feed, 0)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: shown(app))
            for step in steps:
                await step(app, pilot)
        feed.close()

    asyncio.run(run())


async def until(pilot: Pilot[None], true: Callable[[], object]) -> None:
    """Let the view work until this is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await pilot.pause()


def screen(app: Top) -> list[str]:
    """The lines of the screen."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def text(app: Top) -> str:
    return "\n".join(screen(app))


def tree(app: Top) -> LineTree:
    return app._tree


def shown(app: Top) -> list[str]:
    return [row.line.name for row in tree(app)._shown]


def pressing(*keys: str) -> Step:
    async def press(_: Top, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await pilot.pause()

    return press


def checking(check: Callable[[Top], None]) -> Step:
    async def look(app: Top, _: Pilot[None]) -> None:
        check(app)

    return look


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (40, 12), (200, 60), (20, 6)])
def test_it_fits_any_terminal(size: tuple[int, int]) -> None:
    def check(app: Top) -> None:
        lines = screen(app)
        assert len(lines) == size[1]
        assert {len(line) for line in lines} == {size[0]}
        if size[0] >= 80:
            assert "? help  q quit" in lines[-1]
            assert any("0 A100" in line and "%" in line for line in lines)

    drive(SetFeed(sight(demo())), checking(check), size=size)


def test_at_80_by_24_all_four_gpus_and_their_containers_are_on_the_screen() -> None:
    def check(app: Top) -> None:
        said = text(app)
        lines = screen(app)
        assert "node-1 · SIMULATED" in lines[0]
        assert " of 4 GPUs · memory " in lines[1]
        assert "CORE OF ONE GPU" in lines[2]
        for gpu in ("0 A100", "1 A100", "2 L40S", "3 L40S"):
            line = next(line for line in screen(app) if f"▾ {gpu}" in line)
            assert re.search(r"\d+W +\d+°C +\d+% ", line)
        for container in (CHAT, "rerank", "speech-", "recognise", "transcode-0", "-4hz7c"):
            assert container in said
        assert "container server" in said or "power" in said
        assert "q quit" in screen(app)[-1]

    drive(SetFeed(sight(demo())), checking(check), size=(80, 24))


def test_what_does_not_fit_is_counted_and_shown_on_request() -> None:
    def cut(app: Top) -> None:
        assert len(shown(app)) <= tree(app).size.height
        assert sum(row.more for row in tree(app)._shown) > 0
        assert re.search(r"A100-SXM4-80GB \+\d", text(app))

    def all_of_them(app: Top) -> None:
        assert len(shown(app)) > tree(app).size.height
        assert not any(row.more for row in tree(app)._shown)

    drive(
        SetFeed(sight(demo())),
        *(checking(cut), pressing("a"), checking(all_of_them)),
        *(pressing("a"), checking(cut)),
        size=(80, 14),
    )


def test_depth_and_folding_show_and_hide() -> None:
    def gpus(app: Top) -> None:
        assert len(shown(app)) == 4
        assert "▸ 0 A100" in text(app)

    def first_unfolded(app: Top) -> None:
        assert len(shown(app)) > 4
        assert "▸ 1 A100" in text(app)
        assert CHAT in text(app)

    def all_again(app: Top) -> None:
        assert "2001 server" in text(app)

    drive(
        SetFeed(sight(demo())),
        *(pressing("1"), checking(gpus), pressing("right"), checking(first_unfolded)),
        *(pressing("left"), checking(gpus), pressing("4"), checking(all_again)),
        *(pressing("home", "space"), pressing("space")),
        checking(all_again),
    )


def test_the_keys_move_and_the_ends_are_ends() -> None:
    def last(app: Top) -> None:
        assert tree(app).selected is tree(app)._shown[-1].line

    def first(app: Top) -> None:
        assert tree(app).selected is tree(app)._shown[0].line

    drive(
        SetFeed(sight(demo())),
        *(pressing("end", "down"), checking(last)),
        *(pressing("home", "up"), checking(first)),
        *(pressing(*["pagedown"] * 4), checking(last), pressing(*["pageup"] * 4), checking(first)),
    )


def test_a_source_that_is_down_is_said_above_the_table() -> None:
    whole = document(demo())
    whole["sources"][0] |= {"up": False, "detail": "no \x1b[31mdriver"}
    said = r"! source simulated is down: no \x1b[31mdriver"

    async def look(app: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: said in screen(app)[2])

    drive(SetFeed(of_document(whole)), look)


def test_hostile_names_neither_act_nor_are_markup() -> None:
    made = document(hostile())
    made["node"] = "[bold red]node[/] \x1b[2J"
    device = made["devices"][0]
    device["info"]["model"] = "[link=file:///etc/passwd]A100[/link]\x1b]0;x\x07"

    def check(app: Top) -> None:
        assert is_harmless(text(app))
        assert "[bold red]node[/]" in text(app)
        assert "[link=file:///etc/passwd]A100[/link]" in text(app)
        assert r"\x1b" in text(app)

    drive(
        SetFeed(of_document(made)),
        *(checking(check), pressing("slash", *"[b]"), pressing("escape"), pressing("end")),
        checking(check),
        size=(160, 60),
    )


def test_colour_is_only_an_addition(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(app: Top) -> None:
        assert app.no_color
        colours = {
            channel
            for strip in app.screen._compositor.render_strips()
            for segment in strip.apply_filter(app._filters[-1], app.background_colors[1])
            if segment.style is not None and segment.style.color is not None
            for channel in [segment.style.color.get_truecolor()]
        }
        assert all(max(c) - min(c) <= 1 for c in colours)
        assert "┃" in text(app)
        assert "▓" in text(app)

    monkeypatch.setenv("NO_COLOR", "1")
    drive(SetFeed(sight(demo())), checking(check))


def test_a_crowded_node_is_shown_by_the_rows_that_are_seen() -> None:
    def check(app: Top) -> None:
        assert len(shown(app)) > 1000
        assert "worker-" in text(app)

    drive(SetFeed(sight(crowded())), pressing("4", "end", "home", "c"), checking(check))


def test_a_click_on_a_title_sorts_and_one_on_a_line_chooses_it() -> None:
    async def click(app: Top, pilot: Pilot[None]) -> None:
        at = screen(app)[2].index("MEM")
        await pilot.click("#head", offset=(at + 1, 0))
        await pilot.pause()
        assert tree(app).arrangement.by is SortKey.MEMORY
        await pilot.click("#tree", offset=(20, 3))
        await pilot.pause()
        assert tree(app).selected is tree(app)._shown[3].line

    drive(SetFeed(sight(demo())), click)


def test_keys_sort_the_same_again_reverses_and_s_goes_through_all() -> None:
    seen: list[tuple[SortKey, bool]] = []

    def note(app: Top) -> None:
        seen.append((tree(app).arrangement.by, tree(app).arrangement.reverse))
        assert f"by {tree(app).arrangement.by}" in screen(app)[0]

    keys = ("c", "m", "l", "p", "n", "n", "r", *("s" for _ in SortKey))
    drive(
        SetFeed(sight(demo())), *(step for key in keys for step in (pressing(key), checking(note)))
    )

    assert seen[:7] == [
        *((SortKey.CORE, False), (SortKey.MEMORY, False), (SortKey.SHARE, False)),
        *((SortKey.PID, False), (SortKey.NAME, False), (SortKey.NAME, True), (SortKey.NAME, False)),
    ]
    assert sorted(by for by, _ in seen[7:]) == sorted(SortKey)


def test_what_is_typed_right_behind_the_slash_is_text_of_the_filter() -> None:
    """As from a paste, or from fast fingers: c, a and s are keys of their own otherwise."""

    async def typed(app: Top, pilot: Pilot[None]) -> None:
        before = app._tree.arrangement
        for key in "/cas/n":
            app.post_message(events.Key("slash" if key == "/" else key, key))
        await until(pilot, lambda: app._filter.value == "cas/n")
        assert app._tree.arrangement == before._replace(needle="cas/n")

    drive(SetFeed(sight(demo())), typed)


def test_the_help_scrolls_in_a_small_terminal() -> None:
    async def scrolled(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        (box,) = app.screen.query("#help")
        assert box.max_scroll_y > 0
        await pilot.press("end")
        await until(pilot, lambda: box.scroll_y == box.max_scroll_y)

    drive(SetFeed(sight(demo())), scrolled, size=(80, 24))


def test_a_filter_narrows_while_it_is_typed_and_goes_with_escape() -> None:
    def narrowed(app: Top) -> None:
        assert len(shown(app)) == 2
        assert all(CHAT in name or "A100" in name for name in shown(app))
        assert "filter 'chat'" in screen(app)[0]

    def nothing(app: Top) -> None:  # q, m and c are no commands there
        assert "no match for the filter" in text(app)
        assert tree(app).arrangement.by is SortKey.NAME

    def whole(app: Top) -> None:
        assert len(shown(app)) > 10
        assert not app._filter.display

    drive(
        SetFeed(sight(demo())),
        *(pressing("slash", *"chat"), checking(narrowed), pressing("enter"), checking(narrowed)),
        *(pressing("slash", *"qmc"), checking(nothing), pressing("escape"), checking(whole)),
    )


def test_the_cursor_stays_on_its_line_or_goes_above_it_when_others_come_and_go() -> None:
    feed = SetFeed(sight(demo()))
    chosen: list[Any] = []

    async def choose(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("a")  # or those that fit would be others at each step
        at = next(n for n, name in enumerate(shown(app)) if "notebook-alice" in name)
        await pilot.press(*["down"] * at)
        chosen.append(tree(app).selected)
        feed.say(without("rerank"))
        await until(pilot, lambda: not any("rerank" in name for name in shown(app)))

    def there(app: Top) -> None:
        selected = tree(app).selected
        assert selected is not None
        assert selected.key == chosen[0].key
        assert "pod research/notebook-alice-0" in text(app)

    async def lose(app: Top, pilot: Pilot[None]) -> None:
        feed.say(without(""))
        await until(pilot, lambda: len(shown(app)) < 12)
        selected = tree(app).selected
        assert selected is not None
        assert selected.kind is LineKind.DEVICE

    drive(feed, choose, checking(there), lose)


def without(words: str) -> FeedResult:
    """The demo without the pods whose names hold these words."""
    less = document(demo())
    less["pods"] = [pod for pod in less["pods"] if words not in pod["pod"]]
    return of_document(less)


def test_help_explains_and_goes_away_and_figures_go_on_behind_it() -> None:
    feed = SetFeed(sight(demo()))

    def explained(app: Top) -> None:
        assert "end of the allocation" in text(app)
        assert "never 0" in text(app)

    async def look(app: Top, pilot: Pilot[None]) -> None:
        feed.say(without(""))
        await until(pilot, lambda: len(shown(app)) < 12)
        await pilot.press("q")
        await until(pilot, lambda: "GPU 0 A100" in text(app))
        assert app.is_running
        assert CHAT not in text(app)
        assert "end of the allocation" not in text(app)

    drive(feed, pressing("question_mark"), checking(explained), look, size=(80, 24))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NoAnswerError("http://node:1 does not answer"), "http://node:1 does not answer"),
        (NoAnswerError("it says \x1b[2J\x07"), "it says \\x1b[2J\\x07"),
        (KeyError("odd"), "unexpected: KeyError('odd')"),
    ],
)
def test_when_the_feed_fails_the_last_figures_stay_and_it_is_said(
    error: Exception, said: str
) -> None:
    feed = SetFeed(sight(demo()))

    async def fail(app: Top, pilot: Pilot[None]) -> None:
        feed.say(error)
        await until(pilot, lambda: said in text(app))
        assert CHAT in text(app)
        feed.say(sight(demo()))
        await until(pilot, lambda: said not in text(app))

    drive(feed, fail)


def test_frozen_figures_stand_until_they_are_let_go() -> None:
    feed = SetFeed(sight(demo()))

    async def freeze(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("z")
        feed.say(without(""))
        feed.say(NoAnswerError("read after it"))
        await until(pilot, lambda: "read after it" in text(app))
        assert CHAT in text(app)
        assert "FROZEN" in screen(app)[0]
        await pilot.press("z")
        feed.say(without(""))
        await until(pilot, lambda: CHAT not in text(app))

    drive(feed, freeze)


class GuidedSetFeed(SetFeed):
    """The same of a fleet: it notes what the screen shows."""

    def __init__(self, first: FeedResult) -> None:
        super().__init__(first)
        self.looks: list[Look] = []

    def look(self, look: Look) -> None:
        """Note it."""
        self.looks.append(look)

    def parts(self) -> Iterator[FeedResult]:
        """Nothing: this feed is for a screen."""
        yield from ()


def fleet(*nodes: int) -> FleetFigures:
    """Nodes, each with as many GPUs in use as its number."""
    rows = [Sums({"instance": f"gpu-{one}"}, core=one, gpus=8.0) for one in nodes]
    teams = [Sums({"namespace": "team-a"}, core=3.0, pods=9.0)]
    return FleetFigures(Sums({}, nodes=300.0, gpus=2400.0, core=99.5, pods=9000.0), rows, teams)


def test_of_a_fleet_what_is_open_or_filtered_is_asked() -> None:
    feed = GuidedSetFeed(FeedResult(fleet=fleet(1, 7, 5)))

    async def look(app: Top, pilot: Pilot[None]) -> None:
        assert "core 99.50 of 2400 GPUs" in text(app)
        assert "9000 pods" in text(app)
        rows = ["namespaces", "team-a", "nodes, the largest of 300", "gpu-7", "gpu-5", "gpu-1"]
        assert [name.partition(";")[0] for name in shown(app)] == rows
        await pilot.press("j", "j", "j", "right")
        await until(pilot, lambda: feed.looks[-1].opened == {("gpu-7",)})
        [node] = sight(demo()).nodes
        feed.say(FeedResult([replace(node, name="gpu-7")], fleet=fleet(1, 7, 5)))
        feed.say(FeedResult([replace(node, name="gpu-7")], fleet=fleet(1, 7, 5)))
        await until(pilot, lambda: any("A100" in name for name in shown(app)))
        assert not any("gpu-7 0" in name for name in shown(app))  # its cards are below it
        await pilot.press("left", "a")
        await until(pilot, lambda: feed.looks[-1].all and not feed.looks[-1].opened)
        await pilot.press("m", "slash", "c", "h")
        await until(pilot, lambda: feed.looks[-1][3:] == ("ch", SortKey.MEMORY))

    drive(feed, look)
