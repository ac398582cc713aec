{{/* CEL expressions that several templates share. */}}

{{/*
The names of GPU resources, as fully matching RE2 patterns: devices, shares, MIG slices, and the companions by which
HAMi's users ask for a part of a device.
*/}}
{{- define "gpu-tenure.cel.resourcePattern" -}}
{{- $patterns := list
  `nvidia\.com/gpu`
  `nvidia\.com/gpu\.shared`
  `nvidia\.com/mig-[a-z0-9.+-]+`
  `nvidia\.com/gpumem`
  `nvidia\.com/gpumem-percentage`
  `nvidia\.com/gpucores`
  `amd\.com/gpu`
-}}
^({{ join "|" $patterns }})$
{{- end }}

{{/*
Whether a pod spec names a GPU resource in limits or requests of a container or init container.
The argument is the expression that gives the pod spec. Lists and maps longer than any honest pod's match unread, so that
neither the cost limit nor the API server's time depends on what somebody sends.
*/}}
{{- define "gpu-tenure.cel.isGPU" -}}
[{{ . }}.?containers, {{ . }}.?initContainers].exists(containers,
  optional.ofNonZeroValue(containers.orValue([])).hasValue() && (containers.value().size() > 300 || containers.value().exists(container,
    [container.?resources.?limits, container.?resources.?requests].exists(amounts,
      amounts.hasValue() && (amounts.value().size() > 16 || amounts.value().exists(name,
        name.contains('/') && name.matches(r'{{ include "gpu-tenure.cel.resourcePattern" . }}')))))))
{{- end }}
