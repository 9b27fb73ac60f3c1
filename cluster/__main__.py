"""``python -m cluster [quick]``: get the programs, then run the cases in their namespaces."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster.pins import KUBERNETES_SOURCE
from cluster.sandbox import run_inside
from cluster.stage import EXPORTER
from cluster.tools import ToolError, module_folder, provide

_HERE = Path(__file__).parent
_CASE_S = 600


def main() -> int:
    """Run the cases; pytest's exit status."""
    arguments = sys.argv[1:]
    quick = arguments[:1] == ["quick"]
    if os.geteuid() != 0:
        sys.exit("cluster: needs root, for namespaces, cgroups and containers")
    state = Path(tempfile.mkdtemp(prefix="mgpu-cluster-"))
    state.chmod(0o755)
    try:
        provide()
        module_folder("k8s.io/kubelet", KUBERNETES_SOURCE.staging)
        _build_image(state / EXPORTER)
        pytest = [sys.executable, "-m", "pytest", str(_HERE), f"--timeout={_CASE_S}", "-ra"]
        picked = [*(["-m", "quick"] if quick else []), *arguments[quick:]]
        return run_inside([*pytest, "-p", "no:cacheprovider", *picked], state)
    except ToolError as error:
        sys.exit(f"cluster: {error}")
    finally:
        shutil.rmtree(state, ignore_errors=True)


def _build_image(archive: Path) -> None:
    """The exporter's own image, over a stand-in of its base: there may be no registry."""
    build = [sys.executable, "-m", "image.build", "--stand-in", str(archive)]
    done = subprocess.run(build, capture_output=True, text=True, cwd=_HERE.parent, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr)[-3000:]
        raise ToolError(f"the exporter's image was not built: {said}")
    print(done.stdout, end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
