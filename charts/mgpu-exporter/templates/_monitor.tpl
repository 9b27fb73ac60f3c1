{{/*
Prometheus' job. Two releases may have a pod each on one node, as NVIDIA's and AMD's: but for the job their
targets would have the same labels, and each series would jump between the two. So it is of one release
only: its name, and its namespace unless both are the same. In dcgm-exporter's place it is the GPU operator's.
*/}}
{{- define "mgpu.job" -}}
{{ include "mgpu.isDcgm" . | empty | ternary (include "mgpu.clusterName" .) "nvidia-dcgm-exporter" }}
{{- end }}

{{/*
A scrape of one pod. Takes a dict: root, monitor.
The target's own pod, container and namespace are the exporter's: they would stand on the series
that name none, and change with each restart. The node is what stays. Dropped, they collide with
nothing, so that a series keeps its own even where Prometheus honours no labels.
*/}}
{{- define "mgpu.endpoint" -}}
port: {{ default (include "mgpu.portName" .root) .port }}
path: {{ .root.Values.web.telemetryPath }}
scheme: {{ include "mgpu.scheme" .root }}
honorLabels: {{ .monitor.honorLabels }}
{{- with .monitor.interval }}
interval: {{ . }}
{{- end }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .monitor.params }}
params:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.authorization }}
authorization:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if include "mgpu.showsOwnToken" . }}
bearerTokenFile: {{ .root.Values.accessControl.tokenFile }}
{{- end }}
{{- with .monitor.extraEndpoint }}
{{ toYaml . }}
{{- end }}
relabelings:
  - {action: replace, targetLabel: job, replacement: {{ include "mgpu.job" .root }}}
  - {action: replace, sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}
  - {action: replace, sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: instance}
  {{- if .monitor.honorLabels }}
  - {action: labeldrop, regex: pod|container|namespace}
  {{- end }}
  {{- with .monitor.relabelings }}
  {{- include "mgpu.relabelings" . | nindent 2 }}
  {{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- include "mgpu.relabelings" . | nindent 2 }}
{{- end }}
{{- end }}

{{/* With the action that the API server adds: Argo CD would take away what it does not find here. */}}
{{- define "mgpu.relabelings" -}}
{{- $whole := list }}
{{- range . }}{{ $whole = append $whole (merge (dict) . (dict "action" "replace")) }}{{ end }}
{{- toYaml $whole }}
{{- end }}

{{/* What both kinds of monitors have around their endpoints. */}}
{{- define "mgpu.monitorSpec" -}}
selector:
  matchLabels:
    {{- if .component }}
    {{- include "mgpu.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- else if include "mgpu.isDcgm" .root }}
    {{- include "mgpu.operatorLabels" .root | nindent 4 }}
    {{- else }}
    app.kubernetes.io/name: {{ include "mgpu.name" .root }}
    {{- include "mgpu.release" .root | nindent 4 }}
    {{- end }}
namespaceSelector:
  matchNames: [{{ include "mgpu.namespace" .root }}]
{{- if .monitor.attachNodeMetadata }}
attachMetadata: {node: true}
{{- end }}
{{- range $field := list "bodySizeLimit" "scrapeClass" "fallbackScrapeProtocol" "podTargetLabels" "targetLabels" }}
{{- with get $.monitor $field }}
{{ toYaml (dict $field .) }}
{{- end }}
{{- end }}
{{- range $field, $number := merge (dict "keepDroppedTargets" .monitor.keepDroppedTargets) .monitor.limits }}
{{- with int64 $number }}
{{ $field }}: {{ . }}
{{- end }}
{{- end }}
{{- with .monitor.extraSpec }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* By what a monitor shows who scrapes, as JSON: the Operator leaves out one that has two. */}}
{{- define "mgpu.credentials" -}}
{{- $given := list }}
{{- range $name := list "basicAuth" "authorization" }}
{{- if get $.monitor $name }}{{ $given = append $given $name }}{{ end }}
{{- end }}
{{- range $name := list "oauth2" "bearerTokenFile" "bearerTokenSecret" }}
{{- if get $.monitor.extraEndpoint $name }}{{ $given = append $given (printf "extraEndpoint.%s" $name) }}{{ end }}
{{- end }}
{{- toJson $given }}
{{- end }}

{{/* Whether Prometheus shows the token of its own pod: where Kubernetes decides, and nothing else is given. */}}
{{- define "mgpu.showsOwnToken" -}}
{{- $access := .root.Values.accessControl }}
{{- if and $access.enabled $access.tokenFile (empty (include "mgpu.credentials" . | fromJsonArray)) }}true{{ end }}
{{- end }}
