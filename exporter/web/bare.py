"""Imports of aiohttp what serves. To be imported before all else that imports aiohttp.

Its client, which nobody uses here, would be 2 MiB and a tenth of a second. So is the C library of
C++ that comes with frozenlist's fast lists, 1 MiB for a handful of lists that are read once a page.
"""

import os

from exporter.postponed import load, postpone

_NO_EXTENSIONS = "FROZENLIST_NO_EXTENSIONS"

_given = os.environ.get(_NO_EXTENSIONS)
os.environ[_NO_EXTENSIONS] = "1"
postpone("aiohttp", __version__="")  # stands in a header that is replaced
load("aiohttp.web")
if _given is None:
    del os.environ[_NO_EXTENSIONS]
