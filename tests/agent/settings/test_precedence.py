"""Flag before variable before file before default, for every setting."""

from argparse import ArgumentParser
from pathlib import Path

import pytest

from exporter.agent.settings import TABLE, Settings, add_arguments, load

VALUES: dict[str, tuple[str, str, str]] = {  # three texts that differ, and none the default
    "web.listen-address": (":1", ":2", ":3"),
    "web.telemetry-path": ("/a", "/b", "/c"),
    "web.max-requests": ("1", "2", "3"),
    "web.config.file": ("a.yml", "b.yml", "c.yml"),
    "web.open-page": ("true", "false", "true"),
    "web.metrics-only": ("true", "false", "true"),
    "web.kubernetes-access": ("true", "false", "true"),
    "web.kubernetes-audiences": ("a", "b", "c"),
    "web.enable-lifecycle": ("true", "false", "true"),
    "log.level": ("debug", "warning", "error"),
    "log.format": ("json", "logfmt", "json"),
    "path.cgroup": ("/a", "/b", "/c"),
    "path.procfs": ("/a", "/b", "/c"),
    "path.sysfs": ("/a", "/b", "/c"),
    "path.logs": ("/a", "/b", "/c"),
    "path.passwd": ("/a", "/b", "/c"),
    "groups.sockets": ("none", "/a", "/b"),
    "groups.slurm": ("step", "job", "step"),
    "groups.patterns": tuple(  # type: ignore[dict-item] # three
        f"[{{kind: {kind}, path: '/{kind}/{{group}}'}}]" for kind in ("x1", "x2", "x3")
    ),
    "groups.slurm-account": ("true", "false", "true"),
    "gpus.source": ("nvml", "auto", "nvml"),
    "nvml.library": ("/a", "/b", "/c"),
    "nvml.released": ("true", "false", "true"),
    "drm.wake": ("true", "false", "true"),
    "simulate": ("demo", "single", "crowded"),
    "simulate.start": ("1", "2", "3"),
    "pods.source": ("api", "kubelet", "files"),
    "pods.labels": ("a", "b", "c"),
    "pods.annotations": ("a", "b", "c"),
    "pods.claims": ("off", "auto", "off"),
    "pods.list-spread": ("2s", "3s", "4s"),
    "kubelet.pod-resources-socket": ("none", "/a", "/b"),
    "kubeconfig": ("/a", "/b", "/c"),
    "kubelet.address": ("https://a:1", "https://b:1", "https://c:1"),
    "kubelet.ca-file": ("/a", "/b", "/c"),
    "kubelet.insecure-tls": ("true", "false", "true"),
    "node.name": ("a", "b", "c"),
    "allocations.schemes": tuple(  # type: ignore[dict-item] # three
        f"[{{name: {name}, core-resource: example.com/{name}}}]" for name in ("x1", "x2", "x3")
    ),
    "allocations.index-basis": ("hami=minor", "hami=pci", "tke-qgpu=pci"),
    "allocations.hami": ("memoryFactor=2", "memoryFactor=3", "memoryFactor=4"),
    "allocations.volcano-memory-factor": ("2", "3", "4"),
    "allocations.kai-namespaces": ("a", "b", "c"),
    "collection.mps-servers": ("a", "b.service", "c"),
    "collection.interval": ("2s", "3s", "4s"),
    "collection.samples-interval": ("2s", "3s", "4s"),
    "collection.window": ("20s", "30s", "40s"),
    "collection.processes-interval": ("2s", "3s", "4s"),
    "collection.sensors-interval": ("2s", "3s", "4s"),
    "energy.idle": ("equal", "allocation", "equal"),
    "ledger.retention": ("1m", "2m", "3m"),
    "metrics.profile": ("minimal", "full", "minimal"),
    "metrics.enable": ("pcie", "xid", "ecc"),
    "metrics.disable": ("pcie", "xid", "ecc"),
    "metrics.created": ("true", "false", "true"),
    "metrics.pod-uid": ("pod_uid", "uid", "pod_uid"),
    "metrics.max-series-per-family": ("1", "2", "3"),
    "compat": ("dcgm", "hami", "gpu-manager"),
}
SETTINGS = {s.name: (field, s) for field, s in TABLE.items() if s.name != "config.file"}


def read(argv: list[str], environ: dict[str, str]) -> Settings:
    parser = ArgumentParser(allow_abbrev=False)
    add_arguments(parser)
    return load(vars(parser.parse_args(argv)), environ)


def test_the_table_of_this_test_has_every_setting() -> None:
    assert VALUES.keys() ^ SETTINGS.keys() == set()


@pytest.mark.parametrize("name", SETTINGS)
def test_flag_before_variable_before_file_before_default(name: str, tmp_path: Path) -> None:
    field, setting = SETTINGS[name]
    flag, variable, in_file = VALUES[name]
    file = tmp_path / "settings.yaml"
    file.write_text(f"{name}: {in_file}\n")

    def got(*places: str) -> object:
        argv = [f"--config.file={file}"] if "file" in places else []
        argv += [f"--{name}={flag}"] if "flag" in places else []
        environ = {setting.variable: variable} if "variable" in places else {}
        return getattr(read(argv, environ), field)

    by_flag, by_variable, by_file, default = map(got, ("flag", "variable", "file", ""))

    assert by_file != default
    assert got("file", "variable") == by_variable != by_file
    assert got("file", "variable", "flag") == by_flag != by_variable
    assert got("variable", "flag") == by_flag
    assert got("file", "flag") == by_flag


def test_a_value_that_is_its_default_goes_before_another_one_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("log.level: debug\npods.labels: [app]\n")

    settings = read([f"--config.file={file}", "--log.level=info"], {"MGPU_PODS_LABELS": ""})

    assert settings.log_level == "info"
    assert settings.pods_labels == ()


def test_the_file_itself_is_named_by_a_flag_before_a_variable(tmp_path: Path) -> None:
    for level in ("debug", "error"):
        (tmp_path / level).write_text(f"log.level: {level}\n")

    by_variable = {"MGPU_CONFIG_FILE": str(tmp_path / "debug")}

    assert read([], by_variable).log_level == "debug"
    assert read([f"--config.file={tmp_path / 'error'}"], by_variable).log_level == "error"
