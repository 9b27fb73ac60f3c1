"""Trees laid out like /sys and /proc of a machine with DRM devices.

COMPOSED, not recorded: from the kernel's Documentation/gpu (drm-usage-stats, i915, xe, amdgpu,
panfrost), Documentation/ABI/testing (sysfs-driver-intel-{i915,xe}-hwmon) and the drivers' sources.
No such device has been seen by these tests.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from exporter.agent.sources.gpus.drm.drmsource import DrmSource
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import DeviceReading, Reading
from tests.agent.simulation.clock import ManualClock

XE = """\
drm-driver:\txe
drm-client-id:\t{client}
drm-pdev:\t{pdev}
drm-total-system:\t0
drm-resident-system:\t0
drm-purgeable-system:\t0
drm-total-gtt:\t192 KiB
drm-resident-gtt:\t192 KiB
drm-total-vram0:\t23992 KiB
drm-shared-vram0:\t16 MiB
drm-active-vram0:\t0
drm-resident-vram0:\t{vram_kib} KiB
drm-cycles-rcs:\t{rcs}
drm-total-cycles-rcs:\t{total}
drm-cycles-bcs:\t0
drm-total-cycles-bcs:\t{total}
drm-cycles-vcs:\t{vcs}
drm-total-cycles-vcs:\t{total}
drm-engine-capacity-vcs:\t2
drm-cycles-ccs:\t{ccs}
drm-total-cycles-ccs:\t{total}
drm-engine-capacity-ccs:\t4
"""

I915 = """\
drm-driver:\ti915
drm-client-id:\t{client}
drm-pdev:\t{pdev}
drm-total-system0:\t4096 KiB
drm-resident-system0:\t4096 KiB
drm-total-local0:\t{local_mib} MiB
drm-resident-local0:\t{local_mib} MiB
drm-engine-render:\t{render} ns
drm-engine-copy:\t{copy} ns
drm-engine-video:\t{video} ns
drm-engine-capacity-video:\t2
drm-engine-video-enhance:\t0 ns
drm-engine-compute:\t{compute} ns
drm-engine-capacity-compute:\t4
"""

HEAD = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t685\n"


class Machine:
    """Two roots, ``sys`` and ``proc``, and a clock that only the test moves."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.proc = folder / "sys", folder / "proc"
        (self.proc / "sys/kernel").mkdir(parents=True)
        (self.proc / "sys/kernel/osrelease").write_text("6.12.0\n")
        (self.sys / "class/drm").mkdir(parents=True)
        self.clock = ManualClock()

    def card(
        self,
        number: int,
        driver: str,
        pci: str = "",
        ids: tuple[int, int] = (0x8086, 0x56A0),
        files: Mapping[str, str] | None = None,
        *,
        render: bool = True,
    ) -> Path:
        """Add a card with its nodes; ``files`` are below the device's directory. That directory."""
        device = self.sys / (
            f"devices/pci0000:00/{pci}" if pci else f"devices/platform/{number}.gpu"
        )
        nodes = [f"card{number}", *([f"renderD{128 + number}"] if render else [])]
        for node in nodes:
            (device / "drm" / node).mkdir(parents=True)
            (device / "drm" / node / "device").symlink_to(f"../../../{device.name}")
            (self.sys / "class/drm" / node).symlink_to(device / "drm" / node)
        (self.sys / "class/drm" / f"{nodes[0]}-DP-1").mkdir()
        drivers = self.sys / "bus/drivers" / driver
        drivers.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(drivers)
        if pci:
            slot = f"DRIVER={driver}\nPCI_CLASS=30000\nPCI_SLOT_NAME={pci}\n"
            self.write(device, {"uevent": slot, "vendor": f"{ids[0]:#06x}", "device": hex(ids[1])})
        self.write(device, files or {})
        return device

    @staticmethod
    def write(folder: Path, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    def process(self, pid: int, start: int = 1000, *, descriptors: int = 3) -> None:
        """Add a process with some descriptors that have nothing to do with DRM."""
        home = self.proc / str(pid)
        (home / "fd").mkdir(parents=True)
        (home / "fdinfo").mkdir()
        fields = f"S 1 {pid} {pid} 0 -1 4194304 " + "0 " * 12 + f"{start} 0 0\n"
        (home / "stat").write_text(f"{pid} (a) b) {fields}")
        for number in range(descriptors):
            (home / "fd" / str(number)).symlink_to(f"socket:[{number}]")

    def open(self, pid: int, descriptor: int, text: str, node: str = "renderD128") -> None:
        """Give a process a descriptor of a DRM node, or change what its fdinfo says."""
        link = self.proc / str(pid) / "fd" / str(descriptor)
        if not link.is_symlink():
            link.symlink_to(f"/dev/dri/{node}")
        (self.proc / str(pid) / "fdinfo" / str(descriptor)).write_text(HEAD + text)

    def close(self, pid: int, descriptor: int) -> None:
        (self.proc / str(pid) / "fd" / str(descriptor)).unlink()
        (self.proc / str(pid) / "fdinfo" / str(descriptor)).unlink()

    def end(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def source(self, **more: object) -> DrmSource:
        """A source over this machine that looks through the processes in each read."""
        source = DrmSource(str(self.sys), str(self.proc), clock=self.clock, **more)  # type: ignore[arg-type] # its options
        source.follow(Demand(deadline_s=30, processes_every_ns=0, sensors_every_ns=0))
        return source


def only(reading: Reading) -> DeviceReading:
    """The one device of a reading."""
    [device] = reading.devices
    return device


def xe(
    client: int, total: int, *, rcs: int = 0, ccs: int = 0, vcs: int = 0, vram_kib: int = 1024
) -> str:
    """What xe says of a client of the card at 0000:03:00.0."""
    figures = {"rcs": rcs, "ccs": ccs, "vcs": vcs, "vram_kib": vram_kib}
    return XE.format(client=client, pdev="0000:03:00.0", total=total, **figures)


def i915(
    client: int,
    *,
    render: int = 0,
    compute: int = 0,
    video: int = 0,
    copy: int = 0,
    local_mib: int = 16,
    pdev: str = "0000:03:00.0",
) -> str:
    """What i915 says of a client; nanoseconds."""
    figures = {"render": render, "compute": compute, "video": video, "copy": copy}
    return I915.format(client=client, pdev=pdev, local_mib=local_mib, **figures)
