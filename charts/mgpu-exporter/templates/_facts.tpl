{{/* What follows from the values. A fact that does not hold is the empty text. */}}

{{/* Whether it stands in dcgm-exporter's place. */}}
{{- define "mgpu.isDcgm" -}}
{{- if eq .Values.compat.dropIn "dcgm" }}true{{ end }}
{{- end }}

{{/* The programs of --compat: those of the settings, and in dcgm-exporter's place both its name sets, unless one is chosen. */}}
{{- define "mgpu.compat" -}}
{{- $own := dig "compat" list .Values.settings | default list }}
{{- $own = kindIs "string" $own | ternary (splitList "," (toString $own)) $own }}
{{- if not (or (has "dcgm" $own) (has "dcgm-4.9" $own)) }}
{{- $own = concat $own (list "dcgm" "dcgm-4.9") }}
{{- end }}
{{- join "," $own }}
{{- end }}

{{- define "mgpu.asksApi" -}}
{{- if and (not .Values.simulate) (has .Values.pods.source (list "auto" "api")) }}true{{ end }}
{{- end }}

{{- define "mgpu.asksKubelet" -}}
{{- $chosen := eq .Values.pods.source "kubelet" }}
{{- $allowed := and (eq .Values.pods.source "auto") .Values.pods.kubelet }}
{{- if and (not .Values.simulate) (or $chosen $allowed) }}true{{ end }}
{{- end }}

{{/*
The exporter's user and its proxy's: nobody else's on the node. With hostPID a process may read and
signal all others of its user, without any capability.
*/}}
{{- define "mgpu.user" -}}61045{{- end }}
{{- define "mgpu.proxyUser" -}}61046{{- end }}

{{/* Whether it may read what root or root's group may, such as other pods' logs. */}}
{{- define "mgpu.readsAsRoot" -}}
{{- $own := include "mgpu.securityContext" . | fromYaml }}
{{- $pod := .Values.podSecurityContext }}
{{- $ids := list $own.runAsUser $own.runAsGroup (dig "fsGroup" 1 $pod) }}
{{- range concat $ids (dig "supplementalGroups" list $pod) }}
{{- if eq (int .) 0 }}true{{ end }}
{{- end }}
{{- end }}

{{- define "mgpu.readsFiles" -}}
{{- $chosen := eq .Values.pods.source "files" }}
{{- $wanted := kindIs "bool" .Values.pods.files | ternary .Values.pods.files (not (include "mgpu.readsAsRoot" .)) }}
{{- $allowed := and (eq .Values.pods.source "auto") $wanted }}
{{- if and (not .Values.simulate) (or $chosen $allowed) }}true{{ end }}
{{- end }}

{{- define "mgpu.readsClaims" -}}
{{- if and (include "mgpu.asksApi" .) .Values.pods.claims }}true{{ end }}
{{- end }}

{{- define "mgpu.readsPodResources" -}}
{{- if and (not .Values.simulate) (hasPrefix "podresources" .Values.profile) }}true{{ end }}
{{- end }}

{{- define "mgpu.monitorsMig" -}}
{{- if and (not .Values.simulate) (hasSuffix "mig" .Values.profile) }}true{{ end }}
{{- end }}

{{/*
Whether it looks into all processes. Only the owner of /proc/PID/fd may list it (else DAC_READ_SEARCH),
and only who may trace the process may read its links (else SYS_PTRACE): proc_pid_fd(5).
*/}}
{{- define "mgpu.looksIntoProcesses" -}}
{{- if and (not .Values.simulate) (hasSuffix "fdinfo" .Values.profile) }}true{{ end }}
{{- end }}

{{/*
How the driver gets in; nothing of it in a simulated node. A pod that names a RuntimeClass which is not
there is refused, so that "auto" names it only where Helm sees it. Without a cluster Helm sees nothing.
*/}}
{{- define "mgpu.gpuAccess" -}}
{{- if not .Values.simulate }}
{{- if ne .Values.gpuAccess "auto" }}{{ .Values.gpuAccess }}
{{- else if lookup "node.k8s.io/v1" "RuntimeClass" "" .Values.runtimeClassName }}runtimeClass
{{- else }}env{{ end }}
{{- end }}
{{- end }}

