"""Real fdinfo, where the machine has a DRM device: vgem or vkms will do.

Neither is a GPU, and what they say of a client is its driver and id, if anything. It is the
kernel's own text, though, through its own /proc, of a device that this process has open.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.agent.sources.door import Whole, read
from exporter.agent.sources.gpus.drm.fdinfo import LONGEST, parse
from exporter.agent.sources.gpus.drm.holders import HandleScanner

NODES = sorted(Path("/dev/dri").glob("renderD*")) or sorted(Path("/dev/dri").glob("card*"))
pytestmark = [
    pytest.mark.hardware,
    pytest.mark.skipif(not NODES, reason="this machine has no DRM device: there is no /dev/dri"),
]


@pytest.fixture
def opened() -> Iterator[int]:
    descriptor = os.open(NODES[0], os.O_RDWR | os.O_CLOEXEC)
    yield descriptor
    os.close(descriptor)


def test_a_device_that_this_process_has_open_is_found(opened: int) -> None:
    holders = HandleScanner("/proc", time)
    holders.look(0)

    assert holders.newest is not None
    mine = [h for all_of in holders.newest.handles.values() for h in all_of if h.pid == os.getpid()]
    assert opened in {handle.descriptor for handle in mine}


def test_two_descriptors_of_a_client_are_one_and_two_openings_are_two(opened: int) -> None:
    copy, other = os.dup(opened), os.open(NODES[0], os.O_RDWR | os.O_CLOEXEC)
    replies = [read(f"/proc/self/fdinfo/{one}", LONGEST) for one in (opened, copy, other)]
    texts = [reply.value for reply in replies if isinstance(reply, Whole)]
    for one in (copy, other):
        os.close(one)
    if b"drm-client-id" not in texts[0]:
        pytest.skip("this device's driver has no show_fdinfo")

    first, same, another = (parse(text) for text in texts)

    assert first is not None
    assert same is not None
    assert another is not None
    assert first.client_id == same.client_id != another.client_id
