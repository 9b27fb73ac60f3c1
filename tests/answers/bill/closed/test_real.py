"""Closed days from a real Prometheus."""

from pathlib import Path
from random import Random

import pytest

from tests.answers.bill.closed.test_closed import BILLS, OFTEN_S, asked
from tests.histories.checks import stored
from tests.histories.making import DAY, plain, twisted
from tests.histories.store import written
from tests.store import Store


@pytest.mark.slow
@pytest.mark.program("prometheus")
def test_a_bill_of_closed_days_is_that_of_a_real_store(tmp_path: Path) -> None:
    rng = Random(11)  # noqa: S311 - no secret
    history = twisted(rng, plain(rng, 2 * DAY, OFTEN_S), ("exporter_restarts", "owner_renamed"))
    store = stored(history)
    with Store(tmp_path) as real:
        written(store, real)
        one = asked(history, store, f"http://{real.address}", tmp_path)
        for shard in ("1/2", "2/2"):
            said = one.close(one.days[0], str(tmp_path / "closed"), f"--shard={shard}")
            assert said.status == 0, said.err
        for flags in BILLS:
            expected = one.bill(*one.range, *flags)
            assert expected.status == 0, expected.err
            assert one.bill(*one.range, *flags, f"--closed={tmp_path}/closed").out == expected.out
