{{/* Names, labels and lists that several templates share. */}}

{{- define "gpu-tenure.labels" -}}
app.kubernetes.io/name: gpu-tenure
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "gpu-tenure.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ printf "%s@%s" .repository .digest }}
{{- else }}{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}{{ end }}
{{- end }}
{{- end }}

{{/* The excluded namespaces with our own, sorted, as a JSON list: it reads as YAML and as CEL. */}}
{{- define "gpu-tenure.excluded" -}}
{{- append .Values.excludedNamespaces .Release.Namespace | uniq | sortAlpha | toJson }}
{{- end }}

{{- define "gpu-tenure.reaperUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:gpu-tenure-reaper
{{- end }}

{{/* A user name as the subject of a binding. */}}
{{- define "gpu-tenure.subject" -}}
{{- $parts := splitList ":" . }}
{{- if and (hasPrefix "system:serviceaccount:" .) (eq (len $parts) 4) -}}
kind: ServiceAccount
namespace: {{ index $parts 2 | quote }}
name: {{ index $parts 3 | quote }}
{{- else -}}
apiGroup: rbac.authorization.k8s.io
kind: User
name: {{ . | quote }}
{{- end }}
{{- end }}

{{/* The sources of requesters as the webhook reads them: CREATOR=PLACE:KEY, separated by commas. */}}
{{- define "gpu-tenure.requesterSources" -}}
{{- $sources := list -}}
{{- range .Values.requesterSources -}}
{{- $creator := .creator -}}
{{- range $place, $key := omit . "creator" -}}
{{- $sources = append $sources (printf "%s=%s:%s" $creator (kebabcase $place) $key) -}}
{{- end -}}
{{- end -}}
{{ join "," $sources }}
{{- end }}
