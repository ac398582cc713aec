{{/* What the reaper's container needs for alerts, out and in: settings, and the Secrets that they lie in. */}}

{{/* Settings by their names, as JSON; those of keys that the Secret is not said to have are left out. */}}
{{- define "gpu-tenure.alertSettings" -}}
{{- $found := dict "ALERTMANAGER_URLS" (join "," .alertmanager.urls) }}
{{- with .alertmanager.labels }}
{{- $labels := list }}
{{- range $name, $value := . }}{{ $labels = append $labels (printf "%s=%s" $name $value) }}{{ end }}
{{- $_ := set $found "ALERT_LABELS" (join "," $labels) }}
{{- end }}
{{- with .alertmanager.username }}{{ $_ := set $found "ALERTMANAGER_USERNAME" . }}{{ end }}
{{- $names := dict "token" "BEARER_TOKEN" "password" "PASSWORD" "ca" "CA" "cert" "CERT" "key" "KEY" }}
{{- range $kind, $key := .alertmanager.keys }}
{{- if $key }}
{{- if not $.alertmanager.secretName }}{{ fail "reaper.alertmanager.keys counts only with reaper.alertmanager.secretName" }}{{ end }}
{{- $_ := set $found (printf "ALERTMANAGER_%s_FILE" (get $names $kind)) (printf "/etc/gpu-tenure/alertmanager/%s" $key) }}
{{- end }}
{{- end }}
{{- if .receiver.tokenSecretName }}
{{- $_ := set $found "RECEIVER_TOKEN_FILE" "/etc/gpu-tenure/receiver/token" }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- define "gpu-tenure.alertMounts" -}}
{{- with .alertmanager.secretName }}
- {name: alertmanager, mountPath: /etc/gpu-tenure/alertmanager, readOnly: true}
{{- end }}
{{- with .receiver.tokenSecretName }}
- {name: receiver, mountPath: /etc/gpu-tenure/receiver, readOnly: true}
{{- end }}
{{- end }}

{{- define "gpu-tenure.alertVolumes" -}}
{{- with .alertmanager.secretName }}
- name: alertmanager
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .receiver.tokenSecretName }}
- name: receiver
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
