{{/*
What the guards share. They name their keys one by one and look them up with `?[]`: a loop over a pod's labels takes the
API server half a minute on a pod with very many, a look-up nothing. A variable never holds an optional: a selection from one finds
nothing, without an error.
*/}}

{{- define "gpu-tenure.guard.labels" -}}
["gpu-tenure.io/policy", "gpu-tenure.io/class", "gpu-tenure.io/idle-action", "gpu-tenure.io/idle-after",
 "gpu-tenure.io/idle-utilization", "gpu-tenure.io/idle-statistic", "gpu-tenure.io/idle-memory",
 "gpu-tenure.io/idle-grace", "gpu-tenure.io/idle-warm-up"]
{{- end }}

{{- define "gpu-tenure.guard.annotations" -}}
["gpu-tenure.io/deadline", "gpu-tenure.io/deadline-seconds", "gpu-tenure.io/asked", "gpu-tenure.io/idle-since",
 "gpu-tenure.io/reclaim-at", "gpu-tenure.io/warned-uid"]
{{- end }}

{{/* Whoever may update the virtual resource terms.gpu-tenure.io in the namespace is past the guards of terms. */}}
{{- define "gpu-tenure.guard.termsRight" -}}
authorizer.group('gpu-tenure.io').resource('terms').namespace(request.namespace).check('update').allowed()
{{- end }}

{{- define "gpu-tenure.guard.notExcluded" -}}
- name: not-excluded
  expression: |-
    !(request.?namespace.orValue("") in {{ include "gpu-tenure.excluded" . }})
{{- end }}

{{/* The binding of a guard. Arguments: root, name, and always: "Deny" for the guards that refuse in every profile. */}}
{{- define "gpu-tenure.guard.binding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "gpu-tenure.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: {{ or .always (ne .root.Values.profile "observe") | ternary "[Deny]" "[Warn, Audit]" }}
{{- end }}
