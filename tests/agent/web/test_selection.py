import pytest
from multidict import MultiDict
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.agent.web import Pages
from exporter.agent.web.renderedanswers import MOST
from exporter.agent.web.selection import Selection, SelectionError, select, selected
from exporter.metrics.families import FAMILIES, LEVELS, OPTIONAL_GROUPS
from exporter.metrics.text import Format
from exporter.model import ContainerKey, HeldMemory
from tests.agent.simulation.clock import ManualClock
from tests.agent.web.serving import serving
from tests.agent.web.test_pages import CountingRenderer
from tests.snapshots import container, snapshot_of, with_every_family

DEVICE_UP = "mgpu_device_up"


def every_family(renderer: CountingRenderer | None = None) -> Pages:
    snapshot = with_every_family()
    return Pages(lambda: snapshot, ManualClock(0, 0), renderer)


def selection(**query: list[str]) -> Selection | None:
    return select(MultiDict((f"{key}[]", name) for key, names in query.items() for name in names))


def names(body: bytes, form: Format = Format.TEXT) -> set[str]:
    """The names of the families on a page, by prometheus_client's own parsers."""
    if form is Format.OPENMETRICS:
        return {m.name for m in read_openmetrics(body.decode())}  # type: ignore[no-untyped-call]
    return {m.name for m in read_text(body.decode())}


def of_table(**attributes: str) -> set[str]:
    """The families of the table with these attributes, as the parsers name them."""
    return {
        family.full_name.removesuffix("_total")
        for family in FAMILIES
        if all(getattr(family, key) == value for key, value in attributes.items())
    }


SELECTED: dict[str, set[str]] = {
    **{level: of_table(level=level) for level in LEVELS if level != "exporter"},
    **{group: of_table(group=group) for group in OPTIONAL_GROUPS},
    **{name: {name.removesuffix("_total")} for name in ("mgpu_pod_core_seconds_total", DEVICE_UP)},
    "pod pcie": of_table(level="pod") | of_table(group="pcie"),
}


@pytest.mark.parametrize("form", Format)
def test_levels_groups_and_families_can_be_collected_or_excluded(form: Format) -> None:
    pages = every_family()
    whole = names(pages.page(form, zipped=False), form)
    for asked, expected in SELECTED.items():
        some = pages.page(form, selection(collect=asked.split()), zipped=False)
        others = pages.page(form, selection(exclude=asked.split()), zipped=False)
        assert names(some, form) == expected, asked
        assert names(others, form) == whole - expected, asked


def test_the_clients_own_families_go_with_the_exporters() -> None:
    pages = every_family()
    with_own = names(pages.page(Format.TEXT, selection(collect=["exporter"]), zipped=False))
    without = names(pages.page(Format.TEXT, selection(exclude=["exporter"]), zipped=False))

    assert {"process_resident_memory_bytes", "python_info"} <= with_own
    assert not {n for n in without if n.startswith(("process_", "python_", "mgpu_exporter_"))}


def test_a_hostile_label_is_no_family() -> None:
    hostile = "x\n# HELP mgpu_device_up \n# EOF\n"
    held = container(ContainerKey(hostile, "p", "c"), memory=HeldMemory(processes=1))
    snapshot = snapshot_of(containers=[held])
    pages = Pages(lambda: snapshot, ManualClock(0, 0))

    body = pages.page(Format.OPENMETRICS, selection(collect=["device"]), zipped=False)

    assert body == b"# EOF\n"


@pytest.mark.parametrize("form", Format)
def test_selecting_everything_changes_nothing(form: Format) -> None:
    whole = every_family().page(form, zipped=False)

    assert selected(whole, Selection(frozenset(), excluded=True)) == whole
    nothing = selected(whole, Selection(frozenset(), excluded=False))
    assert nothing == (b"# EOF\n" if form is Format.OPENMETRICS else b"")


def test_selections_of_one_snapshot_cost_one_render_and_are_kept_whatever_their_order() -> None:
    renderer = CountingRenderer()
    pages = every_family(renderer=renderer)
    for level in LEVELS:
        for zipped in (True, False):
            pages.page(Format.TEXT, selection(collect=[level]), zipped=zipped)
    pages.page(Format.TEXT, selection(collect=["pod", "device", "pod"]), zipped=True)

    assert pages.cached(Format.TEXT, selection(collect=["device", "pod"]), zipped=True)
    assert renderer.count == 1


def test_few_selections_are_kept_however_many_are_asked_for() -> None:
    pages = every_family()
    asked = [selection(collect=[family.full_name]) for family in FAMILIES]
    for one in asked:
        pages.page(Format.TEXT, one, zipped=True)
    kept = [one for one in asked if pages.cached(Format.TEXT, one, zipped=True)]

    assert 0 < len(kept) < MOST
    assert kept == asked[-len(kept) :]
    assert pages.cached(Format.TEXT, zipped=False)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"collect": ["nodes"]}, ("levels: device, container, pod, namespace", "groups: power,")),
        ({"exclude": ["", "pod"]}, ("mgpu_container_core_seconds_total",)),
        ({"collect": ["pod"], "exclude": ["device"]}, ("cannot be combined",)),
    ],
)
def test_what_cannot_be_selected_is_refused_with_what_can(
    query: dict[str, list[str]], words: tuple[str, ...]
) -> None:
    with pytest.raises(SelectionError) as caught:
        selection(**query)

    for each in words:
        assert each in str(caught.value)


def test_a_scraper_asks_in_its_parameters() -> None:
    with serving(with_every_family()) as site:
        some = site.ask("/metrics?collect[]=pod&collect%5B%5D=mgpu_device_up")
        unknown = site.ask("/metrics?collect[]=<b>" + "x" * 500)
        both = site.ask("/metrics?collect[]=pod&exclude[]=pod")
        other = site.ask("/metrics?name[]=pod")

    assert names(some.body) == of_table(level="pod") | {"mgpu_device_up"}
    assert (unknown.status, both.status, other.status) == (400, 400, 200)
    assert unknown.headers["Content-Type"].startswith("text/plain")
    assert b"x" * 100 not in unknown.body
