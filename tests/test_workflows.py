"""The workflows: whatever they take from elsewhere is pinned, and a release is audited."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
ACTION = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")

# Images that an action pulls if nothing else is said, and where its inputs name another.
PULLED = {
    "docker/setup-qemu-action": ("image", r"docker\.io/tonistiigi/binfmt"),
    "docker/setup-buildx-action": ("driver-opts", r"image=docker\.io/moby/buildkit"),
    "docker/build-push-action": ("sbom", r"generator=docker\.io/docker/buildkit-syft-scanner"),
}


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        yield from job["steps"]


def images(node: Any) -> Iterator[str]:
    """What a workflow itself runs as a container."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"container", "image"} and isinstance(value, str):
                yield value
            else:
                yield from images(value)
    elif isinstance(node, list):
        for item in node:
            yield from images(item)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_action_is_pinned_by_commit_and_says_its_version(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        used, _, comment = line.partition("uses:")[2].partition("#")
        assert ACTION.fullmatch(used.strip()), line
        assert re.fullmatch(r" v\d+\.\d+\.\d+", comment), line


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_image_is_pinned_by_digest(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert not [image for image in images(document) if not DIGEST.search(image)]
    assert not re.search(r"docker (run|pull) ", path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_an_action_pulls_is_pinned_by_digest(path: Path) -> None:
    for step in steps(path):
        name = step.get("uses", "").partition("@")[0]
        if name in PULLED:
            key, image = PULLED[name]
            given = str(step.get("with", {}).get(key, ""))
            assert re.fullmatch(rf"{image}(:[\w.-]+)?{DIGEST.pattern}", given), (name, key)
        else:
            assert not name.startswith("docker/"), f"does {name} pull an image?"


def publishing() -> list[str]:
    """What a release does, step by step."""
    every = list(steps(ROOT / ".github/workflows/release.yml"))
    assert not any(step.get("continue-on-error") for step in every)
    return [step.get("run", "") + step.get("uses", "") for step in every]


def first(does: list[str], words: str) -> int:
    return next(number for number, text in enumerate(does) if words in text)


@pytest.mark.parametrize(
    ("pushed", "signed"),
    [
        ("docker/build-push-action", 'cosign sign --yes "$IMAGE@$DIGEST"'),
        ("helm push", 'cosign sign --yes "$CHARTS/mgpu-exporter@$digest"'),
        ("uv publish", "cosign sign-blob"),
    ],
)
def test_what_a_release_publishes_it_signs_by_digest(pushed: str, signed: str) -> None:
    does = publishing()
    assert first(does, pushed) <= first(does, signed)


def test_a_release_is_audited_before_anything_is_published() -> None:
    does = publishing()
    assert first(does, "make audit") < min(first(does, "login"), first(does, "build-push"))


def test_a_release_builds_all_that_it_can_before_it_publishes_anything() -> None:
    does = publishing()
    assert first(does, "make wheel chart-package sbom") < first(does, "docker login")


def test_a_step_of_a_release_fails_where_a_part_of_its_pipe_fails() -> None:
    """Only a shell that is named gets ``-o pipefail``."""
    document = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert document["defaults"]["run"]["shell"] == "bash"


def test_a_release_needs_no_secret_but_the_workflows_own() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    assert "secrets." not in text
    assert "id-token: write" in text


def test_the_one_file_for_kubectl_is_made_of_locked_packages() -> None:
    line = subprocess.run(
        ["make", "--dry-run", "kubectl"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.replace("\\\n", " ")
    (build,) = [part for part in line.splitlines() if "tools/plugin.py build" in part]
    assert {"--isolated", "--locked", "--no-dev", "--no-editable"} <= set(build.split())
    assert "pip" not in (ROOT / "tools/plugin.py").read_text()


def test_the_audit_fails_on_what_it_could_not_look_up() -> None:
    """Without --strict pip-audit ends with 0 where it learnt nothing about any package."""
    line = subprocess.run(
        ["make", "--dry-run", "audit"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.replace("\\\n", " ")
    (audit,) = [part for part in line.splitlines() if "pip-audit" in part]
    flags = audit.partition("pip-audit")[2].split()
    assert {"--strict", "--require-hashes", "--disable-pip"} <= set(flags)
    assert [f.partition("=")[2] for f in flags if f.startswith("--requirement=")] == [
        *("dist/requirements.txt", "tools/image/tools.txt")
    ]


def test_the_audit_is_of_all_that_the_image_installs(tmp_path: Path) -> None:
    """The image installs by `uv sync --locked --no-dev --all-extras` (Dockerfile)."""
    said = (ROOT / "Makefile").read_text().partition("\naudit:")[2].partition("\n\n")[0]
    (export,) = [line.strip() for line in said.splitlines() if "uv export" in line]
    options = export.partition("uv export ")[2].split()[:-1]
    assert "uv sync --locked --no-dev --all-extras" in (ROOT / "Dockerfile").read_text()
    assert {"--locked", "--no-dev", "--all-extras"} <= set(options)
    uv = Path(sys.executable).parent / "uv"
    file = tmp_path / "requirements.txt"
    command = [str(uv), "export", *options, f"--output-file={file}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    listed = re.findall(r"^([\w.-]+)==\S+", file.read_text(), re.MULTILINE)
    assert {"aiohttp", "kubernetes", "grpcio", "textual", "pyyaml"} <= set(listed)
    assert not {"pytest", "mgpu-exporter", "pip-audit"} & set(listed)
    assert file.read_text().count("--hash=sha256:") >= len(listed)
