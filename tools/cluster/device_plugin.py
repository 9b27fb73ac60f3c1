"""A device plugin that hands out made-up devices: kubelet's deviceplugin/v1beta1 over gRPC.

``python -m tools.cluster.device_plugin <its api.proto> <resource>=<id>,<id>...``. It
registers again when the kubelet has been started anew, which removes the sockets of all plugins.
At SIGHUP it reads which devices are unhealthy: their ids are the lines of ``unhealthy`` beside the
api.proto.
"""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc

FOLDER = Path("/var/lib/kubelet/device-plugins")
UNHEALTHY = "unhealthy"
_VERSION = "v1beta1"


class Plugin:
    """Serves one resource; every grant is given."""

    def __init__(self, api: Any, services: Any, resource: str, devices: list[str]) -> None:
        self._api, self._services = api, services
        self._resource, self._devices = resource, devices
        self._socket = FOLDER / f"{resource.replace('/', '-')}.sock"
        self._server: grpc.Server | None = None
        self._over = threading.Event()
        self._unhealthy: set[str] = set()
        self._changed = threading.Condition()

    def mark(self, unhealthy: set[str]) -> None:
        """Let these devices be unhealthy, and all others healthy."""
        with self._changed:
            self._unhealthy = unhealthy
            self._changed.notify_all()

    def keep_registered(self) -> None:
        """Serve and register whenever the socket is not there. Does not return."""
        while True:
            if (FOLDER / "kubelet.sock").exists() and not self._socket.exists():
                self._serve()
            time.sleep(0.5)

    def _serve(self) -> None:
        if self._server is not None:
            self._over.set()
            with self._changed:
                self._changed.notify_all()
            self._server.stop(0)
        self._over = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._services.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self._socket}")
        self._server.start()
        request = self._api.RegisterRequest(
            version=_VERSION, endpoint=self._socket.name, resource_name=self._resource
        )
        with grpc.insecure_channel(f"unix:{FOLDER / 'kubelet.sock'}") as channel:
            try:
                self._services.RegistrationStub(channel).Register(request, timeout=5)
                print(f"registered {self._resource}: {len(self._devices)} devices", flush=True)
            except grpc.RpcError as error:
                print(f"not registered, trying again: {error}", flush=True)
                self._socket.unlink(missing_ok=True)

    def GetDevicePluginOptions(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - its name
        """No further calls are wanted."""
        return self._api.DevicePluginOptions()

    def ListAndWatch(self, _request: Any, _context: Any) -> Iterator[Any]:  # noqa: N802
        """All devices, and again when one has another health."""
        over = self._over
        while not over.is_set():
            said = self._unhealthy
            devices = [
                self._api.Device(ID=each, health="Unhealthy" if each in said else "Healthy")
                for each in self._devices
            ]
            yield self._api.ListAndWatchResponse(devices=devices)
            with self._changed:
                self._changed.wait_for(partial(self._is_other, said, over))

    def _is_other(self, said: set[str], over: threading.Event) -> bool:
        return over.is_set() or self._unhealthy != said

    def Allocate(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Nothing needs to be done in a container to use a device that is not there."""
        answers = [self._api.ContainerAllocateResponse() for _ in request.container_requests]
        return self._api.AllocateResponse(container_responses=answers)

    def GetPreferredAllocation(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """No device is better than another."""
        return self._api.PreferredAllocationResponse()

    def PreStartContainer(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Nothing to do."""
        return self._api.PreStartContainerResponse()


def main(proto: str, *offers: str) -> None:
    """Serve resources: ``name=count`` or ``name=id,id``."""
    folder, _, name = proto.rpartition("/")
    sys.path.insert(0, folder)
    api, services = grpc.protos_and_services(name)
    threads, plugins = [], []
    for offer in offers:
        resource, _, listed = offer.partition("=")
        names = listed.split(",")
        if listed.isdigit():
            names = [str(number) for number in range(int(listed))]
        plugin = Plugin(api, services, resource, names)
        threads.append(threading.Thread(target=plugin.keep_registered, daemon=True))
        threads[-1].start()
        plugins.append(plugin)

    def look(*_: object) -> None:
        unhealthy = set((Path(folder) / UNHEALTHY).read_text().split())
        for plugin in plugins:
            threading.Thread(target=plugin.mark, args=(unhealthy,)).start()

    signal.signal(signal.SIGHUP, look)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
