"""``python -m tools.cluster [quick]``: get the programs, then run the cases in their namespaces."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.fakenvml.build import library
from tools.cluster.pins import KUBERNETES_SOURCE, MONITORING, MONITORING_KINDS, OPERATOR_SOURCES
from tools.cluster.sandbox import run_inside
from tools.cluster.stage import DRIVER, EXPORTER, KINDS, PROTO
from tools.cluster.tools import ToolError, module_folder, provide
from tools.cluster.turn import turn

_HERE = Path(__file__).parent
_CASE_S = 600


def main() -> int:
    """Run the cases; pytest's exit status. ``programs`` gets the programs and runs nothing."""
    arguments = sys.argv[1:]
    if os.geteuid() != 0:
        sys.exit("cluster: needs root, for namespaces, cgroups and containers")
    try:
        needs_all = arguments[:1] not in (["quick"], ["programs"])
        provide(*(OPERATOR_SOURCES if needs_all else ()), with_registry=needs_all)
        if arguments == ["programs"]:
            return 0
        with turn() as state:
            _prepare(state)
            return run_inside(_cases(arguments), state)
    except ToolError as error:
        sys.exit(f"cluster: {error}")


def _cases(arguments: list[str]) -> list[str]:
    quick = arguments[:1] == ["quick"]
    picked = [*(["-m", "quick"] if quick else []), *arguments[quick:]]
    pytest = [sys.executable, "-m", "pytest", str(_HERE), f"--timeout={_CASE_S}", "-ra"]
    return [*pytest, "-p", "no:cacheprovider", *picked]


def _prepare(state: Path) -> None:
    """What cannot be made within, where there is no network and little can be written."""
    kubelet = module_folder("k8s.io/kubelet", KUBERNETES_SOURCE.staging)
    shutil.copy(kubelet / "pkg/apis/deviceplugin/v1beta1" / PROTO, state / PROTO)
    shutil.copytree(library().parent, state / DRIVER)
    shutil.copytree(module_folder(*MONITORING) / MONITORING_KINDS, state / KINDS)
    _build_image(state / EXPORTER)


def _build_image(archive: Path) -> None:
    """The exporter's own image, over a stand-in of its base: there may be no registry."""
    build = [sys.executable, "-m", "tools.image.build", "--stand-in", str(archive)]
    done = subprocess.run(build, capture_output=True, text=True, cwd=_HERE.parents[1], check=False)
    if done.returncode:
        said = (done.stdout + done.stderr)[-3000:]
        raise ToolError(f"the exporter's image was not built: {said}")
    print(done.stdout, end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
