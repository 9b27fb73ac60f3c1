"""What happens on the simulated device, as a scenario file would say it.

Everything begins after some idle seconds, in which the board's idle power can be learnt.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from exporter.agent.simulation.description import EndedRows, SampleRule

START_S = 20
JOBS = "jobs"  # containers of this namespace are measured together: each lives for seconds only
UNIDENTIFIED = "unidentified"  # the driver names no process of this namespace in any sample


class Case(NamedTuple):
    """A scenario. ``pauses`` are seconds of each five minutes in which the collector stands still.

    ``beyond`` says for a rule why the goal cannot be met, ``period_ms`` how long a sample is.
    ``ended_rows``: whether the driver names a process that has ended.
    """

    name: str
    about: str
    pods: tuple[Mapping[str, Any], ...]
    pauses: range = range(0)
    beyond: Mapping[str, str] = {}
    period_ms: float = 1000 / 6
    ended_rows: str = EndedRows.KEPT

    @property
    def seeds(self) -> int:
        """So many that there are about twenty containers to take a 95th percentile of."""
        return max(2, 24 // len(self.pods))

    def file(self, rule: str, seed: int) -> dict[str, Any]:
        """The content of the scenario file."""
        device = {"model": "NVIDIA A10", "memory": "24GiB", "idle_power": 20, "max_power": 150}
        return {
            "devices": [device],
            "sample_rule": rule,
            "ended_rows": self.ended_rows,
            "sample_period": f"{self.period_ms:.6f}ms",
            "seed": seed,
            "pods": list(self.pods),
        }

    def reason(self, rule: str) -> str:
        """Why the goal cannot be met under a rule; "" if it can."""
        return self.beyond.get(rule, ENDS if rule == SampleRule.END else "")


ENDS = "a turn that ends within a sample leaves it without a name, and its time has no owner"
FORGOTTEN = "a process that ends takes along its time since the last read, which has no owner"
LONGEST = "a sample names who used most of it, so that who is second in each is never named"
STEP = "work in step with the samples is always seen at the same point of its turn"


def _pod(
    number: int, processes: list[dict[str, Any]], namespace: str = "work", **life: object
) -> dict[str, Any]:
    container = {"name": "main", "processes": [{"device": 0, **p} for p in processes]}
    return {
        "name": f"{namespace}-{number}",
        "namespace": namespace,
        "start": START_S,
        "containers": [container],
        **life,
    }


def _alike(count: int, duty: float, period: str) -> tuple[dict[str, Any], ...]:
    return tuple(_pod(n, [_bursts(duty, period)]) for n in range(count))


def _bursts(duty: float, period: str, **life: object) -> dict[str, Any]:
    """A process that wants the device for about ``duty`` of each period, in one burst."""
    return {"duty": duty, "period": period, "jitter": 0.8, **life}


def _jobs() -> Iterator[dict[str, Any]]:
    for number, (duty, every) in enumerate(((0.9, "7s"), (0.6, "11s"), (1, "23s"))):
        life = {"for": ["500ms", "5s"], "every": every}
        yield _pod(number, [_bursts(duty, "200ms")], JOBS, **life)


def _visitors(number: int, duty: float, every: str) -> dict[str, Any]:
    """A container that stays, with processes that come and go."""
    return _pod(number, [_bursts(duty, "300ms", every=every, **{"for": ["2s", "8s"]})])


_ALL = (
    Case("light bursts", "8 containers, bursts of 50 ms, 70 % in all", _alike(8, 0.0875, "570ms")),
    Case("heavy bursts", "8 containers, bursts of 0.5 s, 70 % in all", _alike(8, 0.0875, "5.7s")),
    Case(
        "mixed bursts",
        "bursts of 5 s, 200 ms, 100 ms and 30 ms side by side",
        (
            _pod(0, [_bursts(0.6, "8s")]),
            _pod(1, [_bursts(0.2, "1s")]),
            _pod(2, [_bursts(0.05, "2s")]),
            _pod(3, [_bursts(0.1, "300ms")]),
        ),
        beyond={"longest": LONGEST},
    ),
    Case(
        "contended",
        "8 containers that want 3 devices together",
        _alike(8, 0.375, "1.3s"),
        beyond={"longest": LONGEST},
    ),
    Case(
        "half a second",
        "light bursts on a board with samples of 0.5 s, as Turing's",
        _alike(8, 0.0875, "570ms"),
        period_ms=500,
    ),
    Case("20 small", "20 containers, bursts of 0.2 s, 30 % in all", _alike(20, 0.015, "13s")),
    Case(
        "short jobs",
        "pods that live 0.5 to 5 s, beside one that stays",
        (*_jobs(), _pod(0, [_bursts(0.3, "400ms")])),
        beyond={"longest": LONGEST},
    ),
    Case(
        "forgotten jobs",
        "short jobs on a driver that forgets a process at its end",
        (*_jobs(), _pod(0, [_bursts(0.3, "400ms")])),
        beyond=dict.fromkeys(SampleRule, FORGOTTEN),
        ended_rows=EndedRows.FORGOTTEN,
    ),
    Case(
        "between scrapes",
        "processes that live 2 to 8 s in containers that stay",
        (_visitors(0, 0.5, "20s"), _visitors(1, 0.3, "37s"), _visitors(2, 0.8, "61s")),
        beyond={"longest": LONGEST},
    ),
    Case(
        "overlap",
        "4 containers in turns of milliseconds, as under MPS",
        _alike(4, 0.5, "7ms"),
        beyond={"longest": LONGEST},
    ),
    Case(
        "paused",
        "light bursts; the collector stands still for 9 s of each five minutes",
        _alike(8, 0.0875, "570ms"),
        pauses=range(100, 109),
    ),
    Case(
        "in step",
        "two containers whose turns keep step with the samples, second by second",
        (
            _pod(0, [{"duty": 0.3, "period": "500ms", "phase": 0}]),
            _pod(1, [{"duty": 0.5, "period": "250ms", "phase": "50ms"}]),
        ),
        beyond={"last": STEP, "end": STEP, "longest": STEP},
    ),
    Case(
        "unidentified",
        "40 % of the device by a process that no sample names, beside two others",
        (
            _pod(0, [_bursts(0.3, "500ms")]),
            _pod(1, [_bursts(0.1, "2s")]),
            _pod(0, [_bursts(0.4, "700ms")], UNIDENTIFIED),
        ),
        beyond={"longest": LONGEST},
    ),
)

CASES = {case.name: case for case in _ALL}
