{{/* The rules of the rule files, as the values want them. */}}

{{/* The jobs that are trusted, as a pattern. Takes the root. */}}
{{- define "mgpu.trustedJobs" -}}
{{- if .Values.trustedJobs }}{{ .Values.trustedJobs }}
{{- else if not (or .Values.podMonitor.enabled .Values.serviceMonitor.enabled) }}.+
{{- else }}{{ include "mgpu.usualJobs" . }}{{ end }}
{{- end }}

{{/* The jobs that exporters have by our monitors, and by our pages. */}}
{{- define "mgpu.usualJobs" -}}
{{- $job := include "mgpu.job" . -}}
.*mgpu-exporter.*{{ if not (contains "mgpu-exporter" $job) }}|{{ $job }}{{ end }}
{{- end }}

{{/*
PromQL that asks these jobs alone. Takes a dict: root, text. A recorded series has its level and a colon
before the name, and was recorded of these jobs.
*/}}
{{- define "mgpu.ofTrusted" -}}
{{- $jobs := include "mgpu.trustedJobs" .root }}
{{- if eq $jobs ".+" }}{{ .text }}
{{- else }}
{{- $own := printf "{job=~%q" $jobs }}
{{- $selected := printf "${1}${2}%s}" (replace "$" "$$" $own) }}
{{- regexReplaceAll `(^|[^0-9A-Za-z_:"])(mgpu_[a-z0-9_]+)` .text $selected | replace (print $own "}{") (print $own ",") | replace "{__name__=~\"mgpu_" (print $own ",__name__=~\"mgpu_") }}
{{- end }}
{{- end }}

{{/* A board whose jobs are these. Takes a dict: root, text. */}}
{{- define "mgpu.board" -}}
{{- $jobs := include "mgpu.trustedJobs" .root }}
{{- if eq $jobs ".+" }}{{ .text }}
{{- else }}
{{- $known := "label_values(mgpu_exporter_build_info" }}
{{- $selected := printf "%s{job=~\\\"%s\\\"}, job)" $known $jobs }}
{{- .text | replace (print $known ", job)") $selected | replace "\"allValue\": \".+\"" (printf "\"allValue\": %q" $jobs) }}
{{- end }}
{{- end }}

{{/* As JSON: a rule that records. Takes a dict: root, rule. */}}
{{- define "mgpu.recording" -}}
{{- set (deepCopy .rule) "expr" (include "mgpu.ofTrusted" (dict "root" .root "text" .rule.expr)) | toJson }}
{{- end }}

{{/* Whether an alert is there. Takes a dict: root, rule. */}}

{{- define "mgpu.raises" -}}
{{- $rule := .root.Values.prometheusRule }}
{{- $own := dig .rule.alert dict $rule.rules }}
{{- if and $rule.alerts (dig "enabled" true $own) (not (has .rule.alert $rule.disabled)) }}true{{ end }}
{{- end }}

{{/* As JSON: expression, time, labels and link. What is not set is as in the file. */}}
{{- define "mgpu.alert" -}}
{{- $given := .root.Values.prometheusRule }}
{{- $own := dig .rule.alert dict $given.rules }}
{{- $rule := deepCopy .rule }}
{{- $_ := set $rule "expr" (include "mgpu.ofTrusted" (dict "root" .root "text" (include "mgpu.expression" .))) }}
{{- $_ := set $rule.annotations "description" (include "mgpu.ofTrusted" (dict "root" .root "text" $rule.annotations.description)) }}
{{- $labels := default dict $rule.labels }}
{{- with $own.severity }}{{ $_ := set $labels "severity" . }}{{ end }}
{{- $_ := set $rule "labels" (mergeOverwrite $labels $given.alertLabels) }}
{{- with $own.for }}{{ $_ := set $rule "for" . }}{{ end }}
{{- if dig "annotations" "runbook_url" "" $rule }}
{{- $_ := unset $rule.annotations "runbook_url" }}
{{- with $given.runbookUrl }}
{{- $link := replace "{alert}" $rule.alert . }}
{{- if hasSuffix "/runbooks/{alert}" . }}{{/* those that an exporter serves: their commands are about the alert's labels */}}
{{- $link = printf "%s?node={{ $labels.instance }}" $link }}
{{- range list "uuid" "gpu" "namespace" "pod" "quantity" }}{{ $link = printf "%s&%s={{ $labels.%s }}" $link . . }}{{ end }}
{{- range $key, $own := dict "exporters" (include "mgpu.namespace" $.root) "app" (include "mgpu.name" $.root) "daemonset" (include "mgpu.fullname" $.root) }}
{{- if ne $own "mgpu-exporter" }}{{ $link = printf "%s&%s=%s" $link $key $own }}{{ end }}
{{- end }}
{{- end }}
{{- $_ := set $rule.annotations "runbook_url" $link }}
{{- end }}
{{- end }}
{{- toJson $rule }}
{{- end }}

{{- define "mgpu.expression" -}}
{{- $places := .root.Files.Get "files/alerts.json" | fromJson }}
{{- $given := .root.Values.prometheusRule }}
{{- $expr := .rule.expr }}
{{- range $name, $codes := $places.xids }}
{{- $expr = replace $codes (printf "<%s>" $name) $expr }}
{{- end }}
{{- range $name := keys $places.xids }}
{{- $expr = replace (printf "<%s>" $name) (join "|" (default list (get $given.xids $name))) $expr }}
{{- end }}
{{- $parameters := default dict (index $places.parameters .rule.alert) }}
{{- $own := omit (dig .rule.alert dict $given.rules) "enabled" "for" "severity" }}
{{- if and (hasKey $parameters "jobs") (not (hasKey $own "jobs")) }}
{{- $jobs := include "mgpu.trustedJobs" .root }}
{{- $own = merge (dict "jobs" (eq $jobs ".+" | ternary (include "mgpu.usualJobs" .root) $jobs)) $own }}
{{- end }}
{{- range $name, $value := $own }}
{{- $place := index $parameters $name }}
{{- $expr = replace $place.find (printf "%s%v%s" $place.before $value $place.after) $expr }}
{{- end }}
{{- $expr }}
{{- end }}
