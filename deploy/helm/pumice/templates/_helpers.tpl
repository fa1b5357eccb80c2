{{- define "pumice.labels" -}}
app.kubernetes.io/name: pumice
app.kubernetes.io/part-of: pumice
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "pumice.selector" -}}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .service }}
{{- end }}

{{- /* What a service is told: what all are told, and what follows from the values; its own env wins. */ -}}
{{- define "pumice.env" -}}
{{- $values := .root.Values }}
{{- $env := dict
  "PUMICE_LOG" (printf "kafka://%s" $values.kafka.bootstrapServers)
  "PUMICE_OPERATIONS_PORT" "9090"
  "PUMICE_LOG_JSON" "true" }}
{{- if $values.kafka.tls }}{{ $_ := set $env "PUMICE_KAFKA_TLS" "true" }}{{ end }}
{{- if $values.kafka.caSecret }}{{ $_ := set $env "PUMICE_KAFKA_CA_FILE" "/etc/pumice/kafka-ca/ca.crt" }}{{ end }}
{{- if $values.kafka.username }}
{{- $_ := set $env "PUMICE_KAFKA_USERNAME" $values.kafka.username }}
{{- $_ := set $env "PUMICE_KAFKA_PASSWORD_FILE" "/etc/pumice/kafka-password/password" }}
{{- $_ := set $env "PUMICE_KAFKA_MECHANISM" $values.kafka.mechanism }}
{{- end }}
{{- if $values.telemetry.otlpEndpoint }}
{{- $_ := set $env "OTEL_EXPORTER_OTLP_ENDPOINT" $values.telemetry.otlpEndpoint }}
{{- end }}
{{- if eq .service "gateway" }}{{ $_ := set $env "PUMICE_HOST" "0.0.0.0" }}{{ end }}
{{- if and (eq .service "admission") $values.webhooks.enabled }}
{{- $_ := set $env "PUMICE_WEBHOOK_PORT" "8443" }}
{{- $_ := set $env "PUMICE_WEBHOOK_NAMES" (printf "[\"pumice-admission.%s.svc\"]" .root.Release.Namespace) }}
{{- $_ := set $env "PUMICE_WEBHOOK_NAMESPACE" .root.Release.Namespace }}
{{- if $values.webhooks.certManager.enabled }}
{{- $_ := set $env "PUMICE_WEBHOOK_CERTIFICATE_FILE" "/etc/pumice/webhook/tls.crt" }}
{{- $_ := set $env "PUMICE_WEBHOOK_KEY_FILE" "/etc/pumice/webhook/tls.key" }}
{{- $_ := set $env "PUMICE_WEBHOOK_CONFIGURATION" "" }}
{{- end }}
{{- end }}
{{- range $name, $value := merge (dict) .settings.env $values.env $env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
