"""``python -m exporter.answers.kubectl``: what ``kubectl-mgpu`` runs, also of the single file."""

import sys

from exporter.answers.kubectl.plugin import main

if __name__ == "__main__":
    sys.exit(main())
