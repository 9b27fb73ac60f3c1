{{/* The exporter's container: flags, environment, mounts, privileges. */}}

{{- define "mgpu.args" -}}
- serve
- --web.listen-address={{ if .Values.kubeRBACProxy.enabled }}127.0.0.1{{ end }}:{{ include "mgpu.webPort" . }}
{{- if .Values.kubeRBACProxy.enabled }}
- --web.metrics-only
{{- end }}
- --web.telemetry-path={{ .Values.web.telemetryPath }}
{{- if include "mgpu.hasWebConfig" . }}
- --web.config.file=/etc/mgpu-exporter/web/web.yaml
{{- end }}
{{- if .Values.accessControl.enabled }}
- --web.kubernetes-access
{{- with .Values.accessControl.audiences }}
- --web.kubernetes-audiences={{ join "," . }}
{{- end }}
{{- end }}
{{- if include "mgpu.isDcgm" . }}
- --compat={{ include "mgpu.compat" . }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where things are on this node: as variables, so that `kubectl exec` of top, why and check has them too. */}}
{{- define "mgpu.places" -}}
- {name: MGPU_CONFIG_FILE, value: /etc/mgpu-exporter/settings/settings.yaml}
{{- if .Values.simulate }}
- {name: MGPU_SIMULATE, value: {{ .Values.simulate | quote }}}
{{- else }}
- {name: MGPU_PATH_CGROUP, value: /host/sys/fs/cgroup}
{{- with .Values.passwd }}
- {name: MGPU_PATH_PASSWD, value: /host/passwd}
{{- end }}
- {name: MGPU_PODS_SOURCE, value: {{ .Values.pods.source }}}
{{- if not (include "mgpu.readsClaims" .) }}
- {name: MGPU_PODS_CLAIMS, value: "off"}
{{- end }}
- name: MGPU_KUBELET_POD_RESOURCES_SOCKET
  value: {{ include "mgpu.readsPodResources" . | empty | ternary "none" "/var/lib/kubelet/pod-resources/kubelet.sock" }}
{{- if include "mgpu.asksKubelet" . }}
{{- with .Values.kubelet.address }}
- {name: MGPU_KUBELET_ADDRESS, value: {{ . | quote }}}
{{- end }}
{{- if .Values.kubelet.caFile }}
- {name: MGPU_KUBELET_CA_FILE, value: /host/kubelet-ca.crt}
{{- end }}
{{- if .Values.kubelet.insecureTLS }}
- {name: MGPU_KUBELET_INSECURE_TLS, value: "true"}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Your own variables go before the chart's of the same name: server-side apply refuses a name that is there twice. */}}
{{- define "mgpu.env" -}}
{{- $given := dict }}
{{- range .Values.extraEnv }}{{ $_ := set $given .name true }}{{ end }}
{{- $kept := list }}
{{- range include "mgpu.ownEnv" . | fromYamlArray }}
{{- if not (hasKey $given .name) }}{{ $kept = append $kept . }}{{ end }}
{{- end }}
{{- toYaml (concat $kept .Values.extraEnv) }}
{{- end }}

{{- define "mgpu.ownEnv" -}}
{{ include "mgpu.places" . }}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: NODE_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
{{- if include "mgpu.hasNvidiaRuntime" . }}
- name: NVIDIA_VISIBLE_DEVICES
  value: {{ eq (include "mgpu.gpuAccess" .) "volumeMounts" | ternary (include "mgpu.deviceMounts" .) .Values.visibleDevices | quote }}
- name: NVIDIA_DRIVER_CAPABILITIES
  value: utility
{{- if include "mgpu.monitorsMig" . }}
- name: NVIDIA_MIG_MONITOR_DEVICES
  value: all
{{- end }}
{{- end }}
{{- end }}

{{/*
All capabilities are dropped. NVIDIA's runtime refuses MIG's monitor capability to containers
whose bounding set lacks SYS_ADMIN; a process that is not root does not get it from there.
*/}}
{{- define "mgpu.securityContext" -}}
{{- $given := .Values.securityContext }}
{{- $traces := include "mgpu.looksIntoProcesses" . }}
{{- $user := include "mgpu.user" . | int }}
{{- $root := or (include "mgpu.readsPodResources" .) $traces }}
{{- $capabilities := dict "drop" (list "ALL") }}
{{- if and (include "mgpu.monitorsMig" .) (include "mgpu.hasNvidiaRuntime" .) }}
{{- $_ := set $capabilities "add" (list "SYS_ADMIN") }}
{{- end }}
{{- if $traces }}
{{- $_ := set $capabilities "add" (list "DAC_READ_SEARCH" "SYS_PTRACE") }}
{{- end }}
{{- $profile := dict
  "allowPrivilegeEscalation" false
  "capabilities" $capabilities
  "readOnlyRootFilesystem" true
  "runAsNonRoot" (and (not $root) (ne (int (dig "runAsUser" 1 $given)) 0))
  "runAsUser" (ternary 0 $user (not (empty $root)))
  "runAsGroup" (ternary 0 $user (not (empty $root)))
}}
{{- toYaml (mergeOverwrite $profile $given) }}
{{- end }}

