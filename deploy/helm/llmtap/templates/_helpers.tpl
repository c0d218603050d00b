{{- define "llmtap.external" -}}
{{- if and .Values.nats.url .Values.clickhouse.dsn }}true{{ else if or .Values.nats.url .Values.clickhouse.dsn }}{{ fail "set both nats.url and clickhouse.dsn, or neither: pods cannot share embedded servers" }}{{ end -}}
{{- end }}

{{- define "llmtap.labels" -}}
{{ include "llmtap.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "llmtap.selector" -}}
app.kubernetes.io/name: llmtap
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The configuration: that of this chart, then .Values.config. */}}
{{- define "llmtap.config" -}}
{{- $token := dict "token_file" "/etc/llmtap/secrets/llmtap-token" }}
{{- $agents := "/etc/llmtap/secrets/agents-token" }}
{{- $c := dict
  "data_dir" "/var/lib/llmtap"
  "listen" "0.0.0.0:8088"
  "http" $token
  "ui" (merge (dict "listen" "0.0.0.0:8090") $token)
  "proxy" (dict "listen" "0.0.0.0:8089" "token_file" $agents)
  "receive" (dict "listen" "0.0.0.0:4318" "grpc_listen" "0.0.0.0:4317" "token_file" $agents) }}
{{- if include "llmtap.external" . }}
{{- $_ := set $c "partitions" .Values.partitions }}
{{- $_ := set $c "nats" (dict "url" .Values.nats.url "replicas" 3 "user" .Values.nats.user "password_file" "/etc/llmtap/secrets/nats-password") }}
{{- $_ := set $c "clickhouse" (dict "dsn" .Values.clickhouse.dsn "password_file" "/etc/llmtap/secrets/clickhouse-password") }}
{{- else }}
{{- $_ := set $c "nats_server" (dict "host" "0.0.0.0" "token_file" $agents) }}
{{- end }}
{{- if .Values.tlsSecretName }}
{{- $_ := set $c "tls" (dict "cert_file" "/etc/llmtap/tls/tls.crt" "key_file" "/etc/llmtap/tls/tls.key") }}
{{- end }}
{{- toYaml (mergeOverwrite $c .Values.config) }}
{{- end }}

{{/* The pod of a role, or of all roles if .role is empty. */}}
{{- define "llmtap.pod" -}}
{{- $v := .root.Values -}}
metadata:
  labels:
    {{- include "llmtap.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role | default "all" }}
  annotations:
    checksum/config: {{ include "llmtap.config" .root | sha256sum }}
    {{- with $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 60
  {{- with $v.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: llmtap
      image: "{{ $v.image.repository }}:{{ $v.image.tag | default .root.Chart.AppVersion }}"
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: [up, --config, /etc/llmtap/llmtap.yaml{{ with .role }}, --roles, {{ . }}{{ end }}]
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      ports:
        - {name: http, containerPort: 8088}
        {{- range include "llmtap.ports" .role | fromYamlArray }}
        - {name: {{ .name }}, containerPort: {{ .port }}}
        {{- end }}
      startupProbe: # the first start prepares the tables
        httpGet: {path: /healthz, port: http{{ if $v.tlsSecretName }}, scheme: HTTPS{{ end }}}
        periodSeconds: 2
        failureThreshold: 90
      livenessProbe:
        httpGet: {path: /healthz, port: http{{ if $v.tlsSecretName }}, scheme: HTTPS{{ end }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http{{ if $v.tlsSecretName }}, scheme: HTTPS{{ end }}}
        periodSeconds: 5
        timeoutSeconds: 5
      resources: {{- toYaml .resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/llmtap/llmtap.yaml, subPath: llmtap.yaml, readOnly: true}
        - {name: secrets, mountPath: /etc/llmtap/secrets, readOnly: true}
        {{- if $v.tlsSecretName }}
        - {name: tls, mountPath: /etc/llmtap/tls, readOnly: true}
        {{- end }}
        - {name: data, mountPath: /var/lib/llmtap}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: config
      configMap: {name: {{ .root.Release.Name }}}
    - name: secrets
      secret: {secretName: {{ $v.secretName }}, defaultMode: 0440}
    {{- if $v.tlsSecretName }}
    - name: tls
      secret: {secretName: {{ $v.tlsSecretName }}, defaultMode: 0440}
    {{- end }}
    {{- if .role }}
    - name: data
      emptyDir: {}
    {{- end }}
    - name: tmp
      emptyDir: {}
  {{- with $v.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .role }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "llmtap.selector" .root | nindent 10 }}
          app.kubernetes.io/component: {{ .role }}
  {{- end }}
{{- end }}

{{/* The ports of a role besides http, or of all roles. */}}
{{- define "llmtap.ports" -}}
{{- if not . }}
- {name: nats, port: 4222}
{{- end }}
{{- if or (not .) (eq . "proxy") }}
- {name: proxy, port: 8089}
{{- end }}
{{- if or (not .) (eq . "ui") }}
- {name: ui, port: 8090}
{{- end }}
{{- if or (not .) (eq . "receive") }}
- {name: events, port: 4318}
- {name: otlp-grpc, port: 4317}
{{- end }}
{{- end }}
