"""Of more cards than the chart has lines, those whose samples were dropped most are drawn."""

import pytest

from dashboards.exporter import MOST_CARDS
from tests.dashboards.grafana import FOLDER, fill, load, queries
from tests.dashboards.test_silent import AT, EVERYTHING, MINUTE
from tests.store import Store, Target

UNOBSERVED = 'mgpu_device_unobserved_seconds_total{{gpu="{}",uuid="{}"}} {}\n'
AGAIN = (
    "100"  # the card whose exporter began again: it had 1,000 s before the range, and 20 s since
)


@pytest.mark.program("prometheus")
def test_a_counter_that_began_again_is_among_the_highest(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    every = queries(load(FOLDER / "mgpu-exporter.json"))
    (query,) = (one for one in every if (one.panel, one.letter) == ("Unobserved", "A"))
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        node = Target({"job": "mgpu", "instance": "node"})
        for minute in range(61):
            page = "".join(UNOBSERVED.format(gpu, gpu, minute / 10) for gpu in range(MOST_CARDS))
            page += UNOBSERVED.format(AGAIN, AGAIN, 1000 if minute < 20 else (minute - 20) / 2)
            store.scrape(node, page, AT - 60 * MINUTE + minute * MINUTE)
        asked = fill(query.expr, EVERYTHING | {"__rate_interval": "5m"})
        span = {"start": str(AT - 60 * MINUTE), "end": str(AT), "step": str(MINUTE)}
        drawn = store.get("query_range", query=asked, **span)["result"]
    assert AGAIN in {one["metric"]["gpu"] for one in drawn}
