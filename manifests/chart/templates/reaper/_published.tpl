{{/*
What everybody may know of how the reaper plans: variables of its environment as JSON, those of reaper/published.py and no others, because
`reaper.env` may hold anything. A run of the CronJob has no quiet time.
*/}}
{{- define "gpu-tenure.reaperSettings" -}}
{{- $prefix := "GPU_TENURE_REAPER_" }}
{{- $found := dict
  (print $prefix "STOP") (toString .Values.reaper.stop.enabled)
  (print $prefix "STOP_KINDS") (toJson .Values.reaper.stop.kinds)
  (print $prefix "ON_PRESSURE") (toString .Values.reaper.onPressure)
}}
{{- $names := list "ACTIONS_PER_CYCLE" "ACTIONS_PER_NAMESPACE" "ACTIONS_PER_OWNER" "BUDGET_WAIT" "DEVICE_PERCENT" "DEVICE_SPAN" "IDLE_VERDICTS"
  "ON_PRESSURE" "OWNER_SPAN" "QUIET" "REFUSAL_WAIT" "SNOOZE" "STOP" "STOP_KINDS" }}
{{- range $name, $value := .Values.reaper.env }}
{{- if has (trimPrefix $prefix $name) $names }}{{ $_ := set $found $name (toString $value) }}{{ end }}
{{- end }}
{{- if eq .Values.reaper.mode "CronJob" }}{{ $_ := set $found (print $prefix "QUIET") "0s" }}{{ end }}
{{- toJson $found }}
{{- end }}
