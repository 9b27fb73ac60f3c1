"""What the image is made of: pinned, locked, listed, and there for both architectures."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from exporter import __version__
from tools.image.build import ROOT, base_name
from tools.image.sbom import bill

DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = {one["name"]: one for one in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
TOOLS = dict(
    re.findall(r"^(\S+)==(\S+)", (ROOT / "tools/image/tools.txt").read_text(), re.MULTILINE)
)


@cache
def components() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in bill()["components"]}


def test_the_base_is_pinned_by_digest_in_every_stage() -> None:
    assert re.fullmatch(
        r"docker\.io/library/python:\d+\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base_name()
    )
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}"}


def test_a_plain_build_has_the_labels_of_this_version() -> None:
    assert f"ARG VERSION={__version__}\n" in DOCKERFILE
    assert f'title="{PROJECT["name"]}"' in DOCKERFILE
    assert f'description="{PROJECT["description"]}"' in DOCKERFILE
    assert f'licenses="{PROJECT["license"]}"' in DOCKERFILE


def test_the_image_is_locked_by_the_uv_that_locks() -> None:
    assert TOOLS["uv"] == LOCK["uv"]["version"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_package_comes_ready_made_for_the_machine(machine: str) -> None:
    fits = re.compile(
        rf"-(py3|py2\.py3|cp313|cp3\d+-abi3)-[^-]*-?(none-any|manylinux\w*{machine}\S*)\.whl"
    )
    wheels = {
        name: [wheel["url"] for wheel in LOCK[name].get("wheels", ())] for name in components()
    }

    assert len(wheels) > 30
    assert [name for name, urls in wheels.items() if not any(map(fits.search, urls))] == []


def test_the_bill_lists_every_dependency_with_version_and_hash() -> None:
    needed = {
        re.split(r"[><=\[;]", line)[0].strip()
        for lines in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
        for line in lines
    }

    assert needed <= components().keys()
    for name, component in components().items():
        assert component["purl"] == f"pkg:pypi/{name}@{LOCK[name]['version']}"
        assert any(one["hashes"] for one in component["externalReferences"])
    assert bill()["metadata"]["component"]["version"] == __version__


def test_nothing_of_the_tests_is_on_the_bill() -> None:
    assert components().keys().isdisjoint({"pytest", "uv", "sphinx", "hypothesis", "hatchling"})


def test_the_bill_is_written_to_a_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.image.sbom", str(tmp_path / "dist" / "bill.json")]
    subprocess.run(command, check=True, cwd=ROOT)

    assert '"bomFormat": "CycloneDX"' in (tmp_path / "dist" / "bill.json").read_text()


def test_what_is_sent_to_the_builder_is_named_one_by_one() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)

    assert "*" in lines
    assert sent == {name for names in copied for name in names.split()}
