"""Gets the programs: Debian's packages by apt, the others built with Go from the module proxy.

Go is the machine's own, or PyPI's; it fetches its next version itself where a module wants that.

Builds are kept in ``$XDG_CACHE_HOME/mgpu-exporter-cluster`` under the version that they are of.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tools import install
from tools.cluster.pins import OPERATOR_SOURCES, PACKAGES, SOURCES, Source

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mgpu-exporter-cluster"
_FOLDER = re.compile(r"^\s*(replace )?\S+ => \./\S+$", re.MULTILINE)
_STAGING = re.compile(r"(?P<module>k8s\.io/[a-z-]+) => \./staging/src/\S+")


class ToolError(Exception):
    """A program could not be had; the message says which, and what to do."""


def provide(*sources: Source, with_registry: bool) -> None:
    """Install and build what is missing, these sources beside those of each run.

    ``with_registry``: only the cases of a release push to one.

    Raises:
        ToolError: something cannot be had on this machine.

    """
    _install()
    for source in (*SOURCES, *sources):
        _build(source)
    for name in ("helm", "registry") if with_registry else ("helm",):
        try:
            install.provide(name)
        except install.ToolError as error:
            raise ToolError(f"{name}: {error}") from error


def program(name: str) -> str:
    """The path of a program that was built here, or of one of the system."""
    for source in (*SOURCES, *OPERATOR_SOURCES):
        if name in source.programs:
            return str(CACHE / source.key / name)
    return str(install.provide(name)) if name in install.PROGRAMS else name


def module_folder(module: str, version: str, checksum: str = "") -> Path:
    """Where the module cache holds a module; it is fetched if it must be.

    Raises:
        ToolError: there is no Go, the proxy does not give the module, or it has another checksum.

    """
    told = json.loads(_go("mod", "download", "-json", f"{module}@{version}", cwd=Path("/")))
    if checksum and told["Sum"] != checksum:
        raise ToolError(f"{module} {version} has the checksum {told['Sum']}, not {checksum}")
    return Path(told["Dir"])


def _install() -> None:
    missing = sorted(package for name, package in PACKAGES.items() if not _is_there(name))
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise ToolError(f"not Debian (no apt-get): install by hand what has {', '.join(missing)}")
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    install = [*apt, "install", "-y", "--no-install-recommends", *missing]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apt, "update"], env=environment, capture_output=True, check=False)
    done = subprocess.run(install, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"apt-get could not install {', '.join(missing)}: {done.stderr[-2000:]}")


def _is_there(name: str) -> bool:
    return Path(name).exists() if name.startswith("/") else shutil.which(name) is not None


def _build(source: Source) -> None:
    folder = CACHE / source.key
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all((folder / name).exists() for name in source.programs):
            return
        folder.mkdir(exist_ok=True)
        module = module_folder(source.module, source.version)
        own = _module_file(source, module, folder)
        if source.own is None:
            _make(source, module, own, [f"./cmd/{name}" for name in source.programs])
        else:
            shutil.copy(source.own, folder)
            _make(source, folder, own, ["."])


def _module_file(source: Source, module: Path, folder: Path) -> Path:
    """A module file of our own: the source's, with published modules for folders that it lacks.

    Our own program's module is like the source's, which it needs: so most packages are built.
    """
    text = (module / "go.mod").read_text()
    text = _STAGING.sub(rf"\g<module> => \g<module> {source.staging}", text)
    text = _FOLDER.sub("", text)
    own = folder / "build.mod"
    if source.own is not None:
        (name,) = source.programs
        text = text.replace(f"module {source.module}", f"module {name}", 1)
        text += f"require {source.module} {source.version}\n"
        own = folder / "go.mod"
    own.write_text(text)
    own.with_suffix(".sum").write_text((module / "go.sum").read_text())
    return own


def _make(source: Source, where: Path, own: Path, packages: list[str]) -> None:
    """Build all programs at once: they share most packages. Whole or not at all."""
    begun = time.monotonic()
    print(f"building {source.key} (kept in {own.parent}) ...", flush=True)
    with tempfile.TemporaryDirectory(dir=own.parent) as scratch:
        _go(
            *("build", f"-modfile={own}", "-mod=mod", "-trimpath", "-buildvcs=false"),
            f"-tags={source.tags}",
            *(f"-ldflags={' '.join(('-s', '-w', *source.linker))}", "-o", f"{scratch}/"),
            *packages,
            cwd=where,
        )
        for name in source.programs:
            (Path(scratch) / name).rename(own.parent / name)
    print(f"building {source.key} took {time.monotonic() - begun:.0f} s", flush=True)


def _go(*arguments: str, cwd: Path) -> str:
    try:
        go = install.go(CACHE)
    except install.ToolError as error:
        raise ToolError(f"Go: {error}") from error
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(
        ["nice", go, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ToolError(f"go {' '.join(arguments[:2])} failed: {done.stderr[-3000:]}")
    return done.stdout
