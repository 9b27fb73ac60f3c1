"""Reports of batch systems: whose a process is by the paths of its cgroups."""

import pytest

from exporter.agent.attribution.ownership import owner_of
from exporter.agent.sources.cgroups.layout import best_identity, cgroup_paths
from exporter.model import GroupKey, Owner, PodTable
from tests.field.report import report

SGE = "/sge.slice/sge-shepherd.slice/sge-shepherd"
STEPD = "/system.slice/slurmstepd.scope"


def owner(*lines: str) -> Owner:
    """Whose a process is: each line one of its ``/proc/PID/cgroup``, or the path of v2 alone."""
    text = "".join(f"{line if ':' in line else f'0::{line}'}\n" for line in lines)
    return owner_of(best_identity(cgroup_paths(text)), PodTable())


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        pytest.param(
            [f"{STEPD}/s5K1KKYAYG5D00/step_0/user/task_0"],
            GroupKey("slurm", "s5K1KKYAYG5D00"),
            marks=report(
                source="guilbaults/slurm-job-exporter#66",
                seen="With Slurm 26.05 no job has metrics: its directory is an SLUID, not job_N.",
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["8:memory:/slurm_gpu-07/uid_1001/job_55/step_batch/task_0", "0::/system.slice"],
            GroupKey("slurm", "55"),
            marks=report(
                source="PrincetonUniversity/jobstats#61",
                seen=(
                    "Slurm built for several slurmd has the node in its directory, and every job "
                    'came out as "".'
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/system.slice/gpu-07.example.org_slurmstepd.scope/job_55/step_0/user/task_1"],
            GroupKey("slurm", "55"),
            marks=report(
                source="plazonic/cgroup_exporter#8",
                seen=(
                    "On Debian the scope is called NODE_slurmstepd.scope, and the exporter only "
                    "finds the other."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            [
                "12:memory:/system.slice/slurmd.service",
                "9:cpu,cpuacct:/slurm_ensta-l40s01.r2.enst.fr/uid_1009/job_7142/step_extern",
                "0::/system.slice/slurmd.service",
            ],
            GroupKey("slurm", "7142"),
            marks=report(
                source="ceems-dev/ceems#284",
                seen=(
                    "With both versions of cgroups the job is in one controller only, which nobody "
                    "looked at."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            [
                "10:perf_event:/",
                "8:memory:/system.slice/slurmd.service",
                "6:blkio:/system.slice/slurmd.service",
                "0::/system.slice/slurmd.service",
            ],
            GroupKey("systemd", "slurmd.service"),
            marks=report(
                source="galaxyproject/galaxy#4862",
                seen=(
                    "Without task/cgroup the processes of all Slurm jobs are in slurmd's own "
                    "service."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            [f"{STEPD}/job_88/step_extern/user/task_special"],
            GroupKey("slurm", "88"),
            marks=report(
                source="jean-zay-users/jean-zay-doc#45",
                seen=(
                    "Whoever connects to a node by ssh sees the GPUs of one of his jobs: he was "
                    "adopted by it."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/user.slice/user-1004.slice/session-12.scope"],
            GroupKey("user", "1004"),
            marks=report(
                source="BeyondTrust/pbis-open#200",
                seen=(
                    "With another login module ssh is not adopted: a session beside the jobs uses "
                    "their GPUs."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/user.slice/user-1000.slice/user@1000.service/user.slice/apptainer-732229.scope"],
            GroupKey("user", "1000"),
            marks=report(
                source="apptainer/apptainer#2367",
                seen=(
                    "With limits of its own Apptainer moves a process into a scope of its user, "
                    "out of any job."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/user.slice/user-1003.slice/user@1003.service/init.scope"],
            GroupKey("user", "1003"),
            marks=report(
                source="flux-framework/flux-core#7559",
                seen=(
                    "When a user logs in, systemd moves the processes of his Flux jobs into his "
                    "own slice."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/user.slice/user-765.slice/user@765.service/imp-shell-450-fPY66riwfnP.service"],
            GroupKey("flux", "765/fPY66riwfnP"),
            marks=report(
                source="flux-framework/flux-core#6501",
                seen="A job is over for Flux, and four of its processes stay in its unit.",
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/pbspro.slice/pbspro-1234.pbs01.slice"],
            GroupKey("pbs", "1234.pbs01"),
            marks=report(
                source="openpbs/openpbs#1700",
                seen=(
                    "Until this change the hook made a slice a job, and systemd took their GPUs "
                    "away."
                ),
                first="wrong",
                group="batch",
                kind="a layout of another version is not known",
            ),
        ),
        pytest.param(
            ["5:cpuset:/pbspro/1234.pbs01", "0::/system.slice/pbs.service"],
            GroupKey("pbs", "1234.pbs01"),
            marks=report(
                source="openpbs/openpbs#115",
                seen="The first hook made directories without systemd, one a job below its prefix.",
                first="wrong",
                group="batch",
                kind="a layout of another version is not known",
            ),
        ),
        pytest.param(
            ["/pbs_jobs.service/jobs/1009249[1].testhost-1"],
            GroupKey("pbs", "1009249[1].testhost-1"),
            marks=report(
                source="ceems-dev/ceems#530",
                seen=(
                    "Support for OpenPBS was missing; its jobs are below jobid, and with cgroup v2 "
                    "below jobs."
                ),
                first="wrong",
                group="batch",
                kind="a layout of another version is not known",
            ),
        ),
        pytest.param(
            ["/oar.slice/oar-u1000.slice/oar-u1000-j45670.slice/oar-u1000-j45670-s2.scope"],
            GroupKey("oar", "45670"),
            marks=report(
                source="oar-team/oar#207",
                seen="OAR 3 has slices of systemd: one of each user, in it one of each job.",
                first="wrong",
                group="batch",
                kind="a layout of another version is not known",
            ),
        ),
        pytest.param(
            ["/lsf/cluster1/job.19[4].12345.123443"],
            GroupKey("lsf", "19[4]"),
            marks=report(
                source="ceems-dev/ceems#491",
                seen="The members of an LSF job array were not told apart.",
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/spur/job_7"],
            GroupKey("spur", "7"),
            marks=report(
                source="ROCm/spur#782",
                seen=(
                    "A session by ssh is in no job of AMD's own scheduler, whose jobs have cgroups."
                ),
                first="wrong",
                group="batch",
                kind="a system is not known",
            ),
        ),
        pytest.param(
            [f"{SGE}-396548.slice/sge-shepherd-396548-0.slice/sge-shepherd-396548-0.scope"],
            GroupKey("systemd", "sge-shepherd-396548-0.scope"),
            marks=report(
                source="prod-feng/SGE-Shepherd-CGroup",
                seen=(
                    "A site's script gives each Grid Engine job a scope, out of which ssh takes "
                    "its children."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/custom.slice/app.scope"],
            GroupKey("systemd", "app.scope"),
            marks=report(
                source="hashicorp/nomad#20481",
                seen=(
                    "A task of raw_exec may be put into any cgroup, and its allocation is in no "
                    "path."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/nomad.slice/share.slice/0b8f4f6c-5d3e-4f1a-9d86-0c5a4f0f2a11.train.scope/docker"],
            GroupKey("nomad", "0b8f4f6c-5d3e-4f1a-9d86-0c5a4f0f2a11.train"),
            marks=report(
                source="shoenig/nomad-pledge-driver#76",
                seen=(
                    "The paths of tasks are others since Nomad 1.7, and drivers looked in the old "
                    "place."
                ),
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/system.slice/htcondor/condor_var_lib_condor_execute_slot1_23@node7/pilot/payload"],
            GroupKey("htcondor", "slot1_23@node7"),
            marks=report(
                source="DIRACGrid/DIRAC#7853",
                seen="A pilot makes cgroups of its own below its slot's, one for each payload.",
                first="right",
                group="batch",
            ),
        ),
        pytest.param(
            ["/system.slice/jupyter-alice-singleuser.service"],
            GroupKey("systemd", "jupyter-alice-singleuser.service"),
            marks=report(
                source="jupyterhub/jupyterhub#2927",
                seen=(
                    "A notebook server runs in a unit of its own, which may be kept from the GPUs."
                ),
                first="right",
                group="batch",
            ),
        ),
    ],
)
def test_whose_it_is(lines: list[str], right: Owner) -> None:
    assert owner(*lines) == right
