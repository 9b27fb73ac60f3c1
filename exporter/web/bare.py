"""Imports aiohttp without the certificates of the system's authorities. To be imported first.

Its client, which nobody uses here, reads all of them as it is imported: 2.4 MB of memory, and a
sixth of a second. OpenSSL looks for them where these variables say.
"""

import os

_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

_given = {name: os.environ[name] for name in _PLACES if name in os.environ}
os.environ.update(dict.fromkeys(_PLACES, os.devnull))
try:
    import aiohttp  # noqa: F401 - the first to import it
finally:
    for _name in _PLACES:
        del os.environ[_name]
    os.environ.update(_given)
