{{/* CEL expressions that several templates share. */}}

{{/*
Whether the variable `name` is the name of a GPU resource. The rows of `gpuResources` are tried before the built-in ones, in
their order; a row of the unit `nothing` takes names out. The argument is the root.
*/}}
{{- define "gpu-tenure.cel.isGPUName" -}}
{{- $test := include "gpu-tenure.cel.isBuiltInGPUName" . -}}
{{- range reverse .Values.gpuResources -}}
{{- $row := include "gpu-tenure.cel.matches" .pattern -}}
{{- if eq .unit "nothing" -}}
{{- $test = printf "!(%s) && (\n%s)" $row $test -}}
{{- else -}}
{{- $test = printf "%s ||\n%s" $row $test -}}
{{- end -}}
{{- end -}}
name.contains('/') && (
{{ $test }})
{{- end }}

{{/* Whether the variable `name` matches a pattern, tried only on names that begin like it: patterns are expensive. */}}
{{- define "gpu-tenure.cel.matches" -}}
{{- $begin := contains "|" . | ternary "" (regexFind "^([A-Za-z0-9/_-]|\\\\[.])*" .) -}}
{{- if regexMatch "^[?*{]" (trimPrefix $begin .) }}{{ $begin = regexReplaceAll "\\\\?.$" $begin "" }}{{ end -}}
{{- with $begin }}name.startsWith({{ replace "\\." "." . | quote }}) && {{ end }}name.matches(r'^(?s:{{ . }})$')
{{- end }}

{{/*
Whether pods ask for a GPU, or might: by a resource of a container or init container, of the pod as a whole or of its overhead,
by an annotation, or by claims, whose devices only the webhook can look up. Arguments: the root, and the expression that gives
the object or template with `metadata` and `spec`.

More than any honest pod has matches unread, so that neither the cost limit nor the API server's time depends on what somebody
sends: lists and maps are counted before they are read, and then names of vendors, for only those are expensive to try. A name in
requests that stands in limits too is tried once.
*/}}
{{- define "gpu-tenure.cel.isGPU" -}}
{{- if kindIs "string" . }}{{ fail "gpu-tenure.cel.isGPU takes (list $ EXPRESSION), where EXPRESSION has metadata and spec" }}{{ end -}}
{{- $root := index . 0 -}}
{{- $pod := index . 1 -}}
{{- $name := include "gpu-tenure.cel.isGPUName" $root -}}
{{- $all := printf "dyn({\"resources\": %s.?spec.?resources.orValue({})})" $pod -}}
{{- $overhead := printf "dyn({\"resources\": {\"limits\": %s.?spec.?overhead.orValue({})}})" $pod -}}
[{{ $pod }}.?spec.?containers, {{ $pod }}.?spec.?initContainers, optional.of(dyn([{{ $all }}, {{ $overhead }}]))].exists(containers,
  optional.ofNonZeroValue(containers.orValue([])).hasValue() && (containers.value().size() > 500 ||
    containers.value().exists(container, container.?resources.?limits.orValue({}).size() > 64 ||
      container.?resources.?requests.orValue({}).size() > 64) ||
    containers.value().map(container, container.?resources.?limits.orValue({}).size() +
      container.?resources.?requests.orValue({}).size()).sum() > 4000 ||
    containers.value().map(container,
      container.?resources.?limits.orValue({}).filter(name, name.contains('/')).size() +
      container.?resources.?requests.orValue({}).filter(name, name.contains('/') &&
        !(name in container.?resources.?limits.orValue({}))).size()).sum() > 500 ||
    containers.value().exists(container, [[container.?resources.?limits.orValue({}), dyn({})],
        [container.?resources.?requests.orValue({}), container.?resources.?limits.orValue({})]].exists(amounts,
      amounts[0].exists(name, !(name in amounts[1]) && (
        {{- $name | nindent 8 }})))))) ||
{{- range include "gpu-tenure.gpuAnnotations" $root | fromJsonArray }}
{{ $pod }}.?metadata.?annotations[?{{ . | quote }}].hasValue() ||
{{- end }}
optional.ofNonZeroValue({{ $pod }}.?spec.?resourceClaims.orValue([])).hasValue()
{{- end }}
