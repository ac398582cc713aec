{{/* The reaper's pod template, for its Deployment and its CronJob. Arguments: the root, the arguments of the container. */}}
{{- define "gpu-tenure.reaperPod" -}}
{{- $args := index . 1 }}
{{- $once := has "--once" $args }}
{{- with index . 0 }}
metadata:
  labels:
    {{- include "gpu-tenure.labels" . | nindent 4 }}
    app.kubernetes.io/component: reaper
spec:
  serviceAccountName: gpu-tenure-reaper
  {{- if $once }}
  restartPolicy: Never
  {{- end }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  securityContext:
    {{- include "gpu-tenure.podSecurity" . | nindent 4 }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "gpu-tenure.placement" .Values.reaper | nindent 2 }}
  containers:
    - name: reaper
      image: {{ include "gpu-tenure.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: {{ toJson $args }}
      env:
        {{- $values := dict
          "PROFILE" .Values.profile
          "DRY_RUN" .Values.reaper.dryRun
          "PROMETHEUS_URL" .Values.reaper.prometheusURL
          "CYCLE" .Values.reaper.cycle
          "LEASE_NAMESPACE" .Release.Namespace
          "OPS_PORT" 9443
          "PROTECT_METRICS" .Values.metrics.protected
          "LOG_FORMAT" "json"
          "LOG_LEVEL" .Values.reaper.logLevel
          "AUDIT_LOG" .Values.reaper.auditLog
          "LOGS_URL_TEMPLATE" .Values.reaper.logsURLTemplate
          "EXCLUDED_NAMESPACES" (include "gpu-tenure.excluded" . | fromJsonArray | join ",")
          "TRUSTED_CONTROLLERS" (join "," .Values.trustedControllers)
          "GPU_RESOURCES" (toJson .Values.gpuResources)
          "SOURCES" (toJson .Values.reaper.sources)
          "STOP" .Values.reaper.stop.enabled
          "STOP_KINDS" (toJson .Values.reaper.stop.kinds)
          "ON_PRESSURE" .Values.reaper.onPressure
          "BACKFILL" .Values.reaper.backfill.enabled
          "BACKFILL_DEADLINE" .Values.reaper.backfill.deadline
        }}
        {{- $values = merge $values (include "gpu-tenure.prometheusSettings" .Values.reaper | fromJson) }}
        {{- $values = merge $values (include "gpu-tenure.alertSettings" .Values.reaper | fromJson) }}
        {{- include "gpu-tenure.env" (dict "prefix" "GPU_TENURE_REAPER_" "values" $values "more" .Values.reaper.env) | nindent 8 }}
      {{- if not $once }}
      ports:
        - {name: ops, containerPort: 9443}
      readinessProbe:
        httpGet: {path: /readyz, port: ops}
        periodSeconds: 10
      livenessProbe:
        httpGet: {path: /healthz, port: ops}
        periodSeconds: 30
      startupProbe:
        httpGet: {path: /healthz, port: ops}
        periodSeconds: 2
        failureThreshold: 60
      {{- end }}
      resources:
        {{- include "gpu-tenure.resources" (list . "reaper") | nindent 8 }}
      securityContext:
        {{- include "gpu-tenure.containerSecurity" . | nindent 8 }}
      {{- with include "gpu-tenure.secretMounts" .Values.reaper | trim }}
      volumeMounts:
        {{- . | nindent 8 }}
      {{- end }}
  {{- with include "gpu-tenure.secretVolumes" .Values.reaper | trim }}
  volumes:
    {{- . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
