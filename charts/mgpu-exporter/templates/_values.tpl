{{/*
Makes the values fit for the templates, once: every file begins with it. Null is what Helm users write
for "nothing of it", and Helm drops it only where the chart has a default, a whole part at once: of
"podMonitor:" with its lines commented out nothing is left. And "helm upgrade --reuse-values" has the
defaults of the chart as it was, without what has come since. So null is taken away everywhere; then
what is missing gets its default, unless it may be without a value and null took that away.
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
{{- $part := index $parts $path }}
{{- range $name, $value := $missing | ternary (merge (dict) $part.filled $part.bare) $part.filled }}
{{- if not (hasKey $at $name) }}{{ $_ := set $at $name $value }}{{ end }}
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
