"""Names that are not known: what was meant, and whether they are ours at all."""

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from exporter.settings.table import BY_NAME

PREFIX = "MGPU_"
REMOTE = "MGPU_REMOTE_"  # which exporter `top` and `snapshot` look at: theirs to read, no setting

_SERVICE_LINK = re.compile(
    r".+_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|.+_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)
"""What Kubernetes puts into every container's environment for each Service of the namespace:
kubernetes/pkg/kubelet/envvars/envvars.go. A Service named mgpu-exporter looks like one of ours."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one, "" if none is."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.6)), "")


def meant(name: str, known: Iterable[str]) -> str:
    """What to say of an unknown name: the nearest known one, if there is one."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""


def known_alike(name: str) -> str:
    """The names of the settings that one may have meant, all of the same section."""
    near = nearest(name, BY_NAME)
    part = name.split(".", maxsplit=1)[0]
    alike = [known for known in BY_NAME if known.split(".")[0] == part and known != near]
    names = [near] * bool(near) + (alike or [] if near else alike or list(BY_NAME))
    return f"known: {', '.join(names)}"


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Say which variables look like settings and are none; service links are not meant.

    They are no error: whoever sets variables for a whole namespace must not stop the exporter.
    """
    known: Collection[str] = {setting.variable for setting in BY_NAME.values()}
    return [
        f"${name} is no setting of this version{meant(name, known)}"
        for name in sorted(environ)
        if name.startswith(PREFIX) and not name.startswith(REMOTE)
        if name not in known and not _SERVICE_LINK.fullmatch(name)
    ]
