"""What Helm renders of the chart, as objects that tests can look at."""

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from exporter.agent.settings import TABLE

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "mgpu-exporter"
RELEASE, NAMESPACE = "gpus", "observing"
KUBERNETES = "1.34.0"

Object = dict[str, Any]


class Refused(Exception):  # noqa: N818 - it is the outcome that a test expects
    """Helm refused the values; the message is what it said."""


class Rendered:
    """The objects of one rendering."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.objects: list[Object] = [o for o in yaml.load_all(text, yaml.CSafeLoader) if o]

    def of(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind: str) -> Object:
        """The only object of a kind."""
        (found,) = self.of(kind)
        return found

    @property
    def pod(self) -> Object:
        """The pod template's spec."""
        spec: Object = self.one("DaemonSet")["spec"]["template"]["spec"]
        return spec

    @property
    def annotations(self) -> dict[str, str]:
        """The pod template's annotations."""
        found: dict[str, str] = self.one("DaemonSet")["spec"]["template"]["metadata"]["annotations"]
        return found

    @property
    def container(self) -> Object:
        """The exporter's container."""
        first: Object = self.pod["containers"][0]
        return first

    @property
    def args(self) -> list[str]:
        """Its arguments, and before them as flags those settings that are variables."""
        settings = {one.variable: one.name for one in TABLE.values()}
        flags = [f"--{settings[k]}={v}" for k, v in self.env.items() if k in settings]
        command, *given = self.container["args"]
        return [command, *flags, *given]

    @property
    def env(self) -> dict[str, str | None]:
        """Its plain environment variables; None for one that is looked up."""
        return {one["name"]: one.get("value") for one in self.container["env"]}

    @property
    def settings(self) -> str:
        """The exporter's settings file."""
        (text,) = (
            one["data"]["settings.yaml"]
            for one in self.of("ConfigMap")
            if "settings.yaml" in one.get("data", {})
        )
        return str(text)

    @property
    def host_paths(self) -> dict[str, str]:
        """Path on the host → path in the container."""
        mounts = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        return {
            volume["hostPath"]["path"]: mounts[volume["name"]]
            for volume in self.pod["volumes"]
            if "hostPath" in volume
        }

    @property
    def rules(self) -> set[tuple[str, str, str]]:
        """API group, resource and verb of all that the ServiceAccount may."""
        own = self.pod["serviceAccountName"]
        bound = {
            binding["roleRef"]["name"]
            for binding in self.of("ClusterRoleBinding")
            if own in {subject["name"] for subject in binding["subjects"]}
        }
        roles = (role for role in self.of("ClusterRole") if role["metadata"]["name"] in bound)
        return {
            (group, resource, verb)
            for role in roles
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }


def render(values: Mapping[str, Any] | None = None, **others: object) -> Rendered:
    """Render with these values; ``others`` are values of the top level.

    Raises:
        Refused: the schema or a template did not take them.

    """
    return Rendered(template(CHART, json.dumps({**(values or {}), **others})))


@cache
def template(chart: Path, values: str, *arguments: str) -> str:
    """``helm template`` of a chart with values as JSON."""
    return helm(
        *("template", RELEASE, str(chart), "--namespace", NAMESPACE, "--values", "-"),
        *("--kube-version", KUBERNETES, *arguments),
        given=values,
    )


def helm(*arguments: str, given: str = "") -> str:
    """Run Helm.

    Raises:
        Refused: it ended with an error.

    """
    done = subprocess.run(
        ["helm", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOGC": "off", "GOMAXPROCS": "1"},  # takes a third less of the CPU
    )
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout
