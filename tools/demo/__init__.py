"""A fleet to look at: simulated nodes, a real Prometheus with the rules, and Grafana.

``make demo`` starts it and says where to look; Ctrl-C, or the end of one program, ends all of it.
Prometheus is the machine's own, or is got by ``tools/install.py``. Grafana needs Docker.
"""
