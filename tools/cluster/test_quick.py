import pytest

from tools.cluster.agent import USER
from tools.cluster.stage import Stage
from tools.cluster.workloads import QOS, container, pod

pytestmark = pytest.mark.quick


def test_the_exporter_reads_the_api_server_as_its_service_account(stage: Stage) -> None:
    page = stage.agent.when(
        lambda page: page.value("mgpu_exporter_source_up", source="pods_api") == 1, "pods are read"
    )
    assert page.value("mgpu_exporter_source_up", source="cgroups") == 1
    assert page.value("mgpu_exporter_source_up", source="nvml") == 1
    assert stage.kubectl.may(USER, "list", "pods")
    assert not stage.kubectl.may(USER, "list", "secrets")


@pytest.mark.parametrize("qos", QOS)
def test_use_lands_on_a_pod_of_each_qos_class(stage: Stage, qos: str) -> None:
    running = stage.run(pod(qos, container(resources=QOS[qos])))
    stage.attributed({running["main"]: 0})
    stage.delete(qos)
