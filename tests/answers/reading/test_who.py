"""Who bore a name, and when, by series of pods."""

from exporter.answers.reading.lives import Target
from exporter.answers.reading.nodelabels import NodeLabels
from exporter.answers.reading.storedcounters import POD_INFO, StoredCounter
from exporter.answers.reading.who import Who

NODE: Target = frozenset({("job", "mgpu"), ("instance", "a")})


def info(uid: str, owner: str, times: range) -> StoredCounter:
    labels = {"namespace": "ml", "pod": "web-0", "uid": uid, "owner_kind": "Job"}
    named = {"__name__": POD_INFO, "owner_name": owner, **labels}
    return StoredCounter(named, [NODE], [float(at_s) for at_s in times], [1.0] * len(times))


def test_of_two_pods_of_one_name_the_one_that_came_later_is_meant_whoever_owns_it() -> None:
    turns = [info("1", "x", range(0, 100, 20)), info("2", "y", range(60, 300, 20))]
    again = info("3", "x", range(160, 400, 20))  # its predecessor is deleted, and runs on
    who = Who([*turns, again], NodeLabels())
    bearers = who.bearers_of({"namespace": "ml", "pod": "web-0"}, [NODE])
    assert bearers is not None
    seen = [bearers.at(at_s) for at_s in (20.0, 120.0, 180.0, 280.0)]
    assert [one.name for one in seen if one] == ["x", "y", "x", "x"]