{{/* NVIDIA's container runtime reads environment variables. */}}
{{- define "mgpu.hasNvidiaRuntime" -}}
{{- if has (include "mgpu.gpuAccess" .) (list "runtimeClass" "env" "volumeMounts") }}true{{ end }}
{{- end }}

{{/* Where NVIDIA's container runtime looks for mounts by which a container asks for devices. */}}
{{- define "mgpu.deviceMounts" -}}/var/run/nvidia-container-devices{{- end }}

{{- define "mgpu.needsToken" -}}
{{- $asks := or (include "mgpu.asksApi" .) (include "mgpu.asksKubelet" .) }}
{{- if kindIs "bool" .Values.automountServiceAccountToken }}
{{- if .Values.automountServiceAccountToken }}true{{ end }}
{{- else if or $asks .Values.kubeRBACProxy.enabled .Values.accessControl.enabled }}true{{ end }}
{{- end }}

{{- define "mgpu.hasWebConfig" -}}
{{- if or .Values.web.config .Values.web.existingSecret }}true{{ end }}
{{- end }}

{{- define "mgpu.scheme" -}}
{{- if .Values.kubeRBACProxy.enabled }}https
{{- else if .Values.web.scheme }}{{ .Values.web.scheme }}
{{- else if dig "tls_server_config" "" .Values.web.config }}https
{{- else }}http{{ end }}
{{- end }}

{{- define "mgpu.portName" -}}
{{ .Values.kubeRBACProxy.enabled | ternary "proxy" "metrics" }}
{{- end }}

{{/* The exporter's own port. */}}
{{- define "mgpu.webPort" -}}
{{ include "mgpu.isDcgm" . | empty | ternary .Values.web.port 9400 }}
{{- end }}

{{- define "mgpu.port" -}}
{{ .Values.kubeRBACProxy.enabled | ternary .Values.kubeRBACProxy.port (include "mgpu.webPort" .) }}
{{- end }}

{{/* A client that shows no certificate does not get as far as a path. */}}
{{- define "mgpu.probe" -}}
{{- $tls := dig "tls_server_config" dict .Values.web.config | default dict }}
{{- if .Values.kubeRBACProxy.enabled }}http
{{- else if .Values.web.probe }}{{ .Values.web.probe }}
{{- else if eq (default "" $tls.client_auth_type) "RequireAndVerifyClientCert" }}tcp
{{- else }}http{{ end }}
{{- end }}

