{{/* Names and labels. */}}

{{/* The name; in dcgm-exporter's place its own, by which its pods are looked for. */}}
{{- define "mgpu.name" -}}
{{- if include "mgpu.isDcgm" . }}dcgm-exporter
{{- else }}{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* In dcgm-exporter's place: the component by which its chart and Cast AI select its pods. */}}
{{- define "mgpu.component" -}}
{{ include "mgpu.isDcgm" . | empty | ternary "metrics" "dcgm-exporter" }}
{{- end }}

{{/*
In dcgm-exporter's place always its own: the DaemonSet selects by other labels there, and Kubernetes
lets none change what it selects by under the same name.
*/}}
{{- define "mgpu.fullname" -}}
{{- if include "mgpu.isDcgm" . }}nvidia-dcgm-exporter
{{- else if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "mgpu.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "mgpu.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "mgpu.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{/* Selectors cannot change later, so they hold nothing that does. */}}
{{- define "mgpu.selector" -}}
app.kubernetes.io/name: {{ include "mgpu.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/*
By which a ServiceMonitor finds its Service. Argo CD writes the name of its application into
app.kubernetes.io/instance of every object, which may be another than the release's.
*/}}
{{- define "mgpu.release" -}}
mgpu-exporter/release: {{ .Release.Name }}
{{- end }}

{{/*
The selector of pods beside the exporters, as JSON. Their name is another, so that whoever asks for
the exporter of a node by its name gets no other pod. Takes a dict: root, component.
*/}}
{{- define "mgpu.besideSelector" -}}
{{- $name := printf "%s-%s" (include "mgpu.name" .root | trunc 52) .component }}
{{- $own := dict "app.kubernetes.io/component" .component "app.kubernetes.io/name" $name }}
{{- merge $own (include "mgpu.selector" .root | fromYaml) | toJson }}
{{- end }}

{{- define "mgpu.labels" -}}
{{ include "mgpu.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: {{ include "mgpu.component" . }}
app.kubernetes.io/part-of: mgpu-exporter
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Without the chart's version: a new chart alone replaces no pod. */}}
{{- define "mgpu.podLabels" -}}
{{ include "mgpu.selector" . }}
app.kubernetes.io/component: {{ include "mgpu.component" . }}
{{- if include "mgpu.isDcgm" . }}
app: nvidia-dcgm-exporter
{{- end }}
app.kubernetes.io/part-of: mgpu-exporter
{{- end }}

{{- define "mgpu.podAnnotations" -}}
kubectl.kubernetes.io/default-container: mgpu-exporter
{{/* It changes with the settings that only a restart takes up; the others are read again. */ -}}
checksum/settings: {{ include "mgpu.restarting" . | sha256sum }}
{{- if eq (include "mgpu.gpuAccess" .) "cdi" }}
{{ .Values.cdi.annotation }}/container.mgpu-exporter: {{ .Values.cdi.device | quote }}
{{- end }}
{{- if .Values.openshift.securityContextConstraints }}
openshift.io/required-scc: {{ include "mgpu.clusterName" . }}
{{- end }}
{{- if include "mgpu.isDcgm" . }}
{{/* Datadog's agent looks for dcgm-exporter by its image, which this one does not have. */ -}}
ad.datadoghq.com/mgpu-exporter.checks: {{ include "mgpu.datadog" . | quote }}
{{- end }}
{{- end }}

{{/* Metadata of an object. Takes a dict: root, and perhaps name, namespace, labels, annotations. */}}
{{- define "mgpu.metadata" -}}
name: {{ default (include "mgpu.fullname" .root) .name }}
{{- if not .cluster }}
namespace: {{ default (include "mgpu.namespace" .root) .namespace }}
{{- end }}
labels:
  {{- toYaml (merge (dict) (default dict .labels) .root.Values.commonLabels (include "mgpu.labels" .root | fromYaml)) | nindent 2 }}
{{- with merge (dict) (default dict .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A cluster-wide name: two releases may have the same name in two namespaces. */}}
{{- define "mgpu.clusterName" -}}
{{- if eq (include "mgpu.namespace" .) (include "mgpu.fullname" .) -}}
{{ include "mgpu.fullname" . }}
{{- else -}}
{{ printf "%s-%s" (include "mgpu.namespace" .) (include "mgpu.fullname" .) }}
{{- end }}
{{- end }}

{{- define "mgpu.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "mgpu.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Who is given rights. All pods of a namespace that name no account have "default". */}}
{{- define "mgpu.subjects" -}}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create: false needs serviceAccount.name: else every pod of the namespace would get the exporter's rights; or grant them yourself (rbac.create: false)" }}
{{- end -}}
- kind: ServiceAccount
  name: {{ include "mgpu.serviceAccount" . }}
  namespace: {{ include "mgpu.namespace" . }}
{{- end }}

{{/* The proxy's image too comes from the registry that is given for all: its own registry makes way. */}}
{{- define "mgpu.proxyImage" -}}
{{- $image := .Values.kubeRBACProxy.image }}
{{- with .Values.global.imageRegistry }}
{{- $image = printf "%s/%s" . (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $image "") }}
{{- end }}
{{- $image }}
{{- end }}

{{/* Secrets to pull with, as JSON: Kubernetes wants objects, and many charts take names as well. */}}
{{- define "mgpu.pullSecrets" -}}
{{- $found := list }}
{{- range concat .Values.global.imagePullSecrets .Values.imagePullSecrets }}
{{- $found = append $found (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- uniq $found | toJson }}
{{- end }}

{{- define "mgpu.image" -}}
{{- $registry := default .Values.image.registry .Values.global.imageRegistry -}}
{{- with $registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}
{{- else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}