{{- define "mgpu.mounts" -}}
- {name: settings, mountPath: /etc/mgpu-exporter/settings, readOnly: true}
{{- if include "mgpu.hasWebConfig" . }}
- {name: web, mountPath: /etc/mgpu-exporter/web, readOnly: true}
{{- end }}
{{- if .Values.web.tlsSecret }}
- {name: tls, mountPath: /etc/mgpu-exporter/tls, readOnly: true}
{{- end }}
{{- if not .Values.simulate }}
- name: cgroup
  mountPath: /host/sys/fs/cgroup
  readOnly: true
  {{- if semverCompare ">=1.33-0" .Capabilities.KubeVersion.Version }}
  recursiveReadOnly: IfPossible # under cgroup v1 each hierarchy is a mount below
  {{- end }}
{{- end }}
{{- if and .Values.passwd (not .Values.simulate) }}
- {name: passwd, mountPath: /host/passwd, readOnly: true}
{{- end }}
{{- if include "mgpu.readsPodResources" . }}
- {name: pod-resources, mountPath: /var/lib/kubelet/pod-resources, readOnly: true}
{{- end }}
{{- if include "mgpu.readsFiles" . }}
- {name: pod-logs, mountPath: /var/log/pods, readOnly: true}
- {name: container-logs, mountPath: /var/log/containers, readOnly: true}
{{- end }}
{{- if and (include "mgpu.asksKubelet" .) .Values.kubelet.caFile }}
- {name: kubelet-ca, mountPath: /host/kubelet-ca.crt, readOnly: true}
{{- end }}
{{- if eq (include "mgpu.gpuAccess" .) "hostPath" }}
- {name: driver, mountPath: /usr/local/nvidia/lib64, readOnly: true}
{{- end }}
{{- if eq (include "mgpu.gpuAccess" .) "volumeMounts" }}
- {name: devices, mountPath: {{ printf "%s/%s" (include "mgpu.deviceMounts" .) .Values.visibleDevices | quote }}, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mgpu.volumes" -}}
- name: settings
  configMap:
    name: {{ default (include "mgpu.fullname" .) .Values.existingConfigMap }}
{{- if include "mgpu.hasWebConfig" . }}
- name: web
  secret:
    secretName: {{ default (printf "%s-web" (include "mgpu.fullname" .)) .Values.web.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- with .Values.web.tlsSecret }}
- name: tls
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- if not .Values.simulate }}
- name: cgroup
  hostPath: {path: {{ .Values.cgroupRoot | quote }}, type: Directory}
{{- end }}
{{- if and .Values.passwd (not .Values.simulate) }}
- name: passwd
  hostPath: {path: {{ .Values.passwd | quote }}, type: File}
{{- end }}
{{- if include "mgpu.readsPodResources" . }}
- name: pod-resources
  hostPath: {path: {{ printf "%s/pod-resources" .Values.kubelet.rootDir | quote }}, type: Directory}
{{- end }}
{{- if include "mgpu.readsFiles" . }}
- name: pod-logs
  hostPath: {path: {{ printf "%s/pods" .Values.logRoot | quote }}, type: Directory}
- name: container-logs
  hostPath: {path: {{ printf "%s/containers" .Values.logRoot | quote }}, type: Directory}
{{- end }}
{{- if include "mgpu.asksKubelet" . }}
{{- with .Values.kubelet.caFile }}
- name: kubelet-ca
  hostPath: {path: {{ . | quote }}, type: File}
{{- end }}
{{- end }}
{{- if eq (include "mgpu.gpuAccess" .) "hostPath" }}
- name: driver
  hostPath: {path: {{ .Values.driverLibraries | quote }}, type: Directory}
{{- end }}
{{- if eq (include "mgpu.gpuAccess" .) "volumeMounts" }}
- name: devices
  hostPath: {path: /dev/null, type: CharDevice}
{{- end }}
{{- if and .Values.kubeRBACProxy.enabled .Values.kubeRBACProxy.tlsSecret }}
- name: proxy-tls
  secret: {secretName: {{ .Values.kubeRBACProxy.tlsSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A probe. Takes a dict: root, path, times. */}}
{{- define "mgpu.probeOf" -}}
{{- $port := include "mgpu.portName" .root }}
{{- $own := dict "httpGet" (dict "path" .path "port" $port "scheme" (include "mgpu.scheme" .root | upper)) }}
{{- if eq (include "mgpu.probe" .root) "tcp" }}
{{- $own = dict "tcpSocket" (dict "port" $port) }}
{{- end }}
{{- toYaml (merge $own (default dict .times)) }}
{{- end }}

{{- define "mgpu.proxy" -}}
- name: kube-rbac-proxy
  image: {{ include "mgpu.proxyImage" . | quote }}
  {{- with .Values.image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  args:
    - --secure-listen-address=:{{ .Values.kubeRBACProxy.port }}
    - --upstream=http://127.0.0.1:{{ include "mgpu.webPort" . }}/
    - --ignore-paths=/-/healthy,/-/ready
    {{- if .Values.kubeRBACProxy.tlsSecret }}
    - --tls-cert-file=/etc/tls/tls.crt
    - --tls-private-key-file=/etc/tls/tls.key
    {{- end }}
    - --v={{ .Values.kubeRBACProxy.logLevel }}
  ports:
    - {name: proxy, containerPort: {{ .Values.kubeRBACProxy.port }}, protocol: TCP}
  {{- with .Values.kubeRBACProxy.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL]}
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    runAsUser: {{ include "mgpu.proxyUser" . }}
    runAsGroup: {{ include "mgpu.proxyUser" . }}
  {{- if .Values.kubeRBACProxy.tlsSecret }}
  volumeMounts:
    - {name: proxy-tls, mountPath: /etc/tls, readOnly: true}
  {{- end }}
{{- end }}
