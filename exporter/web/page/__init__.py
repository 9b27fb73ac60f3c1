"""The live page: the JSON documents as HTML, for people. Pure.

It shows without JavaScript what ``static/page.js`` then keeps up to date from the same documents by
the same rules, function by function; a test holds the two together. Text becomes markup in
``html.h`` alone, which escapes it. Nothing is inline and nothing comes from elsewhere, so that the
Content-Security-Policy can forbid both.
"""

from exporter.web.page.choice import Choice, choice_of
from exporter.web.page.shell import CONTENT_SECURITY_POLICY, page

__all__ = ["CONTENT_SECURITY_POLICY", "Choice", "choice_of", "page"]
