"""Layouts: of Slurm, systemd, LXC, libvirt and nspawn, as the named sources have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.attribution.ownership import owner_of
from exporter.agent.sources.cgroups.layout import (
    LONGEST_NAME,
    best_identity,
    cgroup_paths,
    is_own_inside,
    parse_path,
    unknown_unit,
)
from exporter.model import (
    CgroupIdentity,
    Container,
    ContainerKey,
    GroupKey,
    Pod,
    PodTable,
    Unattributed,
    Unit,
)

ID = "cde6dfaf5007ed65aad2d6aed72af91b0f3d95813492f773286e29ae145d20f4"
TASK = "step_0/user/task_0"
HOME = "/user.slice/user-1000.slice/user@1000.service"

JOBS = {
    "/slurm/uid_1000/job_211/step_0": Unit("slurm", "211", "0", 1000),
    "/slurm/uid_1000/job_211/step_0/task_3": Unit("slurm", "211", "0", 1000),
    "/slurm/uid_1000/job_211/step_batch": Unit("slurm", "211", "batch", 1000),
    "/slurm/uid_1000/job_211": Unit("slurm", "211", uid=1000),
    "/slurm_gamba1/uid_0/job_7/step_extern": Unit("slurm", "7", "extern", 0),
    f"/system.slice/slurmstepd.scope/job_211/{TASK}": Unit("slurm", "211", "0"),
    f"/system.slice/gamba1_slurmstepd.scope/job_211/{TASK}": Unit("slurm", "211", "0"),
    "/system.slice/slurmstepd.scope/job_211/step_batch/user/task_0": Unit("slurm", "211", "batch"),
    "/system.slice/slurmstepd.scope/job_211/step_interactive": Unit("slurm", "211", "interactive"),
    "/system.slice/slurmstepd.scope/job_211/step_extern/user/task_special": Unit(
        "slurm", "211", "extern"
    ),
    "/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0": Unit("slurm", "s5K1KKYAYG5D00", "0"),
    f"/../../system.slice/slurmstepd.scope/job_211/{TASK}": Unit("slurm", "211", "0"),
}
UNITS = {
    "/system.slice/gpu-tool.service": Unit("systemd", "gpu-tool.service"),
    "/system.slice/system-getty.slice/getty@tty1.service": Unit("systemd", "getty@tty1.service"),
    "/system.slice/run-ra2ddf9594bbf4a1986439b594f89eb0f.scope": Unit(
        "systemd", "run-ra2ddf9594bbf4a1986439b594f89eb0f.scope"
    ),
    "/system.slice/docker.service": Unit("systemd", "docker.service"),
    "/system.slice/docker.service/inner.service": Unit("systemd", "docker.service"),
    "/system.slice/gamba1_slurmstepd.scope/slurmd": Unit("systemd", "gamba1_slurmstepd.scope"),
    "/init.scope": Unit("systemd", "init.scope"),
    "/azure.slice/walinuxagent.service": Unit("systemd", "walinuxagent.service"),
    "/user.slice/user-1000.slice/session-3.scope": Unit("user", "1000", uid=1000),
    "/../../user.slice/user-501.slice/session-3.scope": Unit("user", "501", uid=501),
    f"{HOME}/app.slice/train.service": Unit("user", "1000", uid=1000),
    "/user/1000.user/c2.session": Unit("user", "1000", uid=1000),
    "/lxc/mysql-primary-db": Unit("lxc", "mysql-primary-db"),
    "/lxc/101/ns/system.slice/x.service": Unit("lxc", "101"),
    "/system.slice/lxc/one-12/system.slice/x.service": Unit("lxc", "one-12"),
    "/system.slice/x.service/y.slice/lxc/one-12": Unit("systemd", "x.service"),
    "/lxc.payload.first/system.slice/systemd-logind.service": Unit("lxc", "first"),
    "/lxc.payload/first/init.scope": Unit("lxc", "first"),
    "/system.slice/lxc@c1.service/lxc.payload.c1/init.scope": Unit("lxc", "c1"),
    r"/machine.slice/machine-qemu\x2d1\x2dinstance\x2d00000002.scope/libvirt": Unit(
        "libvirt", "instance-00000002"
    ),
    "/qemu.slice/103.scope": Unit("qemu", "103"),
    "/machine/qemu-1-vm.libvirt-qemu/emulator": Unit("libvirt", "vm"),
    "/machine/vm.libvirt-qemu": Unit("libvirt", "vm"),
    r"/machine.slice/machine-lxc\x2d4711\x2dbox.scope": Unit("lxc", "box"),
    "/machine.slice/systemd-nspawn@debian.service/payload": Unit("nspawn", "debian"),
    "/machine.slice/machine-debian.scope/system.slice/x.service": Unit("nspawn", "debian"),
}
NOTHING = [
    "/",
    "/../..",
    "/docker/buildkit",
    "/slurm",
    "/slurm/system",
    "/slurm/uid_1000",
    "/slurm/job_5",
    "/lxc",
    "/lxc.monitor.first",
    "/somewhere/x.service",
    "/somewhere/slurm/uid_0/job_5",
    "/user.slice/user-1000x.slice",
]


@pytest.mark.parametrize("path", [*JOBS, *UNITS])
def test_a_path_names_its_unit(path: str) -> None:
    assert parse_path(path) == CgroupIdentity(unit=(JOBS | UNITS)[path])


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (["/default/trainer"], "default/trainer"),
        (["/default/trainer/made/by/a/tenant"], "default/trainer"),
        (["/../../default/trainer (deleted)"], "default/trainer"),
        (["/", "/a", "/a/b/c", "/x/y"], "a/b"),
        (["/only"], "only"),
        ([f"/{'n' * 300}/x"], None),
        (["/", "/../.."], ""),
        ([], ""),
    ],
)
def test_of_a_path_that_no_rule_knows_the_first_names_count(
    paths: list[str], name: str | None
) -> None:
    unit = unknown_unit(paths)
    if name is None:
        assert unit is not None
        assert len(unit.name) <= LONGEST_NAME
    else:
        assert unit == (Unit("cgroup", name) if name else None)


@pytest.mark.parametrize("path", NOTHING)
def test_a_path_that_only_resembles_one_names_none(path: str) -> None:
    assert owner_of(parse_path(path), PodTable()) is Unattributed.HOST_PROCESS


@pytest.mark.parametrize(
    "inside",
    [
        "slurm/uid_0/job_5/step_0",
        "slurmstepd.scope/job_5/step_0",
        "system.slice/slurmstepd.scope/job_5/step_0",
        "lxc.payload.other",
        r"machine.slice/machine-qemu\x2d1\x2dother.scope",
        "user.slice/user-0.slice/session-1.scope",
    ],
)
@pytest.mark.parametrize(
    "own",
    [
        HOME,
        "/lxc.payload.mine",
        "/lxc/mine",
        "/machine.slice/machine-mine.scope",
        "/slurm/uid_1/job_1",
    ],
)
def test_what_a_tenant_makes_inside_of_its_own_stays_its_own(own: str, inside: str) -> None:
    kind_and_name = owner_of(parse_path(own), PodTable())
    assert owner_of(parse_path(f"{own}/{inside}"), PodTable()) == kind_and_name


def test_a_container_in_a_job_is_the_jobs() -> None:
    identity = parse_path(f"/system.slice/slurmstepd.scope/job_211/step_0/user/libpod-{ID}.scope")
    assert owner_of(identity, PodTable()) == GroupKey("slurm", "211")
    assert parse_path(f"/slurm/uid_1/job_2/docker/{ID}").container_id is None


@pytest.mark.parametrize(
    ("path", "runtime", "uid"),
    [
        (f"/system.slice/docker-{ID}.scope", "docker", None),
        (f"/docker/{ID}", "docker", None),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman", None),
        (f"/libpod_parent/libpod-{ID}", "podman", None),
        (f"{HOME}/user.slice/libpod-{ID}.scope/container", "podman", 1000),
        (f"{HOME}/app.slice/docker-{ID}.scope", "docker", 1000),
        (f"{HOME}/app.slice/docker.service/docker/{ID}", "docker", 1000),
        (f"/lxc.payload.box/system.slice/docker-{ID}.scope", "docker", None),
    ],
)
def test_a_container_is_its_own_and_of_the_user_who_runs_it_without_root(
    path: str, runtime: str, uid: int | None
) -> None:
    identity = parse_path(path)
    unit = identity.unit
    within = f"{unit.name}/" if unit else ""
    assert owner_of(identity, PodTable()) == GroupKey(runtime, within + ID)
    assert (unit.uid if unit else None) == uid


@pytest.mark.parametrize("within", [HOME, "/lxc.payload.box", "/machine.slice/machine-m.scope"])
def test_a_directory_with_anothers_id_is_not_the_other(within: str) -> None:
    victims = Pod("uid-1", "a", "victim", containers=(Container("main", container_ids=(ID,)),))
    table = PodTable(pods={"uid-1": victims}, by_container_id={ID: ("uid-1", "main")})
    pod = "kubepods/pod11111111-2222-3333-4444-555555555555"
    assert not isinstance(owner_of(parse_path(f"{within}/{pod}/{ID}"), table), ContainerKey)
    for leaf in (f"docker-{ID}.scope", f"libpod-{ID}.scope"):
        forged = parse_path(f"{within}/system.slice/{leaf}")
        true = parse_path(f"/system.slice/{leaf}")
        assert owner_of(forged, PodTable()) != owner_of(true, PodTable())
        assert isinstance(owner_of(forged, table), GroupKey)


def test_a_step_is_a_group_of_its_own_where_that_is_asked_for() -> None:
    identity = parse_path("/slurm/uid_1000/job_211/step_batch")
    assert owner_of(identity, PodTable()) == GroupKey("slurm", "211")
    assert owner_of(identity, PodTable(), by_step=True) == GroupKey("slurm", "211.batch")
    job = parse_path("/slurm/uid_1000/job_211")
    assert owner_of(job, PodTable(), by_step=True) == GroupKey("slurm", "211")


def test_of_the_lines_of_a_process_the_jobs_tells_most() -> None:
    text = "9:name=systemd:/system.slice/slurmd.service\n5:cpuset:/slurm/uid_1/job_2/step_0\n"
    assert best_identity(cgroup_paths(text)).unit == Unit("slurm", "2", "0", 1)
    assert best_identity(cgroup_paths(text + f"0::/system.slice/docker-{ID}.scope")).unit == Unit(
        "slurm", "2", "0", 1
    )
    assert best_identity(
        cgroup_paths("5:cpuset:/\n9:name=systemd:/lxc/a\n0::/init.scope")
    ).unit == Unit("lxc", "a")


def test_a_name_is_text_of_bounded_length() -> None:
    name = parse_path("/lxc/" + "a\n\udcff" + "b" * 200).unit
    assert name is not None
    assert name.name.startswith("a??b")
    assert len(name.name) == LONGEST_NAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x" * 200 + "1.service", "x" * 200 + "2.service"),
        ("a\x1b.service", "a\x1c.service"),
        ("a\udc80.service", "a\udc81.service"),
    ],
)
def test_units_whose_names_are_cut_or_changed_are_not_one(one: str, other: str) -> None:
    first, second = (parse_path(f"/system.slice/{name}").unit for name in (one, other))

    assert first is not None
    assert second is not None
    assert first.name != second.name
    assert max(len(first.name), len(second.name)) <= LONGEST_NAME


def test_nobody_passes_for_a_unit_whose_name_is_cut() -> None:
    cut = parse_path("/lxc/" + "x" * 200).unit
    assert cut is not None

    forged = parse_path(f"/lxc/{cut.name}").unit

    assert forged != cut
    assert cut.name.startswith("x" * 100)


NAMES = st.sampled_from(
    [
        *("slurm", "uid_1", "job_2", "step_0", "slurmstepd.scope", "system.slice", "user.slice"),
        *("user-7.slice", "x.service", "lxc", "lxc.payload.a", "machine.slice", "machine-m.scope"),
        *(f"docker-{ID}.scope", "libvirt", "..", "kubepods"),
    ]
) | st.text(st.characters(blacklist_characters="/"), min_size=1, max_size=20)


@given(st.lists(NAMES, max_size=10), st.lists(NAMES, max_size=6))
def test_whatever_lies_deeper_a_tenants_own_is_never_anothers(
    path: list[str], deeper: list[str]
) -> None:
    above = parse_path("/" + "/".join(path))
    below = parse_path("/" + "/".join([*path, *deeper]))
    if above.unit and is_own_inside(above.unit) and above.unit.name:
        unit = below.unit
        was_own = unit is None or unit._replace(step="") == above.unit._replace(step="")
        assert was_own
        assert unit is not None or below.container_id or below.pod_uid
