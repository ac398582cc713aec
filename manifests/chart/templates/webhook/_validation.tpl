{{/* The webhooks of the validating configuration beside that of pods. */}}

{{/* What they share. Arguments: root, name, failurePolicy. */}}
{{- define "gpu-tenure.validation.head" -}}
name: {{ .name }}
admissionReviewVersions: [v1]
clientConfig:
  {{- include "gpu-tenure.clientConfig" (dict "root" .root "path" "/validate") | nindent 2 }}
failurePolicy: {{ .failurePolicy }}
matchPolicy: Equivalent
sideEffects: NoneOnDryRun
timeoutSeconds: {{ .root.Values.webhook.timeoutSeconds.validate }}
namespaceSelector:
  {{- include "gpu-tenure.namespaceSelector" .root | nindent 2 }}
{{- end }}

{{/* The images of containers, as a list. Arguments: the object and the field. */}}
{{- define "gpu-tenure.cel.imagesOf" -}}
{{ index . 0 }}.?spec.?{{ index . 1 }}.orValue([]).map(container, container.?image.orValue(""))
{{- end }}

{{- define "gpu-tenure.validation" -}}
# Images that change while a pod runs. Nothing that already runs may ever hang on us: no answer lets it pass.
- {{ include "gpu-tenure.validation.head" (dict "root" . "name" "images.validate.gpu-tenure.io" "failurePolicy" "Ignore") | nindent 2 | trim }}
  rules:
    - apiGroups: [""]
      apiVersions: [v1]
      resources: [pods, pods/ephemeralcontainers]
      operations: [UPDATE]
      scope: Namespaced
  matchConditions:
    # Kubelets and controllers write pods all the time; of all that only this is of interest.
    - name: image-changed
      expression: |-
        {{- range $index, $field := list "containers" "initContainers" "ephemeralContainers" }}
        {{ if $index }}|| {{ end }}{{ include "gpu-tenure.cel.imagesOf" (list "object" $field) }} !=
          {{ include "gpu-tenure.cel.imagesOf" (list "oldObject" $field) }}
        {{- end }}
    - name: gpu-pods
      expression: |-
        {{- include "gpu-tenure.cel.isGPU" (list $ "object") | nindent 8 }}
# Rights are asked for on what a person sends. What controllers make of it was asked about then. Only GPU pods ever wait for us,
# and those by choice: without an answer a workload passes.
{{- range $shape, $rules := include "gpu-tenure.validatedRules" $ | fromJson }}
- {{ include "gpu-tenure.validation.head" (dict "root" $ "name" (printf "%s.validate.gpu-tenure.io" $shape) "failurePolicy" "Ignore") | nindent 2 | trim }}
  rules:
    {{- range $rules }}
    - apiGroups: {{ toJson .apiGroups }}
      apiVersions: {{ toJson .apiVersions }}
      resources: {{ toJson .resources }}
      operations: [CREATE]
      scope: Namespaced
    {{- end }}
  matchConditions:
    - name: not-by-controllers
      expression: |-
        !(request.userInfo.username in {{ toJson $.Values.trustedControllers }})
    - name: gpu-templates
      expression: |-
        {{- if eq $shape "jobs" }}
        {{- include "gpu-tenure.cel.isGPU" (list $ "object.?spec.?template") | nindent 8 }}
        {{- else }}
        {{- include "gpu-tenure.cel.makesGPU" (list $ $shape) | nindent 8 }}
        {{- end }}
{{- end }}
{{- end }}

{{/* The kinds whose creation is checked, by the shape of their specifications, as JSON. */}}
{{- define "gpu-tenure.validatedRules" -}}
{{- $jobs := list (dict "apiGroups" (list "batch") "apiVersions" (list "v1") "resources" (list "jobs")) -}}
{{ set (include "gpu-tenure.workloadRules" . | fromJson) "jobs" $jobs | toJson }}
{{- end }}
