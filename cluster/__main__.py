"""``python -m cluster [quick]``: get the programs, then run the cases in their namespaces."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from cluster import exporter_image
from cluster.pins import KUBERNETES_SOURCE
from cluster.sandbox import run_inside
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
        exporter_image.provide()
        module_folder("k8s.io/kubelet", KUBERNETES_SOURCE.staging)
        pytest = [sys.executable, "-m", "pytest", str(_HERE), f"--timeout={_CASE_S}", "-ra"]
        picked = [*(["-m", "quick"] if quick else []), *arguments[quick:]]
        return run_inside([*pytest, "-p", "no:cacheprovider", *picked], state)
    except ToolError as error:
        sys.exit(f"cluster: {error}")
    finally:
        shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
