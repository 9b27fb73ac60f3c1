from exporter.web.access import TokenBucket
from exporter.web.webfile import RateLimit
from tests.web.serving import SECOND, FakeClock


def test_a_burst_passes_then_one_each_interval() -> None:
    clock = FakeClock()
    bucket = TokenBucket(RateLimit(SECOND, 3), clock)

    burst = [bucket.take() for _ in range(4)]
    clock.now_ns += SECOND
    after = [bucket.take() for _ in range(2)]
    clock.now_ns += 100 * SECOND
    full = [bucket.take() for _ in range(4)]

    assert burst == [True, True, True, False]
    assert after == [True, False]
    assert full == [True, True, True, False]


def test_refused_requests_do_not_put_off_the_next_token() -> None:
    clock = FakeClock()
    bucket = TokenBucket(RateLimit(SECOND, 1), clock)
    bucket.take()
    for _ in range(100):
        assert not bucket.take()
    clock.now_ns += SECOND

    assert bucket.take()
