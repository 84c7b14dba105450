{{/* Names, labels, and what the chart knows of the settings. */}}

{{- define "observer.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "observer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "observer.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "observer.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Cluster-wide objects carry the namespace, so that two releases never share one. */}}
{{- define "observer.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "observer.fullname" .) -}}
{{- end -}}

{{- define "observer.selector" -}}
app.kubernetes.io/name: {{ include "observer.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "observer.labels" -}}
{{ include "observer.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "observer.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "observer.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is empty and serviceAccount.create is false: name one, or let the chart make it" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "observer.tokenSecret" -}}
{{- default (printf "%s-token" (include "observer.fullname" .)) .Values.auth.token.existingSecret -}}
{{- end -}}

{{- define "observer.certificateSecret" -}}
{{- if eq .Values.certificates.mode "existingSecret" -}}
{{- required "certificates.existingSecret.name is empty: name the Secret, or choose certManager or selfManaged" .Values.certificates.existingSecret.name -}}
{{- else -}}
{{- printf "%s-serving" (include "observer.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "observer.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The address of the plain listener's Service. */}}
{{- define "observer.address" -}}
{{- printf "%s://%s.%s.svc:%v" (include "observer.httpScheme" .) (include "observer.fullname" .) .Release.Namespace (int .Values.service.port) -}}
{{- end -}}

{{/* The kinds of the chosen platforms that may be read, as JSON {"items": [{name, group, plural}]}. */}}
{{- define "observer.kinds" -}}
{{- $kinds := list -}}
{{- range $platform, $all := .Files.Get "files/platforms.json" | fromJson -}}
{{- if get $.Values.platforms $platform -}}
{{- range $kind := $all -}}
{{- if ne (toString (get $.Values.informers $kind.name)) "false" }}{{ $kinds = append $kinds $kind }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "items" $kinds | toJson -}}
{{- end -}}

{{/* The whole Settings document as JSON: what the chart knows, and over it what `settings` says. */}}
{{- define "observer.settings" -}}
{{- $kubernetes := dict
  "namespace" .Release.Namespace
  "shards" (int .Values.shards)
  "lease" (dict "name" (include "observer.fullname" .))
  "watch" (dict "namespaces" .Values.watch.namespaces "labelSelector" .Values.watch.labelSelector)
-}}
{{- if has false (values .Values.informers) -}}
{{- $names := list -}}
{{- range $kind := (include "observer.kinds" . | fromJson).items }}{{ if ne $kind.name "target" }}{{ $names = append $names $kind.name }}{{ end }}{{ end -}}
{{- $_ := set $kubernetes "optional" ($names | uniq | sortAlpha) -}}
{{- end -}}
{{- $known := dict
  "apiVersion" "observer.modeldeployment.io/v1alpha1"
  "kind" "Settings"
  "http" (dict "listen" "0.0.0.0:9480" "tokenFile" (printf "/etc/observer/token/%s" .Values.auth.token.key))
  "kubernetes" $kubernetes
-}}
{{- if .Values.apiService.enabled -}}
{{- $aggregated := dict
  "enabled" true
  "listen" (printf "0.0.0.0:%v" (int .Values.apiService.port))
  "service" (printf "%s-api" (include "observer.fullname" .))
-}}
{{- if eq .Values.certificates.mode "selfManaged" -}}
{{- $_ := set $aggregated "secret" (include "observer.certificateSecret" .) -}}
{{- else -}}
{{- $_ := set $aggregated "certFile" "/etc/observer/serving/tls.crt" -}}
{{- $_ := set $aggregated "keyFile" "/etc/observer/serving/tls.key" -}}
{{- end -}}
{{- $_ := set $known "aggregated" $aggregated -}}
{{- end -}}
{{- mergeOverwrite $known (deepCopy .Values.settings) | toJson -}}
{{- end -}}

{{/* The ports that the settings listen on. */}}
{{- define "observer.httpPort" -}}
{{- (include "observer.settings" . | fromJson).http.listen | regexFind "[0-9]+$" -}}
{{- end -}}
{{- define "observer.httpScheme" -}}
{{- ternary "https" "http" (not (empty (include "observer.settings" . | fromJson).http.tls)) -}}
{{- end -}}
{{- define "observer.httpsPort" -}}
{{- dig "aggregated" "listen" (printf ":%v" (int .Values.apiService.port)) (include "observer.settings" . | fromJson) | regexFind "[0-9]+$" -}}
{{- end -}}

{{/* Namespaces that are watched as JSON {"items": […]}; empty means all. */}}
{{- define "observer.namespaces" -}}
{{- $settings := include "observer.settings" . | fromJson -}}
{{- dict "items" ($settings.kubernetes.watch.namespaces | default list) | toJson -}}
{{- end -}}

{{/* What may be done with what is observed: rules of a Role or ClusterRole. No wildcard, no Secret. */}}
{{- define "observer.watchRules" -}}
{{- $settings := include "observer.settings" . | fromJson -}}
{{- $status := $settings.kubernetes.status | default dict -}}
{{- $writes := ne (toString $status.enabled) "false" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- $seen := list }}
{{- range $kind := (include "observer.kinds" . | fromJson).items }}
{{- $id := printf "%s/%s" $kind.group $kind.plural }}
{{- if not (has $id $seen) }}
{{- $seen = append $seen $id }}
- apiGroups: [{{ $kind.group | quote }}]
  resources: [{{ $kind.plural }}]
  verbs: [get, list, watch]
{{- end }}
{{- end }}
{{- if and $writes (ne (toString $status.conditionsOnTarget) "Never") }}
{{- $seen = list }}
{{- range $kind := (include "observer.kinds" . | fromJson).items }}
{{- $id := printf "%s/%s" $kind.group $kind.plural }}
{{- if and (eq $kind.name "target") (not (has $id $seen)) }}
{{- $seen = append $seen $id }}
- apiGroups: [{{ $kind.group | quote }}]
  resources: [{{ $kind.plural }}/status]
  verbs: [patch]
{{- end }}
{{- end }}
{{- end }}
{{- if $writes }}
- apiGroups: [observer.modeldeployment.io]
  resources: [modeldeploymentobservations]
  verbs: [get, list, watch, create, delete]
- apiGroups: [observer.modeldeployment.io]
  resources: [modeldeploymentobservations/status]
  verbs: [patch]
{{- if ne (toString $status.events) "false" }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  # Read of one object, when somebody asks for its explanation and its platform says something in Events.
  verbs: [list]
- apiGroups: [observer.modeldeployment.io]
  resources: [canaryanalyses]
  # A run of OME stands as an object of ours beside it.
  verbs: [get, list, watch{{ if .Values.platforms.ome }}, create, patch{{ end }}]
- apiGroups: [observer.modeldeployment.io]
  resources: [canaryanalyses/status]
  verbs: [patch]
{{- with .Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What cannot be together, each refused with a sentence. */}}
{{- define "observer.check" -}}
{{- $namespaces := (include "observer.namespaces" . | fromJson).items -}}
{{- if and .Values.apiService.enabled (lt (int .Values.replicas) 2) -}}
{{- fail (printf "apiService.enabled needs replicas of at least 2, found %v: while the aggregated API does not answer, deleting any namespace of the cluster hangs" (int .Values.replicas)) -}}
{{- end -}}
{{- if and .Values.apiService.enabled $namespaces -}}
{{- fail "apiService.enabled with watch.namespaces: an aggregated API checks its callers with rights on the whole cluster (system:auth-delegator), which an install by Roles only does not have. Set apiService.enabled: false, or watch.namespaces: []" -}}
{{- end -}}
{{- if and (not .Values.apiService.enabled) ((.Values.settings.aggregated | default dict).enabled) -}}
{{- fail "settings.aggregated.enabled without apiService.enabled: its rights, its Service and its certificate come with the latter. Set apiService.enabled: true" -}}
{{- end -}}
{{- if and .Values.apiService.enabled (eq .Values.certificates.mode "existingSecret") (not .Values.certificates.existingSecret.caBundle) -}}
{{- fail "certificates.existingSecret.caBundle is empty: the API server must know who signed the serving certificate. Give the authority in PEM" -}}
{{- end -}}
{{- end -}}
