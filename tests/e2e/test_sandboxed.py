"""A pod in gVisor, in real cgroups: its process is in the container of the sandbox alone."""

from pathlib import Path

import pytest

from tests.agent.sources.cgroups.names import container_path, new_container_id
from tests.e2e.scraper import falls, imbalances
from tests.e2e.stage import staged
from tests.e2e.tenant import Tenant

pytestmark = [pytest.mark.root, pytest.mark.program("cc"), pytest.mark.slow]

CORE = "mgpu_container_core_seconds_total"
IDLE = "mgpu_container_allocated_idle_core_seconds_total"
ALLOCATED = "mgpu_container_allocated_core_seconds_total"
DCGM = "DCGM_FI_DEV_FB_USED"


@pytest.mark.parametrize("also_allocated", [False, True])
def test_the_use_of_a_sandbox_is_held_against_what_its_pod_was_allocated(
    tmp_path: Path, *, also_allocated: bool
) -> None:
    tenant = Tenant("sandboxed")
    limits = {"vke.volcengine.com/mgpu-core": "40", "vke.volcengine.com/mgpu-memory": "1024"}
    document = tenant.document(
        containers={"main": tenant.container_id, "side": new_container_id()},
        limits=limits,
        annotations={f"vke.volcengine.com/gpu-index-container-{c}": "0" for c in ("main", "side")},
    )
    if not also_allocated:
        document["spec"]["containers"][1]["resources"] = {}
    with staged(tmp_path, "--compat=dcgm") as stage:
        stage.api.add_pod(document)
        stage.pages.when(lambda p: p.all(ALLOCATED, **tenant.pod_labels), "it is allocated")
        sandbox = container_path(tenant.driver, tenant.uid, new_container_id())
        stage.node.run(sandbox, 0, duty=0.1, period=0.53)
        pod = dict(tenant.pod_labels)
        if also_allocated:
            begin = stage.pages.when(
                lambda p: p.value("mgpu_pod_core_seconds_total", **pod), "it works"
            )
            end = stage.pages.after(begin, 6)
            level, labels, share = "pod", pod, 0.8
            assert end.value(IDLE, **tenant.labels, uuid="GPU-0") is None
            why = {"quantity": "core", "reason": "container_pending", **tenant.labels}
            assert end.value("mgpu_container_unmeasured", uuid="GPU-0", **why) == 1
        else:
            begin = stage.pages.when(lambda p: p.value(CORE, **tenant.labels), "it works")
            end = stage.pages.after(begin, 6)
            level, labels, share = "container", tenant.labels, 0.4
            assert end.all(CORE, **pod, container="") == []
            assert [found["container"] for found, _ in end.all(DCGM, pod=tenant.name)] == ["main"]

        def rise(name: str) -> float:
            values = (p.value(f"mgpu_{level}_{name}", **labels) or 0.0 for p in (end, begin))
            return next(values) - next(values)

        idle, used = rise("allocated_idle_core_seconds_total"), rise("core_seconds_total")
        borrowed = rise("borrowed_core_seconds_total")
        assert idle >= 3 * share
        assert used + idle - borrowed == pytest.approx(
            rise("allocated_core_seconds_total"), abs=share
        )
        assert stage.pages.failures == []
        assert list(falls(stage.pages.pages)) == []
        assert [wrong for page in stage.pages.pages for wrong in imbalances(page)] == []
