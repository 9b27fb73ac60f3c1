"""The user ids of the image, the chart and the manifests: the same everywhere, and nobody else's.

A process may read and signal those of its own user without any capability, and with ``hostPID`` it
sees all processes of the node. So the user must not be one that workloads commonly run as.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.matrix import PROFILES, PROXIED
from tests.chart.rendering import ROOT, Rendered, render

EXPORTER, PROXY = 61045, 61046
ROOTLESS_MAPS = range(65536)  # what user namespaces of rootless engines have
PEOPLE = range(60001)  # login.defs: system users below 1000, people up to 60000
SYSTEMD = (range(60001, 60706), range(61184, 65520))  # homes, greeters; DynamicUser
COMMON = {65532, 65533, 65534, 65535}  # distroless, Chainguard and ko; nobody; nogroup

pinned = pytest.mark.program("helm")


def ids(node: Any) -> Iterator[int]:
    """Every user and group id in a manifest."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"runAsUser", "runAsGroup", "fsGroup"}:
                yield value
            else:
                yield from ids(value)
    elif isinstance(node, list):
        for item in node:
            yield from ids(item)


@pytest.mark.parametrize("uid", [EXPORTER, PROXY])
def test_the_ids_are_those_of_nobody_else(uid: int) -> None:
    assert uid in ROOTLESS_MAPS
    assert uid not in PEOPLE
    assert not any(uid in taken for taken in SYSTEMD)
    assert uid not in COMMON


def test_the_image_runs_as_the_exporters_user() -> None:
    users = re.findall(r"^USER (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert users == [f"{EXPORTER}:{EXPORTER}"]


@pinned
@pytest.mark.parametrize("profile", PROFILES)
def test_the_chart_has_the_images_user_or_root_and_no_other(profile: str) -> None:
    rendered = render(profile=profile)
    own = {0} if rendered.container["securityContext"]["runAsUser"] == 0 else {EXPORTER}
    assert set(ids(rendered.container)) == own
    assert set(ids(rendered.objects)) == own | {EXPORTER}


@pinned
def test_the_proxy_has_another_user_than_the_exporter() -> None:
    exporter, proxy = render(PROXIED).pod["containers"]
    assert set(ids(exporter)) == {EXPORTER}
    assert set(ids(proxy)) == {PROXY}


@pytest.mark.parametrize("path", sorted((ROOT / "deploy").glob("mgpu-exporter*.yaml")))
def test_the_manifests_have_the_images_user(path: Path) -> None:
    rendered = Rendered(path.read_text())
    expected = {0, EXPORTER} if "podresources" in path.name else {EXPORTER}
    assert set(ids(rendered.objects)) == expected
