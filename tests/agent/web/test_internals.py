"""What ``connection.py`` changes inside of asyncio and aiohttp, which have no setting for it.

Were one of these names another's in a new version, the change would be without effect, and nothing
would say so until a client takes 256 KiB for each of its connections. So these tests fail with each
new minor version: whoever raises it reads the lines that are named here, and then adds it.
"""

import inspect
import sys
from asyncio import selector_events, sslproto
from importlib.metadata import requires, version

from aiohttp import web_protocol

READ_OF_AIOHTTP = {"3.14"}
READ_OF_PYTHON = {(3, 11), (3, 12), (3, 13)}


def test_the_versions_whose_inside_is_changed_are_those_that_were_read() -> None:
    assert version("aiohttp").rpartition(".")[0] in READ_OF_AIOHTTP
    assert sys.version_info[:2] in READ_OF_PYTHON


def test_no_newer_aiohttp_is_installed_with_the_exporter() -> None:
    (aiohttp,) = (line for line in requires("mgpu-exporter") or () if line.startswith("aiohttp"))
    major, minor = max(tuple(map(int, read.split("."))) for read in READ_OF_AIOHTTP)
    assert f"<{major}.{minor + 1}" in aiohttp


def test_asyncio_reads_as_much_at_once_as_is_set() -> None:
    assert "self._sock.recv(self.max_size)" in inspect.getsource(selector_events)
    tls = inspect.getsource(sslproto.SSLProtocol)
    for line in (
        "self._ssl_buffer = bytearray(self.max_size)",
        "self._sslobj.read(self.max_size)",
        "def _set_read_buffer_limits(self, high=None, low=None):",
    ):
        assert line in tls
    assert "self._ssl_protocol = ssl_protocol" in inspect.getsource(sslproto._SSLProtocolTransport)
    assert "self._transport = transport" in inspect.getsource(sslproto.SSLProtocol.connection_made)


def test_aiohttp_lets_as_many_requests_wait_as_are_set() -> None:
    made = inspect.getsource(web_protocol.RequestHandler.__init__)
    assert "max_msg_queue_size=MAX_MSG_QUEUE_SIZE" in made
    assert "self._request_count = 0" in made
    assert "self._request_count += 1" in inspect.getsource(web_protocol.RequestHandler)
