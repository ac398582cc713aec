{{/* CEL expressions that several templates share. */}}

{{/*
Whether the variable `name` is the name of a GPU resource: a device, a share, a MIG slice, or one of the companions by which
HAMi's users ask for a part of a device. Plain names are looked up in a list, and a pattern is only tried behind its literal
beginning, because the cost of a pattern grows with both its own and the name's length.
*/}}
{{- define "gpu-tenure.cel.isGPUName" -}}
{{- $names := list
  "nvidia.com/gpu"
  "nvidia.com/gpu.shared"
  "nvidia.com/gpumem"
  "nvidia.com/gpumem-percentage"
  "nvidia.com/gpucores"
  "amd.com/gpu"
-}}
{{- $patterns := list
  (list "nvidia.com/mig-" `nvidia\.com/mig-[a-z0-9.+-]+`)
-}}
{{- $tests := list (printf "name in %s" (toJson $names)) -}}
{{- range $patterns -}}
{{- $tests = append $tests (printf "name.startsWith(%q) && name.matches(r'^(%s)$')" (index . 0) (index . 1)) -}}
{{- end -}}
{{ join " ||\n" $tests }}
{{- end }}

{{/*
Whether a pod spec names a GPU resource in limits or requests of a container or init container.
The argument is the expression that gives the pod spec. Lists and maps longer than any honest pod's match unread, so that
neither the cost limit nor the API server's time depends on what somebody sends.
*/}}
{{- define "gpu-tenure.cel.isGPU" -}}
[{{ . }}.?containers, {{ . }}.?initContainers].exists(containers,
  optional.ofNonZeroValue(containers.orValue([])).hasValue() && (containers.value().size() > 100 ||
    containers.value().exists(container,
      [container.?resources.?limits, container.?resources.?requests].exists(amounts,
        amounts.hasValue() && (amounts.value().size() > 16 || amounts.value().exists(name,
          {{- include "gpu-tenure.cel.isGPUName" . | nindent 10 }}))))))
{{- end }}
