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
{{- else }}
{{- if and .root.Values.accessControl.enabled .root.Values.accessControl.tokenFile }}
bearerTokenFile: {{ .root.Values.accessControl.tokenFile }}
{{- end }}
{{- end }}
relabelings:
  - {action: replace, sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}
  - {action: replace, sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: instance}
  {{- if .monitor.honorLabels }}
  - {action: labeldrop, regex: pod|container|namespace}
  {{- end }}
  {{- with .monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What both kinds of monitors have around their endpoints. */}}
{{- define "mgpu.monitorSpec" -}}
jobLabel: {{ include "mgpu.isDcgm" .root | empty | ternary "app.kubernetes.io/name" "app" }}
selector:
  matchLabels:
    {{- if and (include "mgpu.isDcgm" .root) (not .component) }}
    {{- include "mgpu.operatorLabels" .root | nindent 4 }}
    {{- else }}
    {{- include "mgpu.selector" .root | nindent 4 }}
    {{- end }}
    {{- if .component }}
    app.kubernetes.io/component: {{ .component }}
    {{- end }}
namespaceSelector:
  matchNames: [{{ include "mgpu.namespace" .root }}]
{{- if .monitor.attachNodeMetadata }}
attachMetadata: {node: true}
{{- end }}
{{- with .monitor.limits }}
{{ toYaml . }}
{{- end }}
{{- end }}
