{{/* The seconds of a duration of the values, such as 1d12h. Argument: its text. */}}
{{- define "gpu-tenure.seconds" -}}
{{- $text := . }}
{{- $seconds := 0 }}
{{- range $unit, $size := dict "d" 86400 "h" 3600 "m" 60 "s" 1 }}
{{- $count := regexFind (printf "[1-9][0-9]*%s" $unit) $text | trimSuffix $unit | default "0" }}
{{- $seconds = add $seconds (mul $size (int64 $count)) }}
{{- end }}
{{- $seconds }}
{{- end }}

{{/* A setting of a component in seconds: that of its environment, or of its values. Arguments: values, key, name of the variable. */}}
{{- define "gpu-tenure.settingSeconds" -}}
{{- $values := index . 0 }}
{{- include "gpu-tenure.seconds" (get $values.env (index . 2) | default (get $values (index . 1)) | toString) }}
{{- end }}

{{/*
Limits of rules that depend on values, by alert or recording: what the file has, and what it becomes. With the defaults both are the same number: a
certificate may not be told to end soon before it is due, nor a cycle to be late before it has begun.
*/}}
{{- define "gpu-tenure.limits" -}}
{{- $certs := .Values.certs }}
{{- $leaf := include "gpu-tenure.settingSeconds" (list $certs "leafRenew" "GPU_TENURE_CERTS_LEAF_RENEW") | int64 }}
{{- $ca := include "gpu-tenure.settingSeconds" (list $certs "caRenew" "GPU_TENURE_CERTS_CA_RENEW") | int64 }}
{{- $cycle := include "gpu-tenure.settingSeconds" (list .Values.reaper "cycle" "GPU_TENURE_REAPER_CYCLE") | int64 }}
{{- $served := include "gpu-tenure.seconds" .Values.rules.certificateLeft | int64 }}
{{- if eq .Values.tls.source "certs" }}
{{- $served = min $served (div $leaf 4) }}
{{- end }}
GPUTenureCertificateExpires: ["14 * 86400", "{{ min 1209600 (div $leaf 2) }}"]
GPUTenureCertificateUntrusted: ["< 86400", "< {{ min 86400 (div $ca 2) }}"]
GPUTenureServingCertificateExpires: ["7 * 86400", "{{ $served }}"]
GPUTenureReaperWithoutCycle: ["> 900", "> {{ max 900 (mul 15 $cycle) }}"]
cluster:gpu_tenure_reaper_pods_without_terms:sum: ["- 900", "- {{ max 900 (mul 15 $cycle) }}"]
{{- end }}
