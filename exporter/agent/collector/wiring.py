"""Maps settings to objects: sources, rules and collector.

Opens nothing that may hang, or fail without a GPU.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from exporter.agent.allocations import rules
from exporter.agent.collector import Collector, IdlePolicy, Sources
from exporter.agent.collector.cyclerules import cycle_rules, keep_of, rules_of
from exporter.agent.ledger import Ledger
from exporter.agent.settings import Complaint, Settings, examine, load
from exporter.agent.simulation import ScenarioError
from exporter.agent.sources.cgroups.batchpatterns import GroupPatterns
from exporter.agent.sources.cgroups.dmem import CgroupFiles
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.agent.sources.gpus.gpufactory import open_gpus
from exporter.agent.sources.gpus.gpusource import demand_of
from exporter.agent.sources.groups.groupowners import open_groups
from exporter.agent.sources.groups.groupsource import StaticGroupSource
from exporter.agent.sources.node.nodepolicies import CardPolicies
from exporter.agent.sources.node.nodesource import NodeSource, StaticNodeSource
from exporter.agent.sources.node.podresources import open_pod_resources
from exporter.agent.sources.pods.apiserverpods import ApiPods
from exporter.agent.sources.pods.chain import ChainedPods
from exporter.agent.sources.pods.claims import Claims
from exporter.agent.sources.pods.podfactory import PodAccess, node_name, open_pod_source
from exporter.agent.sources.pods.podreader import ReaderTimings
from exporter.agent.sources.pods.podsource import NoPods
from exporter.agent.sources.pods.reviews import ApiReviewer
from exporter.agent.sources.polled import Polled, PollTimings
from exporter.inputs.problems import Problem
from exporter.model import Clock

NS = 1e9  # in a second
ONCE_A_MINUTE = PollTimings(period_s=60)
WITHOUT_PODS = "not in this scenario"
OLDEST_SCENARIO_NS = 3600 * 10**9  # its energy counter is computed from its beginning on


def read_settings(flags: Mapping[str, list[str]]) -> Settings:
    """The settings in force, checked by all rooms.

    Raises:
        SettingsError: they cannot be used.

    """
    return load(flags, check=_complaints)


def examine_settings(
    flags: Mapping[str, list[str]], environ: Mapping[str, str]
) -> tuple[Settings, list[Problem]]:
    """The settings as ``read_settings`` returns them, with all problems."""
    return examine(flags, environ, _complaints)


def _complaints(settings: Settings) -> Iterator[Complaint]:
    if settings.web_kubernetes_access and settings.web_open_page:
        yield ("web.open-page", "contradicts --web.kubernetes-access; give one of the two")
    if settings.web_metrics_only and settings.web_open_page:
        yield ("web.open-page", "contradicts --web.metrics-only; give one of the two")
    if settings.web_kubernetes_audiences and not settings.web_kubernetes_access:
        yield ("web.kubernetes-audiences", "has no effect without --web.kubernetes-access")
    try:
        rules_of(settings)
    except rules.RulesError as error:
        yield from ((f"allocations.{name}", text) for name, text in error.complaints)


def open_sources(settings: Settings, clock: Clock = time, *, spread: bool = False) -> Sources:
    """The sources that the settings name; none is started.

    With ``spread`` a list of pods waits for its part of ``--pods.list-spread``.

    Raises:
        ScenarioError: the scenario of ``--simulate`` cannot be used.

    """
    if settings.simulate:
        return _simulated(settings, clock)
    return _real(settings, ReaderTimings(list_spread_s=settings.pods_list_spread_ns / NS * spread))


def open_for_agent(settings: Settings) -> Sources:
    """Opens the sources for the agent. Nobody waits for its first pod list, so it is spread.

    Raises:
        ScenarioError: the scenario of ``--simulate`` cannot be used.

    """
    return open_sources(settings, spread=True)


def make_collector(settings: Settings, sources: Sources, clock: Clock = time) -> Collector:
    """The collector over these sources, with empty accounts."""
    ledger = Ledger(settings.ledger_retention_ns, settings.collection_window_ns)
    idle = IdlePolicy(settings.energy_idle)
    return Collector(sources, ledger, clock, cycle_rules(settings), idle)


def cgroup_root(settings: Settings) -> str:
    """The path of the cgroup file system."""
    return settings.path_cgroup or f"{settings.path_sysfs}/fs/cgroup"


def _simulated(settings: Settings, clock: Clock) -> Sources:
    # Imported here: what a node in memory takes is not for those that run on a real one.
    from exporter.agent.simulation.load_scenario import load as load_scenario  # noqa: PLC0415
    from exporter.agent.simulation.node import Node  # noqa: PLC0415
    from exporter.agent.sources.cgroups.processsource import SimulatedProcesses  # noqa: PLC0415
    from exporter.agent.sources.gpus.simulated import SimulatedGpus  # noqa: PLC0415
    from exporter.agent.sources.pods.podsource import SimulatedPods  # noqa: PLC0415

    start_unix_ns = settings.simulate_start * 10**9 or None
    if start_unix_ns is not None and clock.time_ns() - start_unix_ns > OLDEST_SCENARIO_NS:
        raise ScenarioError("--simulate.start lies more than an hour back; give a later time")
    scenario = load_scenario(settings.simulate)
    node = Node(scenario, clock, start_unix_ns)
    return Sources(
        gpus=(SimulatedGpus(node, clock),),
        processes=SimulatedProcesses(
            node.cgroup_paths,
            node.process_infos,
            node.places(),
            GroupPatterns(settings.groups_patterns),
        ),
        pods=SimulatedPods(node.pod_table, clock=clock) if scenario.pods else NoPods(WITHOUT_PODS),
        nodes=(StaticNodeSource("node_simulated", node.facts, clock),),
        groups=(StaticGroupSource("groups_simulated", node.group_facts, clock),),
    )


def places_of(settings: Settings) -> PodAccess:
    """Where to look for pods, and with which identity."""
    return PodAccess(
        kubeconfig=settings.kubeconfig or None,
        kubelet=settings.kubelet_address,
        kubelet_ca=settings.kubelet_ca_file,
        kubelet_insecure=settings.kubelet_insecure_tls,
        logs=Path(settings.path_logs),
    )


def open_reviewer(settings: Settings) -> ApiReviewer | None:
    """What asks the API server about clients; None without credentials for it."""
    places = places_of(settings)
    if places.credentials() is None:
        return None
    return ApiReviewer(places.to_api(), settings.web_kubernetes_audiences)


def _real(settings: Settings, timings: ReaderTimings) -> Sources:
    places = places_of(settings)
    node = node_name(settings.node_name)
    pods = open_pod_source(settings.pods_source, node, places, keep_of(settings), timings)
    gpus, patterns = open_gpus(settings), GroupPatterns(settings.groups_patterns)
    for source in gpus:
        source.cgroups = CgroupFiles(cgroup_root(settings), settings.path_procfs, patterns=patterns)
        source.follow(replace(demand_of(settings), samples_every_ns=0))  # until a cycle says more
    # The API server comes after the kubelet, because it knows more of claims.
    nodes: list[NodeSource] = [Polled(CardPolicies(settings.path_procfs), ONCE_A_MINUTE)]
    nodes += open_pod_resources(settings.kubelet_pod_resources_socket)
    if isinstance(pods, ApiPods | ChainedPods) and pods.name == ApiPods.name:
        nodes.append(StaticNodeSource("node_api", pods.node))
        if settings.pods_claims == "auto":
            nodes.append(Polled(Claims(places.to_api(), node), ONCE_A_MINUTE))
    return Sources(
        gpus=gpus,
        processes=CgroupProcesses(
            cgroup_root(settings),
            settings.path_procfs,
            patterns=patterns,
        ),
        pods=pods,
        nodes=tuple(nodes),
        others=pods.others if isinstance(pods, ChainedPods) else tuple,
        groups=open_groups(
            settings.groups_sockets,
            settings.path_passwd,
            settings.path_procfs,
            accounts=settings.groups_slurm_account,
        ),
    )
