"""The table of all settings by subject, their flags for argparse, and suggestions for typos."""

import re
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from exporter.agent.settings.clustersettings import ClusterSettings
from exporter.agent.settings.measuring import GeneralSettings, MeasuringSettings, MetricsSettings
from exporter.agent.settings.nodesettings import GroupSettings, NodeSettings
from exporter.agent.settings.web import WebSettings
from exporter.inputs.problems import meant, nearest
from exporter.inputs.values import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(
    MetricsSettings,
    MeasuringSettings,
    GroupSettings,
    ClusterSettings,
    NodeSettings,
    GeneralSettings,
    WebSettings,
):
    """The settings in force. Durations are nanoseconds. A setting that is not set is "" or ()."""


SUBJECTS: dict[str, dict[str, Setting]] = {
    subject.__doc__ or "": {field.name: field.metadata["setting"] for field in fields(subject)}
    for subject in (
        WebSettings,
        GeneralSettings,
        NodeSettings,
        ClusterSettings,
        GroupSettings,
        MeasuringSettings,
        MetricsSettings,
    )
}
"""Title → the settings of a subject, by field name."""

TABLE = {field: setting for subject in SUBJECTS.values() for field, setting in subject.items()}
"""Field name → setting, in the order of the documentation."""

BY_NAME = {setting.name: setting for setting in TABLE.values()}
"""Name → setting."""


def with_live(old: Settings, new: Settings) -> Settings:
    """The old settings with the live ones taken from the new settings."""
    live = {field: getattr(new, field) for field, setting in TABLE.items() if setting.live}
    return replace(old, **live)


def changed(old: Settings, new: Settings) -> tuple[Setting, ...]:
    """The settings that differ."""
    return tuple(s for field, s in TABLE.items() if getattr(old, field) != getattr(new, field))


PREFIX = "MGPU_"
REMOTE = "MGPU_REMOTE_"  # of `top` and `snapshot`, which read them themselves: not settings

_SERVICE_LINK = re.compile(
    r".+_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|.+_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)
"""The variables that Kubernetes sets in every container for each Service of the namespace:
kubernetes/pkg/kubelet/envvars/envvars.go. A Service named mgpu-exporter looks like one of ours."""


def known_alike(name: str) -> str:
    """A suggestion: the most similar setting, then the others of its section."""
    near = nearest(name, BY_NAME)
    part = name.split(".", maxsplit=1)[0]
    alike = [known for known in BY_NAME if known.split(".")[0] == part and known != near]
    names = [near] * bool(near) + (alike or [] if near else alike or list(BY_NAME))
    return f"known: {', '.join(names)}"


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """One warning for each variable that looks like a setting and is not. Skips service links.

    It is not an error, because variables may be set for a whole namespace.
    """
    known: Collection[str] = {setting.variable for setting in BY_NAME.values()}
    return [
        f"unknown variable ${name} is ignored{meant(name, known)}"
        for name in sorted(environ)
        if name.startswith(PREFIX) and not name.startswith(REMOTE)
        if name not in known and not _SERVICE_LINK.fullmatch(name)
    ]


FIRST = {
    *("web.listen-address", "web.open-page", "web.config.file", "config.file", "log.level"),
    *("node.name", "gpus.source", "nvml.library", "simulate", "pods.source", "kubeconfig"),
    *("metrics.profile", "metrics.enable", "metrics.disable", "compat", "collection.interval"),
}
"""What the help of serve begins with; the rest is shown with --help-all."""


def add_arguments(parser: ArgumentParser, shown: Collection[str] = ()) -> None:
    """Add the flags of all settings, by subject. A flag that is not given sets no attribute.

    ``shown``: the names of those that the help has.
    """
    for title, subject in SUBJECTS.items():
        group = parser.add_argument_group(title.rstrip("."))
        for setting in subject.values():
            switch: dict[str, Any] = {}
            if setting.default in ("true", "false"):
                # As in the exporters of Prometheus, a switch needs no value.
                switch = {"nargs": "?", "const": "true"}
            usual = f"default {setting.default}" if setting.default else "not set by default"
            repeat = "; repeatable" if setting.kind.many else ""
            text = f"{setting.about} [{setting.kind.allowed}; {usual}; ${setting.variable}{repeat}]"
            group.add_argument(
                f"--{setting.name}",
                dest=setting.name,
                # A default here would look like a flag that was given, and would go before the
                # file.
                default=SUPPRESS,
                action="append",
                metavar="VALUE",
                # argparse formats its help with %: a bare one in a text would end --help with an
                # error.
                help=text.replace("%", "%%") if setting.name in shown else SUPPRESS,
                **switch,
            )
