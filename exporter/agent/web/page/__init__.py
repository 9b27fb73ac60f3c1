"""The live page: a Snapshot's facts as HTML. Pure.

This is the only renderer. ``static/page.js`` fetches the same page again and replaces what differs;
without JavaScript a browser reloads it. Values are made here, and the templates in ``templates/``
write them. The page has no inline script or style and loads nothing from another host, so its
Content-Security-Policy can forbid both. ``docs/decisions.md`` has the reasons.
"""

from exporter.agent.web.page.choice import Choice, choice_of
from exporter.agent.web.page.nodepage import ShownNode, node_of
from exporter.agent.web.page.page import CONTENT_SECURITY_POLICY, page

__all__ = ["CONTENT_SECURITY_POLICY", "Choice", "ShownNode", "choice_of", "node_of", "page"]
