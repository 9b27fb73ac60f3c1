"""Reads scenario files into ``Scenario``. The keys are described in docs/scenarios.md."""

from importlib.resources import files
from io import TextIOWrapper

import yaml

from exporter.agent.simulation import ScenarioError, keys
from exporter.agent.simulation.description import EndedRows, Fault, SampleRule, Scenario
from exporter.agent.simulation.load_devices import read_devices
from exporter.agent.simulation.load_pods import below, read_pods, read_process
from exporter.inputs import yamldocument
from exporter.inputs.files import opened
from exporter.inputs.yamldocument import YamlError
from exporter.model import DeviceState

LARGEST_FILE = 1 << 20
FAULTS = {
    "lost": DeviceState.LOST,
    "stuck": DeviceState.STUCK,
    "failing": DeviceState.FAILED,
}


def shipped() -> tuple[str, ...]:
    """Names of the scenarios that come with the exporter."""
    folder = files("exporter.agent.simulation").joinpath("shipped")
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".yaml")))


def load(name_or_path: str) -> Scenario:
    """Read a shipped scenario by its name, or a file.

    Raises:
        ScenarioError: there is none, or it is not valid.

    """
    try:
        if name_or_path in shipped():
            folder = files("exporter.agent.simulation").joinpath("shipped")
            text = folder.joinpath(f"{name_or_path}.yaml").read_text(encoding="utf-8")
        else:
            with TextIOWrapper(opened(name_or_path), encoding="utf-8") as file:
                text = file.read(LARGEST_FILE + 1)
        if len(text) > LARGEST_FILE:
            raise ScenarioError(f"{name_or_path}: longer than {LARGEST_FILE} characters")
        return _described(yamldocument.parse(text) or yamldocument.node_of(None), name_or_path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        names = ", ".join(shipped())
        raise ScenarioError(f"{name_or_path}: {why}; give a file or one of {names}") from error
    except YamlError as error:
        raise ScenarioError(f"{name_or_path}: {error}") from error


def describe(data: object, origin: str) -> Scenario:
    """A scenario from a file's mapping; ``origin`` names it in errors.

    Raises:
        ScenarioError: a key is unknown or missing, or a value is not allowed.

    """
    return _described(yamldocument.node_of(data), origin)


def _described(root: yaml.Node, origin: str) -> Scenario:
    top = keys.read(root, origin)
    node = top.section(keys.NODE)
    devices = read_devices(top, (top.get(keys.SEED), node.get(keys.NODE_NAME)))
    return Scenario(
        node_name=node.get(keys.NODE_NAME),
        node_labels=node.get(keys.NODE_LABELS),
        node_annotations=node.get(keys.NODE_ANNOTATIONS),
        allocatable=node.get(keys.ALLOCATABLE),
        seed=top.get(keys.SEED),
        devices=devices,
        pods=read_pods(top, devices),
        processes=tuple(read_process(s, devices) for s in top.sections(keys.HOST_PROCESSES)),
        faults=tuple(
            Fault(
                device=below(s, keys.FAULTY, s.get(keys.FAULTY), len(devices)),
                state=FAULTS[s.get(keys.STATE)],
                from_ns=s.get(keys.FROM),
                to_ns=s.get(keys.TO),
            )
            for s in top.sections(keys.FAULTS)
        ),
        sample_rule=SampleRule(top.get(keys.SAMPLE_RULE)),
        sample_period_ns=top.get(keys.SAMPLE_PERIOD),
        ended_rows=EndedRows(top.get(keys.ENDED_ROWS)),
        status_delay_ns=top.get(keys.STATUS_DELAY),
    )
