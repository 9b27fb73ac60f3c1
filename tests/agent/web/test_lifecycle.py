import threading
from concurrent.futures import ThreadPoolExecutor

from tests.agent.web.serving import serving


def test_a_reload_is_by_post_if_it_is_switched_on_and_answers_what_came_of_it() -> None:
    outcomes: list[str | None] = [None, "settings.yaml, line 3: no such setting"]
    with serving(reload=lambda: outcomes.pop(0)) as site:
        refused = site.ask("/-/reload", "POST")
    assert len(outcomes) == 2
    with serving(web_enable_lifecycle=True, reload=lambda: outcomes.pop(0)) as site:
        assert site.ask("/-/reload").status == 405
        done, failed = site.ask("/-/reload", "POST"), site.ask("/-/reload", "POST")

    assert refused.status == 403
    assert b"--web.enable-lifecycle" in refused.body
    assert (done.status, done.body) == (200, b"reloaded\n")
    assert failed.status == 500
    assert b"the old settings stay: settings.yaml, line 3" in failed.body


def test_reloads_come_one_after_another_and_hold_up_no_probe() -> None:
    gate, entered = threading.Event(), threading.Semaphore(0)
    at_once: list[int] = []
    running = 0

    def reload() -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        entered.release()
        assert gate.wait(60)
        running -= 1

    with (
        serving(web_enable_lifecycle=True, reload=reload) as site,
        ThreadPoolExecutor(3) as pool,
    ):
        asked = [pool.submit(site.ask, "/-/reload", "POST") for _ in range(3)]
        assert entered.acquire(timeout=60)
        probe = site.ask("/-/healthy").status
        gate.set()
        statuses = [one.result().status for one in asked]

    assert (probe, statuses, at_once) == (200, [200] * 3, [1, 1, 1])
