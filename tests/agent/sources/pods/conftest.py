from collections.abc import Iterator

import pytest

from tests.agent.sources.pods.apiserver import ApiServer


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running
