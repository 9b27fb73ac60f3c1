"""Imports of the libraries what serves. To be imported before all else that imports them.

aiohttp's client, which nobody uses here, would be 2 MiB and a tenth of a second; the library of C++
that frozenlist's fast lists need 1 MiB, for a handful of lists that are walked once a request; the
metrics of prometheus_client, which are not what pages are made of, some 0.3 MiB.
"""

import os

from exporter.postponed import load, postpone

_NO_EXTENSIONS = "FROZENLIST_NO_EXTENSIONS"

_given = os.environ.get(_NO_EXTENSIONS)
os.environ[_NO_EXTENSIONS] = "1"
postpone("aiohttp", __version__="")  # stands in a header that is replaced
load("aiohttp.web")
postpone("prometheus_client")
for module in ("exposition", "openmetrics.exposition", "platform_collector"):
    load(f"prometheus_client.{module}")
if _given is None:
    del os.environ[_NO_EXTENSIONS]
