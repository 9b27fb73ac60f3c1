from collections.abc import Iterator

import pytest

from tests.agent.pods.apiserver import ApiServer


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running
