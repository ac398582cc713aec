{{/*
How the reaper stops owners, for its guard and its rights: the built-in kinds as reaper/stopways.py has them, and the chart's own.
A field is a JSON pointer below /spec, at most two keys deep, or an annotation.
*/}}

{{- define "gpu-tenure.stop.ways" -}}
{{- $ways := list }}
{{- if .Values.reaper.stop.enabled }}
{{- range list "deployments" "replicasets" "statefulsets" }}
{{- $ways = append $ways (dict "apiGroup" "apps" "resource" . "field" "/spec/replicas" "value" 0) }}
{{- end }}
{{- $ways = append $ways (dict "apiGroup" "batch" "resource" "jobs" "field" "/spec/suspend" "value" true) }}
{{- $notebook := "/metadata/annotations/kubeflow-resource-stopped" }}
{{- $ways = append $ways (dict "apiGroup" "kubeflow.org" "resource" "notebooks" "field" $notebook "value" "{time}") }}
{{- $ways = append $ways (dict "apiGroup" "kueue.x-k8s.io" "resource" "workloads" "field" "/spec/active" "value" false) }}
{{- $ways = concat $ways .Values.reaper.stop.kinds }}
{{- end }}
{{- toJson $ways }}
{{- end }}

{{/* The ways of kinds that are not built into Kubernetes, as a JSON list. */}}
{{- define "gpu-tenure.stop.others" -}}
{{- $others := list }}
{{- range include "gpu-tenure.stop.ways" . | fromJsonArray }}
{{- if not (has .apiGroup (list "apps" "batch")) }}
{{- $others = append $others . }}
{{- end }}
{{- end }}
{{- toJson $others }}
{{- end }}

{{/* Annotations that stop, by "group/resource/", as a CEL map. */}}
{{- define "gpu-tenure.stop.annotations" -}}
{{- $found := dict }}
{{- range include "gpu-tenure.stop.ways" . | fromJsonArray }}
{{- $keys := splitList "/" .field }}
{{- if eq (index $keys 1) "metadata" }}
{{- $key := index $keys 3 | replace "~1" "/" | replace "~0" "~" }}
{{- $target := printf "%s/%s/" .apiGroup .resource }}
{{- $_ := set $found $target (append (get $found $target | default list) $key) }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{/* Fields of the spec that may change, by "group/resource/", as a CEL map. */}}
{{- define "gpu-tenure.stop.fields" -}}
{{- $found := dict }}
{{- if .Values.reaper.backfill.deadline }}
{{- $found = dict "/pods/" (list "activeDeadlineSeconds") "batch/jobs/" (list "activeDeadlineSeconds") }}
{{- end }}
{{- range include "gpu-tenure.stop.ways" . | fromJsonArray }}
{{- $keys := splitList "/" .field }}
{{- if eq (index $keys 1) "spec" }}
{{- $target := printf "%s/%s/" .apiGroup .resource }}
{{- $_ := set $found $target (append (get $found $target | default list) (index $keys 2)) }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{/* Whether a way's field of the spec is unchanged or set to its value, and its neighbours are as they were. */}}
{{- define "gpu-tenure.stop.value" -}}
{{- $keys := splitList "/" .field }}
{{- $first := index $keys 2 | toJson }}
{{- if eq (len $keys) 3 -}}
variables.spec[?{{ $first }}] == variables.oldSpec[?{{ $first }}] ||
        variables.spec[?{{ $first }}] == optional.of(dyn({{ toJson .value }}))
{{- else -}}
{{- $second := index $keys 3 | toJson -}}
{{- $new := printf "dyn(variables.spec[?%s].orValue({}))" $first -}}
{{- $old := printf "dyn(variables.oldSpec[?%s].orValue({}))" $first -}}
{{ $new }}.all(key, key in {{ $old }} && {{ $new }}[key] == {{ $old }}[key] ||
          key == {{ $second }} && {{ $new }}[key] == dyn({{ toJson .value }})) &&
        {{ $old }}.all(key, key in {{ $new }})
{{- end }}
{{- end }}
