"""Every value of the chart once; values.yaml, its schema and the README's table are made from it.

Data only: it knows of the exporter no more than its table of settings.
"""

from charts.table.access import ACCESS
from charts.table.closing import CLOSING
from charts.table.monitoring import MONITORING
from charts.table.pod import POD
from charts.table.release import EXTRAS, RELEASE
from charts.table.web import WEB
from charts.value import Section

SECTIONS: tuple[Section, ...] = (*RELEASE, *ACCESS, *WEB, *MONITORING, *CLOSING, *POD, *EXTRAS)
