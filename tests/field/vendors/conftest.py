from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.field.vendors.boards import VendorNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[VendorNode]:
    made = VendorNode(tmp_path)
    yield made
    made.close()
