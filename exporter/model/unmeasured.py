"""Why something is not known."""

from enum import StrEnum


class Unmeasured(StrEnum):
    """Why a quantity is absent. A closed list: the only values of the label ``reason``.

    ``docs/troubleshooting.md`` says of each what it means and what to do.
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
    MPS = "mps"
    NEVER_IDLE = "never_idle"
    ASLEEP = "asleep"
    REJECTED_SAMPLES = "rejected_samples"
    NOT_NAMED = "not_named"
    # whose it is cannot be told
    NO_HOSTPID = "no_hostpid"
    NO_CGROUPS = "no_cgroups"
    CONTAINER_PENDING = "container_pending"
    POD_UNKNOWN = "pod_unknown"
    PLACEMENT = "placement"
