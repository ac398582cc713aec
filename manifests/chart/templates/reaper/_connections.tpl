{{/* What the reaper's container needs for Prometheus and for alerts, out and in: settings, and the Secrets that they lie in. */}}

{{/* User and files of a Secret by the names of settings, as JSON. Arguments: `name` of the block under reaper, and the block in `of`. */}}
{{- define "gpu-tenure.secretSettings" -}}
{{- $found := dict }}
{{- $name := .name }}
{{- $of := .of }}
{{- with $of.username }}{{ $_ := set $found (printf "%s_USERNAME" ($name | upper)) . }}{{ end }}
{{- $names := dict "token" "BEARER_TOKEN" "password" "PASSWORD" "ca" "CA" "cert" "CERT" "key" "KEY" }}
{{- range $kind, $key := $of.keys }}
{{- if $key }}
{{- if not $of.secretName }}{{ fail (printf "reaper.%s.keys counts only with reaper.%s.secretName" $name $name) }}{{ end }}
{{- $_ := set $found (printf "%s_%s_FILE" ($name | upper) (get $names $kind)) (printf "/etc/gpu-tenure/%s/%s" $name $key) }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- define "gpu-tenure.prometheusSettings" -}}
{{- $found := include "gpu-tenure.secretSettings" (dict "name" "prometheus" "of" .prometheus) | fromJson }}
{{- with .prometheus.headers }}{{ $_ := set $found "PROMETHEUS_HEADERS" (toJson .) }}{{ end }}
{{- toJson $found }}
{{- end }}

{{/* Settings by their names, as JSON; those of keys that the Secret is not said to have are left out. */}}
{{- define "gpu-tenure.alertSettings" -}}
{{- $found := dict "ALERTMANAGER_URLS" (join "," .alertmanager.urls) }}
{{- with .alertmanager.labels }}
{{- $labels := list }}
{{- range $name, $value := . }}{{ $labels = append $labels (printf "%s=%s" $name $value) }}{{ end }}
{{- $_ := set $found "ALERT_LABELS" (join "," $labels) }}
{{- end }}
{{- $found = merge $found (include "gpu-tenure.secretSettings" (dict "name" "alertmanager" "of" .alertmanager) | fromJson) }}
{{- if .receiver.tokenSecretName }}
{{- $_ := set $found "RECEIVER_TOKEN_FILE" "/etc/gpu-tenure/receiver/token" }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- define "gpu-tenure.secretMounts" -}}
{{- with .prometheus.secretName }}
- {name: prometheus, mountPath: /etc/gpu-tenure/prometheus, readOnly: true}
{{- end }}
{{- with .alertmanager.secretName }}
- {name: alertmanager, mountPath: /etc/gpu-tenure/alertmanager, readOnly: true}
{{- end }}
{{- with .receiver.tokenSecretName }}
- {name: receiver, mountPath: /etc/gpu-tenure/receiver, readOnly: true}
{{- end }}
{{- end }}

{{- define "gpu-tenure.secretVolumes" -}}
{{- with .prometheus.secretName }}
- name: prometheus
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .alertmanager.secretName }}
- name: alertmanager
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .receiver.tokenSecretName }}
- name: receiver
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
