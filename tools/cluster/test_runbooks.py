"""What the runbooks tell to type works on the node."""

import json
import re
import shlex
from pathlib import Path

from tools.cluster.agent import NAMESPACE
from tools.cluster.programs import eventually
from tools.cluster.stage import Stage
from tools.cluster.workloads import pod

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"


def typed(stage: Stage, page: str, words: str) -> list[str]:
    """What stands after kubectl in a page's command with these words, for this node and agent."""
    text = (RUNBOOKS / f"{page}.md").read_text()
    line = next(one for one in text.splitlines() if one.startswith("kubectl") and words in one)
    exporter = (stage.agent.pod() or {}).get("metadata", {}).get("name", "")
    values = {"$NODE": stage.node.name, "$EXPORTER": f"pod/{exporter}", " -it": ""}
    for name, value in {**values, "mgpu-exporter exec": f"{NAMESPACE} exec"}.items():
        line = line.replace(name, value)
    return shlex.split(line)[1:]


def test_top_in_the_exporters_pod_shows_who_is_hit(stage: Stage) -> None:
    running = stage.run(pod("hit"))["main"]
    stage.attributed({running: 0})
    for page in ("MgpuGpuLost", "MgpuXidHardware", "MgpuGpuThrottled", "MgpuContainerStarved"):
        assert "hit" in stage.kubectl(*typed(stage, page, "top --once")), page
    assert "cgroups" in stage.kubectl(*typed(stage, "MgpuExporterBlind", "exporter check"))
    assert "can be used" in stage.kubectl(
        *typed(stage, "MgpuExporterConfigReloadFailed", "check-config")
    )
    stage.delete("hit")


def test_the_exporter_leaves_the_node_before_a_reset_and_comes_back(stage: Stage) -> None:
    stage.kubectl(*typed(stage, "reset", "off=reset"))
    eventually(lambda: stage.agent.pod() is None, "the exporter has left")
    stage.kubectl(*typed(stage, "reset", "off-"))
    eventually(lambda: stage.agent.pod() is not None, "it is back")
    stage.agent.wait()


def test_a_shell_on_the_node_is_made_of_the_exporters_image(stage: Stage, tmp_path: Path) -> None:
    text = (RUNBOOKS / "on-the-node.md").read_text()
    root = tmp_path / "root.json"
    (written,) = re.findall(r"echo '(.*)' > root\.json", text)
    root.write_text(written)
    words = typed(stage, "on-the-node", "debug node/")
    spec = (stage.agent.pod() or {})["spec"]
    image = spec["containers"][0]["image"]
    words = [word.replace("root.json", str(root)).replace("$IMAGE", image) for word in words]
    said = stage.kubectl(*words, "cat", "/etc/hostname")
    name = re.findall(r"node-debugger-\S+", said)[0]
    eventually(lambda: _ended(stage, name), "the shell has ended")
    assert stage.kubectl("logs", name).strip() == Path("/etc/hostname").read_text().strip()
    stage.kubectl("delete", "pod", name)


def _ended(stage: Stage, name: str) -> bool:
    status = json.loads(stage.kubectl("get", "pod", name, "-o", "json"))["status"]
    assert status["phase"] != "Failed", status
    return bool(status["phase"] == "Succeeded")
