"""Devices of a node that are tainted: by their drivers, or by rules of an administrator.

Source: ``resource.k8s.io`` (KEP-5055): a ResourceSlice's device has ``taints``, a DeviceTaintRule
one taint for the devices that its ``deviceSelector`` selects by driver, pool and name. Not every
version of the group has such rules, and only a cluster that serves them is asked.
"""

from collections.abc import Iterator
from http import HTTPStatus
from itertools import islice

from exporter.agent.doctor import privileges
from exporter.agent.doctor.evidence import CheckResult, note, problem
from exporter.agent.sources.pods.claims import (
    GROUP,
    TIMEOUT_S,
    VERSIONS,
    Place,
    offered,
    read_slices,
    taint_of,
)
from exporter.agent.sources.pods.decode import Json, mapping, mappings, text
from exporter.agent.sources.pods.wire import MAX_OBJECT, JsonError, decode, list_parts
from exporter.apiserver.client import KubeClient
from exporter.apiserver.serveranswers import ApiError
from exporter.shown.words import some_of

RULES = "devicetaintrules"
MAX_RULES = 1024
_SELECTED_BY = ("driver", "pool", "device")


def taints(client: KubeClient, version: str, node: str) -> Iterator[CheckResult]:
    """The devices of a node that are tainted, of any kind."""
    try:
        devices = offered(one for one in read_slices(client, version, node) if one)
    except (ApiError, JsonError) as error:
        yield problem("resource slices", f"cannot be read ({error})", "see the API server's log")
        return
    found = {place: list(device.taints) for place, device in devices.items()}
    try:
        # A cluster may have any number of rules, and a server may pass over the limit that it is
        # asked with.
        rules = list(islice(_rules(client), MAX_RULES))
    except (ApiError, JsonError) as error:
        rules = []
        refused = isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN
        yield note(
            "device taint rules",
            f"cannot be listed ({error})",
            "grant it; without it only the taints of drivers are named here",
            privileges.TAINT_RULES if refused else "",
        )
    for rule in rules:
        spec = mapping(rule, "spec")
        for place in filter(lambda place: _selects(spec, place), found):
            found[place].append(taint_of(mapping(spec, "taint")))
    tainted = [
        f"{name} of {driver} ({', '.join(own)})" for (driver, _, name), own in found.items() if own
    ]
    if tainted:
        remedy = (
            "its driver or a DeviceTaintRule says why; NoSchedule keeps new claims off it, "
            "NoExecute ends its pods"
        )
        yield note("tainted devices", some_of(tainted), remedy)


def _rules(client: KubeClient) -> Iterator[Json]:
    """The rules of the cluster, by the first version that has such; none if no version has.

    Raises:
        ApiError: the API server did not answer.
        JsonError: its answer cannot be read.

    """
    # Kubernetes 1.33 has these rules in v1alpha3 only, while claims are of a later version.
    for version in (*VERSIONS, "v1alpha3"):
        path = f"{GROUP}/{version}"
        if not _serves_rules(client, path):
            continue
        with client.get(f"{path}/{RULES}", {"limit": MAX_RULES}, TIMEOUT_S) as stream:
            for key, value in list_parts(stream.chunks()):
                if key == "items" and isinstance(value, dict):
                    yield value
        return


def _serves_rules(client: KubeClient, path: str) -> bool:
    try:
        with client.get(path, {}, TIMEOUT_S) as stream:
            document = decode(stream.read(MAX_OBJECT))
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    served = mappings(document, "resources") if isinstance(document, dict) else ()
    return any(each.get("name") == RULES for each in served)


def _selects(spec: Json, place: Place) -> bool:
    """Whether a rule is for a device. Without a selector, or with one of before 1.35, for none."""
    selector = spec.get("deviceSelector")
    if not isinstance(selector, dict) or not selector.keys() <= set(_SELECTED_BY):
        return False
    return all(
        key not in selector or text(selector[key]) == own
        for key, own in zip(_SELECTED_BY, place, strict=True)
    )
