"""What the rules of examples/tokens make of model servers' public names, for each pod."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.rules.cases import HOURS, POD
from tests.rules.run import written
from tests.worlds import REPORTED, WORLDS

RULES = Path(__file__).parents[2] / "examples/tokens/rules.yaml"
SERVER = 'namespace="n",pod="p",job="servers",model_name="m"'
OWN: dict[str, float] = {
    f"mgpu_pod_energy_joules_total{{{POD}}}": 300,
    f"mgpu_pod_core_seconds_total{{{POD}}}": 0.5,
    f"mgpu_pod_allocated_gpu_seconds_total{{{POD}}}": 1,
    f"mgpu_pod_info{{{POD}}}": 1,
}
# Names: vllm-project/vllm docs/usage/metrics.md; docs.sglang.io, production metrics; the metrics
# page of Triton Inference Server (port 8002); triton-inference-server/vllm_backend
# src/utils/metrics.py (1e66a222); NVIDIA/TensorRT-LLM (89fd9b74), the custom_metrics_reporter.cc of
# triton_backend/inflight_batcher_llm. Read 2026-11-25.
SERVERS: dict[str, dict[str, float]] = {
    "vLLM": {
        f"vllm:prompt_tokens_total{{{SERVER}}}": 400,
        f"vllm:generation_tokens_total{{{SERVER}}}": 100,
        f'vllm:request_success_total{{{SERVER},finished_reason="stop"}}': 1.5,
        f'vllm:request_success_total{{{SERVER},finished_reason="length"}}': 0.5,
    },
    "SGLang": {
        f"sglang:prompt_tokens_total{{{SERVER}}}": 450,
        f"sglang:generation_tokens_total{{{SERVER}}}": 50,
        f"sglang:num_requests_total{{{SERVER}}}": 2,
    },
    "Triton with vLLM": {
        f"vllm:prompt_tokens_total{{{SERVER}}}": 400,
        f"vllm:generation_tokens_total{{{SERVER}}}": 100,
        'nv_inference_request_success{namespace="n",pod="p",model="vllm",version="1"}': 2,
    },
    "Triton with TensorRT-LLM": {
        f'nv_llm_input_token_len_sum{{{SERVER},response_metric_type="total_input_tokens"}}': 400,
        f'nv_llm_output_token_len_sum{{{SERVER},response_metric_type="total_output_tokens"}}': 100,
        'nv_inference_request_success{namespace="n",pod="p",model="m",version="1"}': 2,
    },
    "Triton": {
        'nv_inference_request_success{namespace="n",pod="p",model="a",version="1"}': 1,
        'nv_inference_request_success{namespace="n",pod="p",model="b",version="1"}': 1,
    },
}
EXPECTED = {
    "namespace_pod:served_tokens:rate5m": 500,
    "namespace_pod:served_requests:rate5m": 2,
    "namespace_pod:mgpu_served_tokens:rate5m": 500,
    "namespace_pod:mgpu_served_requests:rate5m": 2,
    "namespace_pod:mgpu_joules_per_token:ratio_rate5m": 0.6,
    "namespace_pod:mgpu_gpu_seconds_per_token:ratio_rate5m": 0.001,
    "namespace_pod:mgpu_allocated_gpu_seconds_per_token:ratio_rate5m": 0.002,
    "namespace_pod:mgpu_joules_per_request:ratio_rate5m": 150,
    "namespace_pod:mgpu_gpu_seconds_per_request:ratio_rate5m": 0.25,
    "namespace_pod:mgpu_allocated_gpu_seconds_per_request:ratio_rate5m": 0.5,
}


def test_every_rule_is_held_to_a_figure() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    assert [rule["record"] for rule in group["rules"]] == list(EXPECTED)


@pytest.mark.program("promtool")
@pytest.mark.parametrize(
    ("server", "world"),
    [*((server, "honored") for server in SERVERS), *(("vLLM", world) for world in REPORTED)],
)
def test_a_pods_figures_are_divided_by_what_it_served(
    server: str, world: str, tmp_path: Path
) -> None:
    series = {WORLDS[world].of(name): rate for name, rate in OWN.items()} | SERVERS[server]
    known = {n: v for n, v in EXPECTED.items() if server != "Triton" or "token" not in n}
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": f"0+{rate * 60}{HOURS}"} for name, rate in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": f"round(sum({record}), 0.0001)",
                "eval_time": "60m",
                "exp_samples": [{"labels": "{}", "value": EXPECTED[record]}] * (record in known),
            }
            for record in EXPECTED
        ],
    }
    file = tmp_path / "test.yaml"
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    rules = written(group["rules"], tmp_path)
    file.write_text(json.dumps({"rule_files": [str(rules)], "tests": [test]}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
