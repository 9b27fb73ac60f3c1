"""What all tests share: which of them this machine can run."""

import gc
import logging
import os
import shutil
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import chain

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from exporter.console.logs import Collapsing

MINUTE_S = 60
# The files with the longest tests of `make test` and `make test-slow`: both name theirs at the end.
LONGEST = (
    "tests/deploy/test_demo.py",
    "tests/e2e/test_clock.py",
    "tests/e2e/test_tenants.py",
    "tests/alertmanager/test_delivery.py",
    "tests/e2e/test_prometheus.py",
    "tests/e2e/test_reload.py",
    "tests/doors/test_matrix.py",
    "tests/answers/reading/test_hostile.py",
    "tests/histories/test_relations.py",
    "tests/benchmarks/test_accuracy.py",
    "tests/dashboards/test_queries.py",
    "tests/answers/bill/test_three_nodes.py",
    "tests/answers/reading/test_worlds.py",
    "tests/histories/test_months.py",
    "tests/rules/test_questions.py",
    "tests/rules/test_left_out.py",
    "tests/histories/test_bill.py",
    "tests/rules/test_many_nodes.py",
    "tests/agent/web/test_axe.py",
    "tests/answers/reading/test_lives.py",
    "tests/rules/test_recording.py",
    "tests/agent/web/test_page.py",
    "tests/answers/bill/test_bill.py",
    "tests/answers/why/test_why.py",
)
# They wait for seconds of a clock and for programs, and compute for a fifth of their time.
WAITING = ("tests/e2e/", "tests/deploy/", "tests/alertmanager/")
WAITING_WORKER = "gw0"
# What tests start in Go (Prometheus, promtool, Helm) lives for seconds and has little to remember:
# looked for less often, its garbage takes a third less of the CPU.
os.environ.setdefault("GOGC", "400")
OWED = "TESTS_OWED"  # set where skipping for want of a program or right is a failure (CI)

# How fast an input is made or tried is no claim of a test: a machine that is busy is no defect.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same cases in each run, so that a run is red by a change and not by chance. New cases are
# tried by --hypothesis-profile=random (make test-random), which prints how to repeat a failing one.
# A test that is cheap or costs much takes its part of these: ``settings().max_examples * 2``.
settings.register_profile("repeatable", PATIENT, derandomize=True, max_examples=100)
# The first of them, in `make test`; `make test-random` and the nightly run try many more.
settings.register_profile("quick", PATIENT, derandomize=True, max_examples=25)
settings.register_profile("random", PATIENT, max_examples=500, print_blob=True)
settings.load_profile("repeatable")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with its reason, what this machine cannot run; in CI that is a failure."""
    missing = list(_missing(item))
    if not missing:
        return
    reason = "needs " + ", ".join(missing)
    if os.environ.get(OWED):
        pytest.fail(f"{reason}, which {OWED} says must be here")
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """End the product's logging that a test began, while the stream of ``capsys`` is still open."""
    root = logging.getLogger()
    level = root.level
    try:
        return (yield)
    finally:
        root.setLevel(level)
        for handler in root.handlers[:]:
            if isinstance(handler, Collapsing):
                root.removeHandler(handler)
                handler.close()
                logging.captureWarnings(capture=False)


def pytest_collection() -> None:
    """Look for no garbage while tests are collected: what is made then lives as long as the run."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let garbage collection pass by what lives as long as the run: ten thousand tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, a test that skips by itself (no cgroup hierarchy is mounted) has failed as well.

    Not so one that needs hardware which no machine has to have.
    """
    report = yield
    is_owed = os.environ.get(OWED) and not item.get_closest_marker("hardware")
    if report.skipped and is_owed:
        report.outcome = "failed"
        report.longrepr = f"skipped, which {OWED} does not allow: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Close with the files that took longest, and with what this machine could not run, and why.

    A worker holds a file from its first test to its last, so a long one may be what all wait for.
    """
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    took = _seconds_of_files(reporter) if reporter else {}
    if reporter and sum(took.values()) >= MINUTE_S:
        longest = sorted(took, key=lambda file: -took[file])[:10]
        reporter.write_line(
            "longest: " + ", ".join(f"{each} {took[each]:.0f} s" for each in longest)
        )
    skipped = reporter.getreports("skipped") if reporter else []
    reasons = Counter(reason for report in skipped if (reason := _lacks(report)))
    if reporter and reasons:
        listed = ", ".join(f"{what} ({count})" for what, count in reasons.most_common())
        count = reasons.total()
        reporter.write_line(f"{count} test{'s' * (count > 1)} skipped: needs {listed}")


def _seconds_of_files(reporter: pytest.TerminalReporter) -> dict[str, float]:
    took: dict[str, float] = {}
    for report in chain.from_iterable(reporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.partition("::")[0]
            took[file] = took.get(file, 0) + report.duration
    return took


def _lacks(report: pytest.TestReport) -> str:
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    _, needs, what = words.partition("needs ")
    return what.replace("the program ", "") if needs else ""


def _missing(item: pytest.Item) -> Iterator[str]:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        yield "root"
    for mark in item.iter_markers("program"):
        for program in mark.args:
            if shutil.which(program) is None:
                yield f"the program {program}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The suite's own options."""
    parser.addoption("--refresh-golden", action="store_true", help="write the golden files anew")
    parser.addoption("--long", action="store_true", help="also run what takes minutes")
    parser.addoption("--nightly", action="store_true", help="also run what each night has whole")
    parser.addoption("--image", action="store_true", help="run what builds and runs the image")


class Beside(LoadFileScheduling):  # type: ignore[misc]  # it has no py.typed
    """Gives one worker the files that wait and the others those that compute, while it has both.

    So of three workers on two cores no two wait at once.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = node.gateway.id == WAITING_WORKER
        own = (file for file in self.workqueue if file.startswith(WAITING) == waits)
        if (file := next(own, None)) is not None:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Beside | None:
    """Share out files, where files are what is shared out (make test, make test-slow)."""
    return Beside(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """Let what waits for a moment have the core at that moment."""
    if gone := [file for file in LONGEST if not (config.rootpath / file).exists()]:
        message = f"LONGEST names no file of the tests: {gone}"
        raise pytest.UsageError(message)
    if os.environ.get("PYTEST_XDIST_WORKER", WAITING_WORKER) != WAITING_WORKER:
        os.nice(5)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One for each core, and one more: some tests wait for what they have started."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is asked for by a target of its own (make image-test, make e2e, nightly).

    What takes longest comes first: begun last, all but one of the workers would wait for it.
    """
    turns = {file: turn for turn, file in enumerate(LONGEST)}
    items.sort(key=lambda item: turns.get(item.nodeid.partition("::")[0], len(LONGEST)))
    for asked in ("image", "long", "nightly"):
        if not config.getoption(f"--{asked}"):
            left = [item for item in items if item.get_closest_marker(asked)]
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if not item.get_closest_marker(asked)]
