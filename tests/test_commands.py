"""What the pages tell people to type exists: commands, flags, targets, families, expressions."""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from exporter.cli import _parser
from exporter.metrics.families import FAMILIES
from tests.e2e.programs import Exporter

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
MADE_FROM_TABLES = {
    f"{name}.md" for name in ("metrics", "configuration", "compatibility", "scenarios", "sharing")
}
WRITTEN = [page for page in PAGES if page.name not in {*MADE_FROM_TABLES, "CHANGELOG.md"}]
IMAGE = re.compile(r".*/mgpu-exporter:\d\S*")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, without the indentation of a list."""
    found = re.findall(
        rf"^( *)```{language}\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE
    )
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


def lines(page: Path) -> list[str]:
    """What a reader types, line by line."""
    typed = "\n".join(blocks(page, "console")).replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in typed.splitlines() if line.startswith("$ ")]


def commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, and those that docker and kubectl start."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, "|"]:
        if set(word) <= set("|&;<>"):
            yield words
            words = []
        elif word == "--" or (IMAGE.fullmatch(word) and words[:2] == ["docker", "run"]):
            yield words
            words = [] if word == "--" else ["mgpu-exporter"]
        else:
            words.append(word)


ALL = [(page.name, words) for page in WRITTEN for line in lines(page) for words in commands(line)]


def started(program: str) -> list[ParameterSet]:
    """Each different use of a program, by the page that shows it."""
    found = {
        f"{page} {' '.join(words[1:])}": words[1:]
        for page, words in ALL
        if words and Path(words[0]).name == program
    }
    return [pytest.param(arguments, id=name) for name, arguments in found.items()]


@pytest.mark.parametrize("arguments", started("mgpu-exporter"))
def test_the_command_takes_the_arguments_that_the_pages_show(arguments: list[str]) -> None:
    assert _parser().parse_args(arguments) is not None


@pytest.mark.parametrize(
    ("program", "more"),
    [
        pytest.param("helm", (), marks=pytest.mark.program("helm")),
        pytest.param("kubectl", ("options",), marks=pytest.mark.program("kubectl")),
    ],
)
def test_the_flags_of_other_programs_are_theirs(program: str, more: tuple[str, ...]) -> None:
    def told(*arguments: str) -> str:
        asked = [program, *arguments]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout

    listed = re.findall(r"^  ([a-z-]+) {2,}", told("--help"), re.MULTILINE)
    of_all = told(*more) if more else ""
    used: dict[tuple[str, ...], set[str]] = {}
    for page, words in ALL:
        if words[:1] == [program] and "mgpu" not in words:  # the plugin takes its own
            at = next(n for n, word in enumerate(words) if word in listed)
            below = words[at + 1 : at + 2] if words[at] in {"create", "rollout"} else []
            used.setdefault((words[at], *below), set()).update(
                f"{flag.partition('=')[0]} of {page}"
                for word in words
                if word.startswith("-")
                for flag in ([word] if word.startswith("--") else [f"-{one}" for one in word[1:]])
            )
    for command, flags in used.items():
        known = told(*command, "--help") + of_all
        names = {flag: flag.partition(" ")[0] for flag in flags}
        assert [f for f, n in names.items() if not re.search(rf"(?<![\w-]){n}\b", known)] == []
    wanted = {"helm": {"upgrade", "rollback", "uninstall"}, "kubectl": {"delete", "label"}}
    assert wanted[program] <= {command for command, *_ in used}


def test_what_is_removed_from_a_machine_is_what_its_page_installs() -> None:
    typed = "\n".join(lines(ROOT / "docs" / "upgrading.md"))
    installed = (ROOT / "docs/off-kubernetes.md").read_text()
    unit = (ROOT / "deploy/systemd/mgpu-exporter.service").read_text()

    for place in ("/opt/pipx", "/usr/local/bin", "/etc/systemd/system/", "/etc/default/"):
        assert place in installed, place
        assert place in typed, place
    assert "/etc/default/mgpu-exporter" in unit
    assert "/usr/local/bin/mgpu-exporter" in unit


@pytest.mark.parametrize("arguments", started("make"))
def test_the_targets_that_the_pages_name_are_in_the_makefile(arguments: list[str]) -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = [word for word in arguments if "=" not in word]

    assert targets
    assert set(wanted) <= set(targets[1].split())


@pytest.mark.parametrize("given", ["--simulate=hpc", "--gpus.source=amd"])
def test_make_run_serves_the_node_that_is_asked_for(tmp_path: Path, given: str) -> None:
    for name in ("uv", "mgpu-exporter"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        program = tmp_path / "bin" / name
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
    (tmp_path / ".run").touch()

    done = subprocess.run(
        ["make", "--silent", "run", f"VENV={tmp_path}", f"ARGS={given} --web.open-page"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert done.stdout == f"serve {given} --web.open-page\n"


def test_the_pages_show_commands() -> None:
    """So that the tests above have found some."""
    assert len(started("mgpu-exporter")) > 5
    assert len(started("make")) > 1


@pytest.mark.parametrize(
    "page",
    [page for page in WRITTEN if page.name != "autoscaling.md"],  # it names the adapter's metrics
    ids=lambda page: page.name,
)
def test_the_families_that_a_page_names_exist(page: Path) -> None:
    families = {family.full_name for family in FAMILIES}
    named = set(
        re.findall(
            r"\bmgpu_(?:device|container|pod|namespace|group|exporter)_[a-z_]*[a-z]\b(?!_|\()",
            page.read_text(),
        )
    )

    assert {name for name in named if not any(one.startswith(name) for one in families)} == set()


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    """Those between the pages of docs/ are checked, with their anchors, by make docs-site."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.program("promtool")
def test_the_expressions_are_valid_promql(tmp_path: Path) -> None:
    queries = [
        query.strip()
        for page in WRITTEN
        for block in blocks(page, "promql")
        for query in block.split("\n\n")
    ]
    rules = [
        {"record": f"example:number_{number}", "expr": query}
        for number, query in enumerate(queries)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "examples", "rules": rules}]}))

    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )

    assert len(queries) > 8
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.program("promtool")
def test_prometheus_takes_the_configuration_of_a_machine_with_the_rules(
    tmp_path: Path,
) -> None:
    found = blocks(ROOT / "docs" / "off-kubernetes.md", "yaml")
    (text,) = (one for one in found if "scrape_configs" in one)
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    (tmp_path / "rules").symlink_to(ROOT / "rules")

    done = subprocess.run(
        ["promtool", "check", "config", str(file)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout


@pytest.mark.slow
@pytest.mark.program("curl")
def test_what_is_asked_of_a_simulated_node_is_answered() -> None:
    """Every question in the pages is one that the page of metrics knows an answer to."""
    pages = [ROOT / "docs" / f"{name}.md" for name in ("off-kubernetes", "troubleshooting")]
    asked = [line for page in pages for line in lines(page) if line.startswith("curl ")]
    asked = [line for line in asked if "rejected" not in line]  # nothing is, of a simulated node
    begun = int(time.time()) - 30  # its container outside the cluster starts after some seconds
    with Exporter("--simulate=demo", f"--simulate.start={begun}") as exporter:
        exporter.when(
            lambda page: (
                page.all("mgpu_group_core_seconds_total")
                and any(
                    value for _, value in page.all("mgpu_device_unattributed_core_seconds_total")
                )
            ),
            "use by groups, and by nobody",
        )
        address = exporter.url.partition("://")[2]
        silent = [
            line
            for line in asked
            if not subprocess.run(
                ["bash", "-c", line.replace("localhost:10045", address)],
                check=False,
                capture_output=True,
            ).stdout
        ]

    assert len(asked) > 5
    assert silent == []
