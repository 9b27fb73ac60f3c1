"""The live page in a real browser, with scripts and without."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.hostuse import HostUse, HostUses
from exporter.model import DeviceAllocation, DeviceMemoryFacts, Snapshot
from tests.agent.api.nodes import crowded, demo, failing, hostile
from tests.agent.web.browser import Tab
from tests.agent.web.looking import Watched, answered, go, show
from tests.agent.web.serving import Site

pytestmark = pytest.mark.program("chromium")

ROOT = Path(__file__).parents[3]
HEIGHTS = "[...document.querySelectorAll('.cards > .gpu')].map((card) => card.offsetHeight)"
OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
STRUCTURE = """(() => {
    const told = (node) => node.nodeType === Node.TEXT_NODE ? node.data
        : [node.nodeName.toLowerCase(),
           Object.fromEntries([...node.attributes].map((a) => [a.name, a.value]).sort()),
           [...node.childNodes].map(told)];
    return JSON.stringify(told(document.getElementById('main')));
})()"""
TEXTS = ".map((each) => each.textContent)"
ENTRIES = "[...document.querySelectorAll('details.entry')].map((each) => each.dataset.k)"
OVERFLOWING = """[...document.querySelectorAll('body *')]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
    .filter((each) => !each.closest('.scroll, .sr, .who th'))
    .map((each) => `${each.tagName}.${each.getAttribute('class')}`)"""
BEYOND_ITS_CARD = """[...document.querySelectorAll('.gauge > *')]
    .filter((each) => each.getBoundingClientRect().right
        > each.parentElement.getBoundingClientRect().right + 1)
    .map((each) => `${each.parentElement.innerText}: ${each.getAttribute('class')}`)"""
CUT_MARKS = """[...document.querySelectorAll('.mark')]
    .filter((mark) => mark.getBoundingClientRect().right
        > mark.closest('th, .who-name, .marks').getBoundingClientRect().right + 1)
    .map((mark) => mark.textContent)"""
BROKEN_WORDS = """[...document.querySelectorAll('.who .unknown')].flatMap((each) =>
    [...each.firstChild.data.matchAll(/\\S+/g)]
        .filter((word) => {
            const range = document.createRange();
            range.setStart(each.firstChild, word.index);
            range.setEnd(each.firstChild, word.index + word[0].length);
            return range.getClientRects().length > 1;
        })
        .map((word) => word[0]))"""
FAINT = """(() => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const known = new Map();
    const rgb = (colour) => {
        if (!known.has(colour)) known.set(colour, drawn(colour));
        return known.get(colour);
    };
    const drawn = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => [r, g, b]
        .map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = (each) => {
        const colour = rgb(getComputedStyle(each).backgroundColor);
        return colour[3] === 255 || !each.parentElement ? colour : ground(each.parentElement);
    };
    return [...document.querySelectorAll('body *')]
        .filter((each) => [...each.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
        .filter((each) => !each.closest('svg, noscript') && each.offsetParent !== null)
        .map((each) => {
            const [front, back] = [rgb(getComputedStyle(each).color), ground(each)].map(light);
            const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
            return [ratio, `${ratio.toFixed(1)} ${each.outerHTML.slice(0, 90)}`];
        })
        .filter(([ratio]) => ratio < 4.5)
        .map(([, told]) => told);
})()"""


def mixed() -> Snapshot:
    """A node of three vendors, boards in partitions among them."""
    return demo(60, "mixed")


def outside_kubernetes() -> Snapshot:
    return demo(61, "hpc")


@pytest.mark.parametrize(
    "made",
    [
        Snapshot,
        demo,
        outside_kubernetes,
        failing,
        hostile,
        pytest.param(crowded, marks=pytest.mark.slow),
    ],
)
def test_a_page_that_was_kept_up_to_date_is_as_one_that_was_just_opened(
    watched: Watched, made: Callable[[], Snapshot]
) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await show(tab, site, made())
        kept = await tab.value(STRUCTURE)
        await go(tab, site)
        assert kept == await tab.value(STRUCTURE)

    watched(mixed(), look)


def test_without_scripts_everything_is_there_and_opens(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await tab.without_scripts()
        await tab.open(f"http://127.0.0.1:{site.port}/?q=chat")
        text = await tab.value("document.body.innerText")
        assert "chat-7b-6c9f7d9c5b-x2lqz" in text
        assert "notebook-bob" not in text
        assert "pid 2001" not in text
        await tab.value("document.querySelector('details.entry summary').click()")
        assert "pid 2001" in await tab.value("document.body.innerText")

    watched(demo(), look)


def test_groups_are_called_by_their_names_with_their_ids_beside(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        names = await tab.value(f"[...document.querySelectorAll('details.entry .name')]{TEXTS}")
        notes = await tab.value(f"[...document.querySelectorAll('details.entry .note')]{TEXTS}")
        within = await tab.value(f"[...document.querySelectorAll('article.gpu .name')]{TEXTS}")
        assert {"llm-server", "carols-notebook", "dave"} <= set(names) & set(within)
        assert "1004" in notes
        assert any(re.fullmatch("[0-9a-f]{12}", note) for note in notes)

    watched(outside_kubernetes(), look)


def test_use_of_two_gpus_is_not_shown_as_too_much_where_nothing_was_allocated(
    watched: Watched,
) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        core = await tab.value(
            "[...document.querySelectorAll('details.entry .core')]"
            ".filter((each) => parseInt(each.innerText) > 100)"
            ".map((each) => each.querySelector('rect:not(.track)').getAttribute('class'))"
        )
        assert core == ["free"]

    watched(demo(35, "hpc"), look)


def test_the_page_follows_the_snapshots_and_keeps_what_is_open_and_focused(
    watched: Watched,
) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site, "?q=finetune")
        await tab.value("document.querySelector('details.entry summary').click()")
        await tab.value("document.querySelector('details.entry summary').focus()")
        await tab.until("document.querySelectorAll('table.parts tr.process').length === 1")
        before = await tab.value("document.querySelector('.measured.core').textContent")
        site.show(replace(demo(40), version=61))
        await tab.until(f"document.querySelector('.measured.core').textContent !== {before!r}")
        assert await tab.value("document.querySelector('details.entry').open")
        assert await tab.value("document.activeElement.tagName") == "SUMMARY"

    watched(demo(), look)


def test_what_is_typed_filters_and_what_is_chosen_sorts(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await tab.value("document.querySelector('input[type=search]').focus()")
        for letter in "bob":
            await tab.press(letter, ord(letter.upper()), letter)
        await tab.until("document.querySelectorAll('details.entry').length === 1")
        assert await tab.value("document.querySelectorAll('article').length") == 1
        assert await tab.value("location.search") == "?q=bob"
        await tab.value("document.querySelector('input[type=search]').value = ''")
        await answered(
            tab,
            "const sort = document.querySelector('select'); sort.value = 'name';"
            "sort.dispatchEvent(new Event('input', {bubbles: true}))",
        )
        there = ENTRIES.replace("details.entry", "details.entry:not(.ended)")
        pods = [key for key in await tab.value(there) if key.startswith("pod/")]
        assert pods == sorted(pods)
        assert len(pods) > 8

    watched(demo(), look)


@pytest.mark.slow
def test_all_of_a_crowd_is_shown_on_request_and_it_stays_quick(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        assert await tab.value("document.querySelectorAll('article').length") == 24
        await tab.value("document.querySelector('a.all').click()")
        await tab.until("document.querySelectorAll('article').length === 64")
        assert await tab.value("document.querySelectorAll('details.entry').length") >= 500
        assert await tab.value("document.querySelectorAll('body *').length") < 60_000

    watched(crowded(), look)


def test_the_page_is_used_with_the_keyboard(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site, "?q=chat")
        await tab.press("Tab", 9)
        assert await tab.value("document.activeElement.className") == "skip"
        assert await tab.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await tab.press("Enter", 13, "\r")
        assert await tab.value("document.activeElement.id") == "main"
        for _ in range(12):
            await tab.press("Tab", 9)
            if await tab.value("document.activeElement.matches('.entry > summary')"):
                break
        await tab.press("Enter", 13, "\r")
        await tab.until("document.querySelector('details.entry[open] table.parts')")

    watched(demo(), look)


def test_a_chart_says_a_minutes_value_by_pointer_and_by_keys(watched: Watched) -> None:
    said = "getComputedStyle(document.activeElement, '::after').content"
    spot = "document.querySelector('.at:nth-child(40)').getBoundingClientRect()"

    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await tab.size(1366)
        before = await tab.value(HEIGHTS)
        await tab.value("document.querySelector('.hour-of').click()")
        await tab.until("document.querySelectorAll('figure').length === 2")
        own, *others = await tab.value(HEIGHTS)
        assert own > before[0] + 100
        assert max(others) <= max(before)  # it has a row of its own, and stretches nobody
        assert "hour=gpu-" in await tab.value("location.search")
        await tab.value("document.querySelector('.at:last-child').focus()")
        last = await tab.value(said)
        assert "UTC: " in last
        await tab.press("ArrowLeft", 37)
        assert await tab.value("document.activeElement === document.querySelectorAll('.at')[58]")
        assert await tab.value(said) != last
        x, y = await tab.value(f"[{spot}.x + 2, {spot}.y + 20]")
        await tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        shown = "getComputedStyle(document.querySelector('.at:nth-child(40)'), '::after').content"
        await tab.until(f"{shown}.includes('UTC')")
        await tab.value("document.querySelector('.hour-of').click()")
        await tab.until("!document.querySelector('figure')")

    watched(demo(), look)


LABELS = """(() => [...document.querySelectorAll('table.parts')].flatMap((table) => {
    const heads = [...table.querySelectorAll('thead th')].map((each) => each.textContent);
    return [...table.querySelectorAll('tbody tr')].flatMap((row) => [...row.children].slice(1)
        .map((cell, at) => [heads[at + 1], cell.textContent && said(cell)])
        .filter(([, label]) => label));
    function said(cell) { return getComputedStyle(cell, '::before').content; }
}))()"""


@pytest.mark.parametrize("of_host", [True, False])
def test_on_a_phone_each_figure_of_a_process_has_the_name_of_its_column(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, *, of_host: bool
) -> None:
    """A column for each figure has no room there: the heads are not shown."""
    use = HostUse(0.06, 3 << 30)
    read = (lambda _, pids: dict.fromkeys(pids, use)) if of_host else (lambda *_: {})
    monkeypatch.setattr(HostUses, "of", read)

    async def look(tab: Tab, site: Site) -> None:
        await tab.size(390)
        await go(tab, site)
        await tab.value(OPEN_ALL)
        labels = await tab.value(LABELS)
        heads = {head for head, _ in labels} - {"Type"}
        assert ("Host CPUs" in heads) is of_host
        assert {"Core", "Since"} <= heads
        assert {tuple(one) for one in labels if one[0] != "Type"} == {
            (head, f'"{head} "') for head in heads
        }

    watched(replace(demo(), simulated=False), look)


def test_without_scripts_a_button_shows_the_last_hour_and_keeps_the_filter(
    watched: Watched,
) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await tab.without_scripts()
        await tab.open(f"http://127.0.0.1:{site.port}/?q=chat&sort=name")
        await tab.loads("document.querySelector('.entry .hour-of').click()")
        assert await tab.value("document.querySelectorAll('.entry[open] figure').length") == 2
        assert await tab.value("document.querySelector('input[type=search]').value") == "chat"

    watched(demo(), look)


def test_landmarks_tables_and_pictures_have_names(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await tab.value(OPEN_ALL)
        await tab.until("document.querySelector('table.parts')")
        for selector in (
            "svg[role=img]:not([aria-label])",
            "svg:not([role=img]):not([aria-hidden=true])",
            "table:not(:has(caption))",
            "th:not([scope])",
            "input:not([aria-label]):not([type=hidden]), select:not([aria-label])",
            "section:not([aria-labelledby]), article:not([aria-labelledby])",
        ):
            assert not await tab.value(f"document.querySelectorAll({selector!r}).length"), selector
        for landmark in ("body > header", "body > main", "footer nav", "form[role=search]", "h1"):
            assert await tab.value(f"document.querySelectorAll({landmark!r}).length") == 1
        ids = "[...document.querySelectorAll('[id]')].map((each) => each.id)"
        listed = await tab.value(ids)
        assert len(set(listed)) == len(listed)

    watched(demo(), look)


@pytest.mark.parametrize(
    "made", [demo, pytest.param(mixed, marks=pytest.mark.slow), failing, hostile]
)
def test_it_fits_and_can_be_read_in_any_size_light_or_dark(
    watched: Watched, made: Callable[[], Snapshot]
) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await tab.value(OPEN_ALL)
        for width in (375, 768, 1440):
            for dark in (False, True):
                await tab.size(width, dark=dark)
                assert await tab.value(OVERFLOWING) == []
                assert await tab.value("document.documentElement.scrollWidth") == width
                assert await tab.value(FAINT) == []

    watched(made(), look)


def test_a_card_holds_its_gauges_where_figures_are_long_and_room_is_short(watched: Watched) -> None:
    """Nothing is allocated, and the memory is of three digits: the longest that a row can say."""
    made = demo()
    memory = DeviceMemoryFacts(total_bytes=143_771 << 20, used_bytes=140_123 << 20)
    devices = tuple(
        replace(device, memory=memory, allocated=DeviceAllocation())
        for device in made.facts.devices
    )
    facts = replace(made.facts, devices=devices)

    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        for width in (320, 360, 481, 500, 540, 1040, 1100):
            await tab.size(width)
            assert await tab.value(BEYOND_ITS_CARD) == [], width

    watched(replace(made, measured=lambda: facts), look)


def test_marks_and_reasons_are_whole_where_room_is_short(watched: Watched) -> None:
    """A pod with two marks that waits for nobody, and one whose card is lost."""
    trouble = demo(120, str(ROOT / "examples/demo/trouble.yaml"))

    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        assert await tab.value("document.querySelectorAll('.who .mark + .mark').length") == 1
        assert await tab.value("document.querySelectorAll('.who .unknown').length")
        for width in (320, 390, 560, 1040, 1280, 1440):
            await tab.size(width)
            assert await tab.value(CUT_MARKS) == [], width
            assert await tab.value(BROKEN_WORDS) == [], width

    watched(trouble, look)


def test_where_a_link_leads_is_not_under_the_head_that_stays(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        for width in (375, 1280):
            await tab.size(width, 300)
            await tab.value("document.querySelector('.banner a[href^=\"#gpu-\"]').click()")
            card = await tab.value(
                "document.querySelector('.gpu.down').getBoundingClientRect().top"
            )
            assert 0 <= card < 300
            left = await tab.value(
                "document.querySelector('.gpu.down').getBoundingClientRect().left"
            )
            at = f"document.elementFromPoint({left + 20}, {card + 1})"
            assert await tab.value(f"!!{at}.closest('.gpu.down')"), width

    watched(failing(), look)


def test_it_says_when_the_exporter_does_not_answer(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        online = {
            "offline": False,
            "latency": 0,
            "downloadThroughput": -1,
            "uploadThroughput": -1,
        }
        await tab.call("Network.emulateNetworkConditions", **online | {"offline": True})
        await tab.value(
            "(() => { const now = performance.now.bind(performance);"
            "performance.now = () => now() + 15_000; })()"
        )
        await tab.until("!document.querySelector('#lost').hidden")
        assert "does not answer" in await tab.value("document.querySelector('#lost').innerText")
        assert "No answer for" in await tab.value("document.querySelector('#age').innerText")
        opacity = "getComputedStyle(document.querySelector({!r})).opacity"
        assert await tab.value(opacity.format("#lost")) == "1"
        assert await tab.value(opacity.format("main .cards, main section")) == "0.5"
        await tab.call("Network.emulateNetworkConditions", **online)
        await answered(tab, "document.dispatchEvent(new Event('visibilitychange'))")
        assert await tab.value("document.querySelector('#lost').hidden")
        assert "Measured" in await tab.value("document.querySelector('#age').innerText")
        tab.complaints = [told for told in tab.complaints if "DISCONNECTED" not in told]

    watched(demo(), look)


def test_rows_keep_their_places_while_the_focus_is_in_the_list(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        before = await tab.value(ENTRIES)
        await tab.value("document.querySelector('details.entry summary').focus()")
        await show(tab, site, demo(40))
        held = await tab.value(ENTRIES)
        await tab.value("document.activeElement.blur()")
        await show(tab, site, replace(demo(40), version=41))
        after = await tab.value(ENTRIES)
        # The short jobs of a batch, and what looks at a card now and then, may have ended, and what
        # has ended stands last.
        short = ("pod/batch/", "group/systemd/nvidia-dcgm")
        stayed = [key for key in before if key in after and not key.startswith(short)]
        assert [key for key in held if key in stayed] == stayed
        assert sorted(held) == sorted(after)
        assert [key for key in after if key in stayed] != stayed

    watched(demo(), look)


def test_the_page_of_another_version_of_the_exporter_is_loaded_whole(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await tab.value("document.documentElement.dataset.version = 'older'")
        site.show(replace(demo(), version=1000))
        await tab.loads("document.dispatchEvent(new Event('visibilitychange')), 0")
        assert await tab.value("document.documentElement.dataset.version") != "older"

    watched(demo(), look)
