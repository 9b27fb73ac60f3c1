"""The runbooks: one for each alert, and what they tell to type can be typed."""

import json
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from exporter.agent.settings import TABLE
from exporter.cli import _parser
from tests.rules.run import DOCS
from tests.rules.test_alerts import NAMES, ROOT, RUNBOOKS

PATHS = sorted(RUNBOOKS.glob("*.md"))
SHARED = {"on-the-node", "reset", "silence", "xids"}  # what several of them need
VARIABLES = {"NODE", "INSTANCE", "UUID", "GPU", "NAMESPACE", "POD", "QUANTITY"}
OF_ALERTS = [path for path in PATHS if path.stem not in SHARED]
ON_THE_NODE = {"nvidia-smi", "dmesg", "ps", "systemctl", "fuser"}
PLAIN = {"mgpu-exporter", "journalctl", "systemctl"}  # of a machine without Kubernetes
PROGRAMS = {"kubectl", "echo", *PLAIN, *ON_THE_NODE}
OF_PODS = {  # what only a node of a cluster can have
    *("MgpuAllocatedGpuIdle", "MgpuExporterMissing", "MgpuNamespaceOverwritten"),
    *("MgpuPodNearMemoryLimit", "MgpuBillDayOpen"),
}
OTHERS = {"nvidia-driver", "alertmanager"}  # whose pods are others' charts'
RESET = re.compile(r"\breset|\b[Dd]rain")
COMMANDS = {
    *("get", "describe", "logs", "exec", "delete", "cordon", "uncordon", "drain", "label"),
    *("debug", "auth"),
}


def blocks(path: Path, language: str) -> list[str]:
    """The lines of a runbook's blocks of code."""
    found = re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in found for line in block.splitlines()]


def words_of(line: str) -> list[str]:
    """The words of a command, also of one whose answer a variable takes."""
    return shlex.split(re.sub(r"^[A-Z]+=\$\((.*)\)$", r"\1", line))


