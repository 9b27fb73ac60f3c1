"""What two tables of pods come to, when the one that knows more is out of date. Pure."""

from dataclasses import replace

from exporter.model import Container, Pod, PodTable


def merged(last: PodTable, names: PodTable) -> list[Pod]:
    """The pods of ``last``, then those that only ``names`` knows.

    ``last`` is the last that was heard of a source that knows whole pods, ``names`` is what is on
    the node now, by names and ids alone. A pod in both is as in ``last``, with the ids of
    containers that were started since.
    """
    living = [pod for pod in names.pods.values() if not pod.deleted]
    named = {last.by_kubelet_uid.get(pod.uid, pod.uid): pod for pod in living}
    return [
        *(_with_ids(pod, named[uid]) if uid in named else pod for uid, pod in last.pods.items()),
        *(pod for uid, pod in named.items() if uid not in last.pods),
    ]


def _with_ids(pod: Pod, named: Pod) -> Pod:
    ids = {container.name: container.container_ids for container in named.containers}
    containers = tuple(_with_newer(c, ids.get(c.name, ())) for c in pod.containers)
    return pod if containers == pod.containers else replace(pod, containers=containers)


def _with_newer(container: Container, ids: tuple[str, ...]) -> Container:
    newer = tuple(one for one in ids if one not in container.container_ids)
    return replace(container, container_ids=newer + container.container_ids) if newer else container
