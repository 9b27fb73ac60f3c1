"""The exporter's settings as the chart's value ``settings``: which there are, and their form.

The form refuses what ``serve`` would refuse, but for what several settings together make wrong; of
that the templates refuse some (``mgpu.refuse``).
"""

from collections.abc import Iterator

from charts.forms import choice
from charts.forms import schema as schema_of
from charts.value import Schema
from exporter.agent.settings import TABLE
from exporter.inputs.values import Setting

OWNED = frozenset(
    {
        "web.listen-address",
        "web.telemetry-path",
        "web.config.file",
        "web.kubernetes-access",
        "web.kubernetes-audiences",
        "config.file",
        "path.cgroup",
        "path.procfs",
        "path.sysfs",
        "path.logs",
        "path.passwd",
        "nvml.library",
        "simulate",
        "simulate.start",
        "pods.source",
        "pods.claims",
        "kubelet.pod-resources-socket",
        "kubelet.address",
        "kubelet.ca-file",
        "kubelet.insecure-tls",
        "kubeconfig",
        "node.name",
    }
)
"""What follows from other values of the chart: mounts, permissions and ports hang on it."""

GONE = {"metrics.profile": ["standard"]}
"""Values of older versions. A schema can only list what is allowed, so it lets these pass, and the
templates (``mgpu.refuseSettings``) say what to write instead."""


def free() -> Iterator[Setting]:
    """The settings that may be given in ``settings``."""
    return (setting for setting in TABLE.values() if setting.name not in OWNED)


def restarting() -> list[str]:
    """Names of those whose change is taken up by a restart only."""
    return sorted(s.name for s in free() if not getattr(s, "live", False))


def schema() -> dict[str, object]:
    """The form of ``settings``: nested by the dots of the names, and nothing else."""
    root: dict[str, object] = _folder()
    for setting in free():
        *folders, leaf = setting.name.split(".")
        at = root
        for folder in folders:
            at = _properties(at).setdefault(folder, _folder())
        _properties(at)[leaf] = {
            **_form(setting),
            "description": f"{setting.about} ({setting.kind.allowed})",
        }
    return root


def _folder() -> dict[str, object]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _properties(folder: dict[str, object]) -> dict[str, dict[str, object]]:
    properties = folder["properties"]
    assert isinstance(properties, dict)  # noqa: S101 - see _folder
    return properties


def _form(setting: Setting) -> Schema:
    """The setting's values; those that stand for its default are there beside those of its kind."""
    if setting.name in GONE:
        (names,) = setting.kind.form.of
        return choice((*names, *GONE[setting.name]))
    if setting.default:
        return schema_of(setting.kind.form)
    # Where there is no default, what is empty stands for it.
    return {"anyOf": [schema_of(setting.kind.form), {"enum": ["", [], {}]}]}
