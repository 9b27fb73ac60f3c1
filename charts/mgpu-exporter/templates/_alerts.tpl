{{/* The alerts of the rule files, as the values want them. Each takes a dict: root, rule. */}}

{{- define "mgpu.raises" -}}
{{- $rule := .root.Values.prometheusRule }}
{{- $own := dig .rule.alert dict (default dict $rule.rules) | default dict }}
{{- if and $rule.alerts (dig "enabled" true $own) (not (has .rule.alert (default list $rule.disabled))) }}true{{ end }}
{{- end }}

{{/* As JSON: expression, time, labels and link. What is not set is as in the file. */}}
{{- define "mgpu.alert" -}}
{{- $given := .root.Values.prometheusRule }}
{{- $own := dig .rule.alert dict (default dict $given.rules) | default dict }}
{{- $rule := deepCopy .rule }}
{{- $_ := set $rule "expr" (include "mgpu.expression" .) }}
{{- $labels := default dict $rule.labels }}
{{- with $own.severity }}{{ $_ := set $labels "severity" . }}{{ end }}
{{- $_ := set $rule "labels" (mergeOverwrite $labels (default dict $given.alertLabels)) }}
{{- with $own.for }}{{ $_ := set $rule "for" . }}{{ end }}
{{- if dig "annotations" "runbook_url" "" $rule }}
{{- $_ := unset $rule.annotations "runbook_url" }}
{{- if $given.runbookUrl }}
{{- $_ := set $rule.annotations "runbook_url" (replace "{alert}" $rule.alert $given.runbookUrl) }}
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
{{- range $name, $codes := $given.xids }}
{{- $expr = replace (printf "<%s>" $name) (join "|" (default list $codes)) $expr }}
{{- end }}
{{- $parameters := default dict (index $places.parameters .rule.alert) }}
{{- $own := omit (dig .rule.alert dict (default dict $given.rules) | default dict) "enabled" "for" "severity" }}
{{- $job := include "mgpu.job" .root }}
{{- if and (not (contains "mgpu-exporter" $job)) (hasKey $parameters "jobs") (not (hasKey $own "jobs")) }}
{{- $own = merge (dict "jobs" (printf ".*mgpu-exporter.*|%s" $job)) $own }}
{{- end }}
{{- range $name, $value := $own }}
{{- $place := index $parameters $name }}
{{- $expr = replace $place.find (printf "%s%v%s" $place.before $value $place.after) $expr }}
{{- end }}
{{- $expr }}
{{- end }}
