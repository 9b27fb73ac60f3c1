"""The closed lists of reasons: why something is not known, and why use has no owner."""

from enum import StrEnum


class Unmeasured(StrEnum):
    """The reasons why a quantity is absent. A closed list: the values of the label ``reason``.

    ``docs/troubleshooting.md`` explains each, and what to do.
    """

    # the driver refuses it for this device
    NOT_SUPPORTED = "not_supported"
    NO_PERMISSION = "no_permission"
    DRIVER_TOO_OLD = "driver_too_old"
    # the device cannot be read: the values of DeviceState
    GPU_LOST = "gpu_lost"
    DRIVER_STUCK = "driver_stuck"
    RELEASED = "released"
    READ_FAILED = "read_failed"
    # what is read says nothing of it
    MIG = "mig"
    PARTITIONED = "partitioned"
    MODULE = "module"
    MPS = "mps"
    NEVER_IDLE = "never_idle"
    ASLEEP = "asleep"
    REJECTED_SAMPLES = "rejected_samples"
    NOT_NAMED = "not_named"
    # its owner cannot be determined
    NO_HOSTPID = "no_hostpid"
    NO_CGROUPS = "no_cgroups"
    CONTAINER_PENDING = "container_pending"
    CONTAINER_UNKNOWN = "container_unknown"
    POD_UNKNOWN = "pod_unknown"
    PLACEMENT = "placement"
    # what its pod was allocated is not known
    ALLOCATION_PENDING = "allocation_pending"
    ALLOCATION_OVER_LIMIT = "allocation_over_limit"


class Unattributed(StrEnum):
    """The reasons why a part of a device has no owner. A closed list.

    ``docs/troubleshooting.md`` explains each, and what to do.
    """

    HOST_PROCESS = "host_process"
    UNKNOWN_CGROUP = "unknown_cgroup"
    EXITED = "exited"
    NO_PID = "no_pid"
    IDLE = "idle"
    UNOBSERVED = "unobserved"
    OVERLAP = "overlap"
    MIG = "mig"
    PARTITIONED = "partitioned"
    MODULE = "module"
    MPS = "mps"


class Unexplained(StrEnum):
    """The reasons why core time has no process (``NO_PID``). A closed list."""

    NO_PROCESS = "no_process"  # the device was busy and the driver names no process
    REJECTED_ROWS = "rejected_rows"  # some rows cannot be true: nothing is added to the others
    CAP = "cap"  # more than the processes that were named can have used
