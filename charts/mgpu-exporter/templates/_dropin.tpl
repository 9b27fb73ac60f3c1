{{/*
What stands where dcgm-exporter stood. Sources: NVIDIA/gpu-operator, assets/state-dcgm-exporter (Service,
ServiceMonitor, DaemonSet); NVIDIA/dcgm-exporter, deployment/templates (its own chart).
*/}}

{{/* The Service's name and its port's: in dcgm-exporter's place those of the GPU operator. */}}
{{- define "mgpu.serviceName" -}}
{{- if include "mgpu.isDcgm" . }}nvidia-dcgm-exporter
{{- else }}{{ include "mgpu.fullname" . }}
{{- end }}
{{- end }}
{{- define "mgpu.servicePort" -}}
{{- if include "mgpu.isDcgm" . }}gpu-metrics
{{- else }}{{ include "mgpu.portName" . }}
{{- end }}
{{- end }}

{{/* Labels by which the GPU operator's users select the Service. */}}
{{- define "mgpu.operatorLabels" -}}
app: nvidia-dcgm-exporter
{{ include "mgpu.release" . }}
{{- end }}

{{/* What a scrape by annotations needs: Prometheus' usual jobs, Netdata, and others. */}}
{{- define "mgpu.scrapeAnnotations" -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ include "mgpu.port" . | quote }}
prometheus.io/path: {{ .Values.web.telemetryPath | quote }}
prometheus.io/scheme: {{ include "mgpu.scheme" . }}
{{- end }}

{{/* Datadog's check of dcgm-exporter, for this pod. */}}
{{- define "mgpu.datadog" -}}
{{- $url := printf "%s://%%%%host%%%%:%s%s" (include "mgpu.scheme" .) (include "mgpu.port" .) .Values.web.telemetryPath }}
{{- dict "dcgm" (dict "init_config" dict "instances" (list (dict "openmetrics_endpoint" $url))) | toJson }}
{{- end }}

{{/*
What sends the pods away from a node while its GPUs may have no users. A DaemonSet's pods leave a node
that its affinity no longer allows. mgpu-exporter/off is for people, before a reset. In the place of
dcgm-exporter there is also the label that the GPU operator's MIG and driver managers set; they wait
until the pods of app=nvidia-dcgm-exporter are gone. Nodes without these labels are allowed.
*/}}
{{- define "mgpu.notPaused" -}}
- {key: mgpu-exporter/off, operator: DoesNotExist}
{{- if include "mgpu.isDcgm" . }}
- key: nvidia.com/gpu.deploy.dcgm-exporter
  operator: NotIn
  values: ["false", paused-for-mig-change, paused-for-driver-upgrade]
{{- end }}
{{- end }}

{{/* Each pod describes its own node, so that nobody needs just any one of them: headless. */}}
{{- define "mgpu.serviceSpec" -}}
spec:
  clusterIP: None
  selector:
    {{- include "mgpu.selector" . | nindent 4 }}
    app.kubernetes.io/component: {{ include "mgpu.component" . }}
  ports:
    - name: {{ include "mgpu.portName" . }}
      port: {{ include "mgpu.port" . }}
      targetPort: {{ include "mgpu.portName" . }}
      protocol: TCP
{{- end }}