{{/* The settings that only a restart takes up, so that a change of theirs brings one. */}}
{{- define "mgpu.restarting" -}}
{{- $found := dict }}
{{- range $name := .Files.Lines "files/restarting.txt" }}
{{- $node := $.Values.settings }}
{{- range splitList "." $name }}
{{- $node = kindIs "map" $node | ternary $node (dict) | dig . "" }}
{{- end }}
{{- if and $name (ne (toJson $node) "\"\"") }}
{{- $_ := set $found $name $node }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{/* What contradicts itself is refused before anything is made. */}}
{{- define "mgpu.refuse" -}}
{{- include "mgpu.refuseSettings" . }}
{{- if and .Values.kubeRBACProxy.enabled (include "mgpu.hasWebConfig" .) }}
{{- fail "kubeRBACProxy.enabled and web.config (or web.existingSecret): the proxy speaks plain HTTP to the exporter; take one of the two" }}
{{- end }}
{{- if and .Values.kubeRBACProxy.enabled .Values.hostNetwork }}
{{- fail "kubeRBACProxy.enabled and hostNetwork: the node's loopback address is open to every pod with its network; take one of the two" }}
{{- end }}
{{- if and .Values.kubeRBACProxy.enabled (eq (include "mgpu.port" .) (include "mgpu.webPort" .)) }}
{{- fail "kubeRBACProxy.port and web.port: both listen in one pod; give two ports" }}
{{- end }}
{{- if and (include "mgpu.isDcgm" .) .Values.kubeRBACProxy.enabled }}
{{- fail "compat.dropIn and kubeRBACProxy.enabled: who looks for dcgm-exporter shows no token; take one of the two" }}
{{- end }}
{{- if and .Values.accessControl.enabled .Values.kubeRBACProxy.enabled }}
{{- fail "accessControl.enabled and kubeRBACProxy.enabled: both ask the API server about clients; take accessControl" }}
{{- end }}
{{- if and .Values.accessControl.enabled (dig "basic_auth_users" "" .Values.web.config) }}
{{- fail "accessControl.enabled and web.config.basic_auth_users: a request has one Authorization; take one of the two" }}
{{- end }}
{{- if and .Values.accessControl.enabled (include "mgpu.isDcgm" .) }}
{{- fail "compat.dropIn and accessControl.enabled: who looks for dcgm-exporter shows no token; take one of the two" }}
{{- end }}
{{- if and .Values.accessControl.enabled .Values.podMonitor.enabled (empty (include "mgpu.credentials" (dict "monitor" .Values.podMonitor) | fromJsonArray)) }}
{{- fail "accessControl.enabled and podMonitor.enabled: a PodMonitor cannot name Prometheus' own token; give podMonitor.authorization, or take serviceMonitor" }}
{{- end }}
{{- if and (include "mgpu.isDcgm" .) (not .Values.service.enabled) }}
{{- fail "compat.dropIn needs service.enabled: the Services are what dcgm-exporter is found by" }}
{{- end }}
{{- range $key, $_ := .Values.podAnnotations }}
{{- if regexMatch "^nvidia[.]com/container[.].+[.]gpu-memory[.]" $key }}
{{- fail (printf "podAnnotations: %s would limit the exporter's own GPU memory, and NVML then reports the limit as the card's" $key) }}
{{- end }}
{{- end }}
{{- range .Values.extraEnv }}
{{- if hasPrefix "NVIDIA_GPU_MEMORY_" .name }}
{{- fail (printf "extraEnv: %s would limit the exporter's own GPU memory, and NVML then reports the limit as the card's" .name) }}
{{- end }}
{{- end }}
{{- range $container := concat .Values.extraContainers .Values.initContainers }}
{{- range $container.ports }}
{{- if eq (default "" .name) (include "mgpu.portName" $) }}
{{- fail (printf "extraContainers, initContainers: the port of %s is named %s as the exporter's; Prometheus would take both for one target" $container.name .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.web.config .Values.web.existingSecret }}
{{- fail "web.config and web.existingSecret: give one of the two" }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.from) }}
{{- fail "networkPolicy.enabled needs networkPolicy.from: without it everybody may reach the port; name who may, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}], or everybody in words: [{ipBlock: {cidr: 0.0.0.0/0}}, {ipBlock: {cidr: \"::/0\"}}]" }}
{{- end }}
{{- if and .Values.networkPolicy.enabled .Values.hostNetwork }}
{{- fail "networkPolicy.enabled and hostNetwork: no NetworkPolicy holds for a pod on the node's own network; take one of the two" }}
{{- end }}
{{- range $name, $monitor := dict "podMonitor" .Values.podMonitor "serviceMonitor" .Values.serviceMonitor }}
{{- $given := include "mgpu.credentials" (dict "monitor" $monitor) | fromJsonArray }}
{{- if and $monitor.enabled (gt (len $given) 1) }}
{{- fail (printf "%s.%s: a request has one Authorization; take one of them" $name (join (printf " beside %s." $name) $given)) }}
{{- end }}
{{- if and $monitor.enabled $.Values.accessControl.enabled $monitor.basicAuth }}
{{- fail (printf "%s.basicAuth beside accessControl, which wants a token: a request has one Authorization; take one of the two" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.settings .Values.existingConfigMap }}
{{- fail "settings and existingConfigMap: give one of the two" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.service.enabled) }}
{{- fail "serviceMonitor.enabled needs service.enabled; or take podMonitor" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled }}
{{- fail "serviceMonitor.enabled and podMonitor.enabled: every series would be scraped twice; take one of the two" }}
{{- end }}
{{- end }}
