"""The groups of batch systems by their cgroup paths: one table, which a site can extend.

Each pattern names the directory of one job: all that is below it is the job's own, whatever it is
called. A pattern of the system's begins at the top or in slices, and never in a user's own. One
that begins with ``~`` is for instances that a user runs, such as Flux: it begins in slices of
``user@N.service``, and its groups are called ``N/…``, so that no user makes a job of another's.

The kernel's own names bound what is compared (255 bytes a name); a pattern cannot take longer than
its name is long (``exporter.model.patterns``).

Sources: OpenPBS ``src/hooks/cgroups/pbs_cgroups.PY`` (``cgroup_prefix``, ``_cgroup_path``; its pull
request 1700 for the slices before), as ``pbspro`` in public job files of NCI and others, and for
cgroup v2 (``jobs``) the templates of ``pythoncm``; HTCondor's manual (``BASE_CGROUP``) and public
paths of cgroup v2; Flux ``src/common/libsubprocess/bulk-exec.c`` (``SDEXEC_NAME``) and
``src/modules/sdmon``; Nomad ``client/lib/cgroupslib/editor.go``; OAR's
``job_resource_manager_cgroups`` with the default ``CPUSET_PATH``, and OAR 3 as Alumet's plugin
``oar`` reads it; ROCm/spur ``crates/spurd/src/cgroup.rs``; Torque
``src/resmom/trq_cgroups.c``; LSF as the collectd plugin ``jobmetrics`` of the cluster Euler reads
it (the cluster, then the job's id between two dots); Hadoop's and Mesos' default hierarchies. Of
Grid Engine no public path was found.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from exporter.model import SYSTEMS, USERS, GroupPattern


class ShippedPattern(NamedTuple):
    """A pattern of a batch system, and the units that run it where it has groups."""

    system: str
    pattern: GroupPattern
    services: tuple[str, ...] = ()


def _of(
    system: str, kind: str, *paths: str, group: str = "{job}", services: tuple[str, ...] = ()
) -> tuple[ShippedPattern, ...]:
    return tuple(
        ShippedPattern(system, GroupPattern(kind, path, group), services) for path in paths
    )


SHIPPED: tuple[ShippedPattern, ...] = (
    *_of(
        "OpenPBS, PBS Professional",
        "pbs",
        "/pbs_jobs.service/jobid/{job}",
        "/pbs_jobs.service/jobs/{job}",
        "/pbspro.service/jobid/{job}",
        "/pbspro.service/jobs/{job}",
        "/pbspro.slice/pbspro-{job}.slice",
        "/pbspro/{job}",
        services=("pbs.service", "pbs_jobs.service", "pbspro.service"),
    ),
    *_of("IBM Spectrum LSF", "lsf", "/lsf/*/*.{job}.*"),
    *_of("Torque", "torque", "/torque/{job}", services=("pbs_mom.service",)),
    *_of(
        "HTCondor",
        "htcondor",
        "/htcondor/condor_*_slot{slot}",
        "/condor.service/condor_*_slot{slot}",
        group="slot{slot}",
        services=("condor.service",),
    ),
    *_of(
        "Flux",
        "flux",
        "~/imp-shell-*-{job}.service",
        "~/shell-*-{job}.service",
        services=("flux.service",),
    ),
    *_of(
        "OAR",
        "oar",
        "/oar/{job}",
        "/oar.slice/oar-u*.slice/oar-u*-j{job}.slice",
        services=("oar-node.service",),
    ),
    *_of(
        "Spur",
        "spur",
        "/spur/job_{job}",
        "/spurd.service/job_{job}",
        services=("spurd.service",),
    ),
    *_of(
        "Nomad",
        "nomad",
        "/nomad.slice/share.slice/{alloc}.{task}.scope",
        "/nomad.slice/reserve.slice/{alloc}.{task}.scope",
        "/nomad.slice/{alloc}.{task}.scope",
        "/nomad/share/{alloc}.{task}",
        "/nomad/reserve/{alloc}.{task}",
        "/nomad/{alloc}.{task}",
        group="{alloc}.{task}",
        services=("nomad.service",),
    ),
    *_of(
        "Hadoop YARN",
        "yarn",
        "/hadoop-yarn/{container}",
        group="{container}",
        services=("hadoop-yarn-nodemanager.service",),
    ),
    *_of(
        "BuildKit",
        "buildkit",
        "/docker/buildkit/{build}",
        "/buildkit/{build}",
        "/system.slice:docker:{build}",
        group="{build}",
        services=("buildkit.service",),
    ),
    *_of("Mesos", "mesos", "/mesos/{container}", group="{container}"),
)


class _Begun(NamedTuple):
    """A pattern of which the first names match, and what they kept."""

    pattern: GroupPattern
    names: int
    texts: tuple[tuple[str, str], ...]


class Named(NamedTuple):
    """A directory that a pattern names: the kind and name of its group."""

    kind: str
    group: str
    is_users: bool


Open = tuple[_Begun, ...]


class GroupPatterns:
    """The patterns of a site, which go first, and the shipped ones. Equal only to itself."""

    def __init__(self, own: Iterable[GroupPattern] = ()) -> None:
        self.own = tuple(own)
        shipped = [each.pattern for each in SHIPPED]
        patterns = [_Begun(pattern, 0, ()) for pattern in (*self.own, *shipped)]
        self._beginning = {
            SYSTEMS: tuple(each for each in patterns if not each.pattern.is_users),
            USERS: tuple(each for each in patterns if each.pattern.is_users),
        }
        self._by_service = {s: each.pattern.kind for each in SHIPPED for s in each.services}

    def further(self, opened: Open, beginning: str, name: str) -> tuple[Open, Named | None]:
        """What a directory continues of the patterns that the one above it began.

        ``beginning`` is SYSTEMS or USERS where patterns may begin in the one above, else "".
        """
        going: list[_Begun] = []
        for pattern, at, texts in (*opened, *self._beginning.get(beginning, ())):
            found = pattern.names[at].match(name)
            if found is None:
                continue
            kept = (*texts, *zip(pattern.names[at].texts, found, strict=True))
            if at + 1 == len(pattern.names):
                group = pattern.called(dict(kept))
                return (), Named(pattern.kind, group, pattern.is_users)
            going.append(_Begun(pattern, at + 1, kept))
        return tuple(going), None

    def kinds(self, units: Collection[str]) -> frozenset[str]:
        """The kinds that these units announce, and those that the site describes."""
        announced = {self._by_service[unit] for unit in units if unit in self._by_service}
        return frozenset(announced | {pattern.kind for pattern in self.own})


NO_SITE = GroupPatterns()
