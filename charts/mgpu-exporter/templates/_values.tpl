{{/*
Makes the values fit for the templates, once: every file begins with it. Null is what Helm users write
for "nothing of it", and Helm drops it only where the chart has a default, a whole part at once: of
"podMonitor:" with its lines commented out nothing is left. So null is taken away everywhere; then a part
that is not there gets its defaults, and a value whose default is empty or false gets that.
*/}}
{{- define "mgpu.values" -}}
{{- if not (hasKey .Values "prepared") }}
{{- include "mgpu.prune" .Values }}
{{- $parts := .Files.Get "files/defaults.json" | fromJson }}
{{- range $path := keys $parts | sortAlpha }}{{/* a part comes before those in it */}}
{{- $at := $.Values }}
{{- $missing := false }}
{{- range $step := splitList "/" $path | compact }}
{{- $missing = not (hasKey $at $step) }}
{{- if $missing }}{{ $_ := set $at $step dict }}{{ end }}
{{- $at = index $at $step }}
{{- end }}
{{- range $name, $value := index $parts $path }}
{{- if and (or $missing (empty $value)) (not (hasKey $at $name)) }}{{ $_ := set $at $name $value }}{{ end }}
{{- end }}
{{- end }}
{{- $_ := set .Values "prepared" true }}
{{- end }}
{{- end }}

{{- define "mgpu.prune" -}}
{{- range $key, $value := . }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $ $key }}{{ end }}
{{- if kindIs "map" $value }}{{ include "mgpu.prune" $value }}{{ end }}
{{- end }}
{{- end }}
