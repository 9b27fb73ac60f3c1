{{/*
Settings that contradict each other or the chart's own values, and with which the exporter would not
start. What is wrong with a single one is refused by values.schema.json.
*/}}
{{- define "mgpu.refuseSettings" -}}
{{- $settings := .Values.settings }}
{{- $collection := default dict $settings.collection }}
{{- $web := default dict $settings.web }}
{{- $interval := include "mgpu.milliseconds" (default "1s" $collection.interval) | float64 }}
{{- $window := include "mgpu.milliseconds" (default "15s" $collection.window) | float64 }}
{{- if lt $window $interval }}
{{- fail "settings.collection.window is shorter than settings.collection.interval; make it longer" }}
{{- end }}
{{- range $name, $on := dict "accessControl.enabled" .Values.accessControl.enabled "kubeRBACProxy.enabled" .Values.kubeRBACProxy.enabled "settings.web.metrics-only" (index $web "metrics-only") }}
{{- if and $on (index $web "open-page") }}
{{- fail (printf "settings.web.open-page contradicts %s; give one of the two" $name) }}
{{- end }}
{{- end }}
{{- if eq "standard" (default "" (default dict $settings.metrics).profile) }}
{{- fail "settings.metrics.profile: standard is gone; write full, which has all of it" }}
{{- end }}
{{- $gpus := default dict $settings.gpus }}
{{- range $source := kindIs "slice" $gpus.source | ternary $gpus.source (list $gpus.source) | compact }}
{{- if and $.Values.simulate (not (has $source (list "auto" "simulated"))) }}
{{- fail "simulate simulates the whole node; leave out settings.gpus.source" }}
{{- end }}
{{- if and (eq $source "simulated") (not $.Values.simulate) }}
{{- fail "settings.gpus.source: simulated needs simulate with a scenario" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "mgpu.milliseconds" -}}
{{- $lengths := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 }}
{{- $sum := 0.0 }}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $sum = addf $sum (mulf (trimSuffix $unit .) (index $lengths $unit)) }}
{{- end }}
{{- $sum }}
{{- end }}
