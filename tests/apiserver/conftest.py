"""What the tests of the API server's client share."""

from tests.agent.sources.pods.conftest import server

__all__ = ["server"]
