"""Builds the stand-in for ``libnvidia-ml.so.1`` with the system's C compiler."""

import contextlib
import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE / ".build"
SONAME = "libnvidia-ml.so.1"
COMPILER = ("cc", "-std=gnu11", "-O2", "-g", "-fPIC", "-pthread", "-fvisibility=hidden")
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def library(omit: Collection[str] = (), *, struct535: bool = False) -> Path:
    """Path of the library, built unless an equal one is there. Safe to call from several processes.

    Args:
        omit: functions that the library shall lack, as an older driver does.
        struct535: the 32-byte process lists of drivers 535.43 to 535.98, which lack
            ``nvmlDeviceGetRunningProcessDetailList`` too: peers tell them by that.

    """
    hidden = set(omit) | ({"nvmlDeviceGetRunningProcessDetailList"} if struct535 else set())
    options = ("-DSTRUCT535",) if struct535 else ()
    stubs = stub_source()
    objects = CACHE / f"objects-{_key(stubs, (), options)}"
    folder = CACHE / _key(stubs, hidden, options)
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not objects.exists():
            _compile(objects, stubs, options)
        if not folder.exists():
            _link(folder, objects, hidden)
    return folder / SONAME


def implemented() -> frozenset[str]:
    """Names of the functions that the C files define."""
    text = "".join(path.read_text() for path in sorted(HERE.glob("*.c")))
    defined = re.findall(r"^(?:NVML|GET_[A-Z]+|LIST)\((nvml\w+)", text, re.MULTILINE)
    return frozenset(defined) | {"nvmlErrorString"}  # the only one that returns no code


def known_to_pynvml() -> frozenset[str]:
    """Names of all functions that the installed pynvml may look up."""
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pynvml is not installed; install nvidia-ml-py")
    text = Path(spec.origin).read_text()
    return frozenset(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', text))


def stub_source() -> str:
    """C of everything else that pynvml knows: it is not supported here."""
    names = sorted(known_to_pynvml() - implemented())
    stubs = [
        f"NVML({name})(void) {{ CALL() return NVML_ERROR_NOT_SUPPORTED; }}\n" for name in names
    ]
    return "".join(['#include "fake.h"\n', *stubs])


def _key(stubs: str, hidden: Collection[str], options: Collection[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted([*HERE.glob("*.c"), *HERE.glob("*.h"), Path(__file__)]):
        digest.update(path.read_bytes())
    digest.update(repr((stubs, sorted(hidden), sorted(options))).encode())
    return digest.hexdigest()[:16]


def _compile(folder: Path, stubs: str, options: Collection[str]) -> None:
    """Compiles every C file once; the libraries with functions omitted are linked from these."""
    with _made_whole(folder) as scratch:
        (scratch / "stubs.c").write_text(stubs)
        sources = [*sorted(HERE.glob("*.c")), scratch / "stubs.c"]
        command = [*COMPILER, *WARNINGS, *options, f"-I{HERE}", "-c", *map(str, sources)]
        subprocess.run(command, check=True, cwd=scratch)


def _link(folder: Path, objects: Path, hidden: Collection[str]) -> None:
    """Links a library from which the hidden functions are not visible."""
    unknown = set(hidden) - implemented() - known_to_pynvml()
    if unknown:
        raise ValueError(f"no such NVML functions to omit: {sorted(unknown)}")
    with _made_whole(folder) as scratch:
        exports = scratch / "exports.map"
        local = "".join(f" {name};" for name in [*sorted(hidden), "*"])
        exports.write_text(f"{{ global: nvml*; fakenvml_*; local:{local} }};\n")
        linking = ("-shared", f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={exports}")
        command = [*COMPILER, *linking, *map(str, sorted(objects.glob("*.o")))]
        subprocess.run([*command, "-o", str(scratch / SONAME)], check=True)
        scratch.chmod(0o755)


@contextlib.contextmanager
def _made_whole(folder: Path) -> Iterator[Path]:
    """A scratch folder that becomes ``folder`` at the end: a broken build leaves nothing behind."""
    scratch = Path(tempfile.mkdtemp(dir=CACHE))
    try:
        yield scratch
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
