import json

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.pods.decode import KeyPrefixes, PodError, decode_pod
from tests.agent.sources.pods.documents import Document

KEYS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "uid",
        "name",
        "namespace",
        "annotations",
        "labels",
        "limits",
        "containers",
        "initContainers",
        "containerStatuses",
        "initContainerStatuses",
        "lastState",
        "containerID",
        "terminated",
        "ownerReferences",
        "controller",
        "kind",
        "resources",
        "resourceClaims",
        "resourceClaimStatuses",
        "extendedResourceClaimStatus",
        "requestMappings",
        "resourceClaimName",
        "containerName",
        "claims",
        "a/b",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["containerd://abc", "ReplicaSet", "Always", "\ud800", "://", "x://"])
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=40,
)
LIKE_A_POD = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"uid": st.just("u"), "name": st.just("n"), "namespace": st.just("d")},
            optional={"annotations": ANYTHING, "labels": ANYTHING, "ownerReferences": ANYTHING},
        ),
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": ANYTHING, "initContainers": ANYTHING}
        )
        | ANYTHING,
        "status": ANYTHING,
    }
)


@given(ANYTHING | LIKE_A_POD)
def test_any_json_is_a_pod_or_the_one_documented_error(document: object) -> None:
    try:
        pod, _ = decode_pod(document, KeyPrefixes(("",), ("",)))
    except PodError:
        return
    texts = [pod.uid, pod.name, *pod.annotations.values(), *pod.labels.values()]
    texts += [text for each in pod.containers for text in (each.name, *each.limits.values())]
    assert all(text.encode() is not None for text in texts)
    assert all(one.claim for each in pod.containers for one in each.claims)


@given(LIKE_A_POD)
def test_ids_come_from_the_input_only(document: Document) -> None:
    text = json.dumps(document)
    for container in decode_pod(document).pod.containers:
        for id_ in container.container_ids:
            assert f"://{id_}" in text
