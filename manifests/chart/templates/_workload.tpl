{{/* Parts of pod templates that the components share. */}}

{{- define "gpu-tenure.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gpu-tenure.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Where a pod may run. Argument: the component's values. */}}
{{- define "gpu-tenure.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Environment variables of a component. Arguments: prefix, values (a map), more (another map, which wins). */}}
{{- define "gpu-tenure.env" -}}
{{- $prefix := .prefix }}
{{- range $name, $value := .values }}
{{- if not (hasKey $.more (printf "%s%s" $prefix $name)) }}
- name: {{ $prefix }}{{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}
{{- range $name, $value := .more }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}

{{/*
What a container may use: that of its values, or by the size of the cluster. Arguments: the root, the component. The reaper's memory grows with
the GPU pods and their series, the webhook's hardly with anything.
*/}}
{{- define "gpu-tenure.resources" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- $sizes := dict
  "webhook" (dict "small" (list "100m" "96Mi" "256Mi") "medium" (list "250m" "96Mi" "256Mi") "large" (list "500m" "128Mi" "384Mi"))
  "reaper" (dict "small" (list "100m" "192Mi" "768Mi") "medium" (list "200m" "384Mi" "1536Mi") "large" (list "500m" "1Gi" "3Gi"))
  "quota" (dict "small" (list "50m" "96Mi" "384Mi") "medium" (list "100m" "192Mi" "768Mi") "large" (list "200m" "384Mi" "1536Mi"))
  "certs" (dict "small" (list "10m" "64Mi" "192Mi") "medium" (list "10m" "64Mi" "192Mi") "large" (list "10m" "64Mi" "192Mi"))
}}
{{- $chosen := get (get $sizes $component) $root.Values.size }}
{{- with (get $root.Values $component).resources }}
{{- toYaml . }}
{{- else }}
requests: {cpu: {{ index $chosen 0 }}, memory: {{ index $chosen 1 }}}
limits: {memory: {{ index $chosen 2 }}}
{{- end }}
{{- end }}

{{/* The failure policy of /validate for GPU pods. Arguments: the root. */}}
{{- define "gpu-tenure.validatePolicy" -}}
{{- $choice := toString .Values.webhook.failClosed }}
{{- $closed := eq $choice "auto" | ternary .Release.IsUpgrade (eq $choice "true") }}
{{- and (eq .Values.profile "enforce") $closed | ternary "Fail" "Ignore" }}
{{- end }}