def section(path: Path, title: str) -> str:
    """The text of a section, which must be there."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", path.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{path.name} lacks {title}"
    return found[1]


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    assert [path.stem for path in OF_ALERTS] == NAMES
    assert {path.stem for path in PATHS} - set(NAMES) == SHARED


@pytest.mark.parametrize("path", OF_ALERTS, ids=lambda path: path.stem)
def test_a_runbook_begins_with_who_is_hit_by_a_command_and_a_query(path: Path) -> None:
    text = path.read_text()
    assert re.match(rf"# {path.stem}\n\n(Alert labels: .*\n\n)?## Who is hit\n\n```sh\n", text)
    hit, typed = section(path, "Who is hit"), section(path, "What to type")
    plain = "\n\nWithout Kubernetes:\n\n```sh\n"
    assert (plain in hit) == (path.stem not in OF_PODS)
    assert hit.count("```sh") == 1 + (plain in hit)
    assert "```promql" in hit
    assert "```" in typed
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == ["Who is hit", "What to type"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_runbook_begins_with_where_its_variables_stand(path: Path) -> None:
    _, first, *rest = path.read_text().split("\n\n")
    used = set(re.findall(r"\$([A-Z]+)\b", "\n".join(rest))) & VARIABLES
    assert {f"`${name}`" for name in used} <= set(re.findall(r"`\$[A-Z]+`", first))


def test_a_block_has_one_query_so_that_it_can_be_copied() -> None:
    for path in PATHS:
        queries = re.findall(r"^```promql\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
        assert all(query.count("\n") == 1 for query in queries), path.name


@pytest.mark.parametrize("name", [name for name in NAMES if "Xid" in name])
def test_a_runbook_of_xids_leads_to_their_table(name: str) -> None:
    assert "(xids.md)" in (RUNBOOKS / f"{name}.md").read_text()


@pytest.mark.parametrize("path", OF_ALERTS, ids=lambda path: path.stem)
def test_a_runbook_leads_to_a_shell_and_to_what_goes_before_a_reset(path: Path) -> None:
    typed = section(path, "What to type")
    _, _, behind = path.read_text().partition("## What to type\n")
    code = re.findall(r"^```sh\n(.*?)^```", behind, re.MULTILINE | re.DOTALL)
    programs = {shlex.split(line)[0] for block in code for line in block.splitlines()}
    assert ("(on-the-node.md)" in typed) == bool(programs & ON_THE_NODE)
    assert not RESET.search(typed) or "(reset.md)" in typed


@pytest.mark.parametrize("path", [*OF_ALERTS, DOCS / "alerts.md"], ids=lambda path: path.stem)
def test_who_is_to_silence_an_alert_is_led_to_the_command(path: Path) -> None:
    for words in re.findall(r"(?i).{9}\bsilence[^d].{30}", path.read_text()):
        assert re.search(r"\[.ilence [a-z ]+\]\((runbooks/)?silence\.md\)", words), words


def test_before_a_reset_all_that_holds_the_device_is_stopped_this_exporter_too() -> None:
    before = section(RUNBOOKS / "reset.md", "Before a reset")
    after = section(RUNBOOKS / "reset.md", "After it")
    assert "kubectl drain $NODE" in before
    assert "systemctl stop" in before
    labels = re.findall(r"(\S+)=(?:reset|false)\b", before)
    assert "mgpu-exporter/off" in labels
    assert all(f"{label}-" in after or f"{label}=true" in after for label in labels)
    assert "mgpu-exporter/off" in (ROOT / "charts/mgpu-exporter/templates/_dropin.tpl").read_text()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_runbooks_commands_are_of_programs_that_are_there(path: Path) -> None:
    for line in blocks(path, "sh"):
        words = words_of(line)
        assert words[0] in PROGRAMS, line
        if words[0] == "mgpu-exporter":
            assert _parser().parse_args(words[1:]).command == words[1]
        if words[0] != "kubectl":
            continue
        if "debug" in words:  # the node has the image, and nothing is pulled
            assert "--image=$IMAGE" in words
        after = words[words.index("--") + 1 :] if "--" in words else []
        if after[:1] == ["mgpu-exporter"]:
            assert _parser().parse_args(after[1:]).command == after[1]


def test_the_runbooks_names_are_the_charts() -> None:
    """The namespace, labels and account of what they type are there as the chart renders it."""
    text = (ROOT / "deploy" / "mgpu-exporter.yaml").read_text()
    objects = {one["kind"]: one for one in yaml.safe_load_all(text)}
    pod = objects["DaemonSet"]["spec"]["template"]
    labels = {f"{name}={value}" for name, value in pod["metadata"]["labels"].items()}
    closing = (ROOT / "charts/mgpu-exporter/templates/billclose.yaml").read_text()
    assert '"component" "bill-close"' in closing
    labels.add("app.kubernetes.io/component=bill-close")
    account = objects["ServiceAccount"]["metadata"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    [container] = pod["spec"]["containers"]  # so that exec and logs need no -c
    assert container["name"] == "mgpu-exporter"

    typed = [(path, words_of(line)) for path in PATHS for line in blocks(path, "sh")]
    given = [(a, b) for _, words in typed for a, b in pairwise(words) if words[0] == "kubectl"]
    found = {
        flag: {value for one, value in given if one == flag and "$" not in value}
        for flag in ("-n", "-l")
    }
    others = {"gpu-operator", "monitoring"}
    assert found["-n"] == {objects["Namespace"]["metadata"]["name"], *others}
    assert {one for one in found["-l"] if one.partition("=")[2] not in OTHERS} <= labels
    assert {b for _, words in typed for b in words if b.startswith("--as=")} == {f"--as={user}"}
    for path in PATHS:
        lines = blocks(path, "sh")
        for name in ("EXPORTER", "DRIVER", "ALERTMANAGER"):
            uses = [n for n, line in enumerate(lines) if f"${name}" in line]
            made = [n for n, line in enumerate(lines) if line.startswith(f"{name}=$(kubectl ")]
            assert not uses or (made and made[0] < uses[0]), (path.name, name)


@pytest.mark.program("kubectl")
def test_the_runbooks_flags_are_kubectls() -> None:
    known: dict[str, str] = {}
    for path in PATHS:
        for line in blocks(path, "sh"):
            words = words_of(line)
            words = words[: words.index("--")] if "--" in words else words
            if words[0] != "kubectl":
                continue
            command = next(word for word in words[1:] if word in COMMANDS)
            if command not in known:
                asked = ["kubectl", command, *(["can-i"] * (command == "auth")), "--help"]
                done = subprocess.run(asked, capture_output=True, text=True, check=True)
                known[command] = done.stdout
            flags = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert all(f"{flag}=" in known[command] for flag in flags - {"--as"}), line


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_runbooks_settings_are_the_exporters(path: Path) -> None:
    outside = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"`--([a-z.-]+)", outside):
        assert name in {setting.name for setting in TABLE.values()}, name


@pytest.mark.program("promtool")
def test_the_runbooks_expressions_are_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"runbook:{path.stem}:{number}", "expr": line}
        for path in PATHS
        for number, line in enumerate(blocks(path, "promql"))
    ]
    assert len(rules) > len(PATHS)
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "runbooks", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_runbooks_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        assert (path.parent / link.partition("#")[0]).exists()
    for page in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text()):
        assert (RUNBOOKS.parent.parent / page).exists(), page
