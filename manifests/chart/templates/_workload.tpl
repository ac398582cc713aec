{{/* Parts of the Deployments that both components share. */}}

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
