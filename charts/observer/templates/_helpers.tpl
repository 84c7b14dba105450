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

{{/* The host of the plain listener's Service with its port. */}}
{{- define "observer.host" -}}
{{- printf "%s.%s.svc:%v" (include "observer.fullname" .) .Release.Namespace (int .Values.service.port) -}}
{{- end -}}

{{/* The whole Settings document as JSON: what the chart knows, and over it what `settings` says. */}}
{{- define "observer.settings" -}}
{{- $optional := list -}}
{{- range $kind, $on := .Values.informers }}{{ if $on }}{{ $optional = append $optional $kind }}{{ end }}{{ end -}}
{{- $watch := dict "namespaces" .Values.watch.namespaces "labelSelector" .Values.watch.labelSelector -}}
{{- $known := dict
  "apiVersion" "observer.modeldeployment.io/v1alpha1"
  "kind" "Settings"
  "http" (dict "listen" "0.0.0.0:9480" "tokenFile" (printf "/etc/observer/token/%s" .Values.auth.token.key))
  "kubernetes" (dict "watch" $watch "optional" $optional "namespace" .Release.Namespace "shards" (int .Values.shards))
-}}
{{- mergeOverwrite $known (deepCopy .Values.settings) | toJson -}}
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
- apiGroups: [apps]
  resources: [deployments, replicasets]
  verbs: [get, list, watch]
{{- if .Values.platforms.gpustack }}
- apiGroups: [worker.gpustack.ai]
  resources: [modeldeployments]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.platforms.ome }}
- apiGroups: [ome.io]
  resources: [inferenceservices, rolloutpolicies]
  verbs: [get, list, watch]
{{- end }}
{{- range $kind, $rule := dict
  "artifacts" (list "worker.gpustack.ai" "modelartifacts")
  "kvCachePoolBindings" (list "worker.gpustack.ai" "kvcachepoolbindings")
  "kvCachePools" (list "worker.gpustack.ai" "kvcachepools")
  "scalers" (list "worker.gpustack.ai" "modeldeploymentscalers")
  "workloads" (list "kueue.x-k8s.io" "workloads")
}}
{{- if has $kind ($settings.kubernetes.optional | default list) }}
- apiGroups: [{{ index $rule 0 }}]
  resources: [{{ index $rule 1 }}]
  verbs: [get, list, watch]
{{- end }}
{{- end }}
{{- if and $writes .Values.platforms.gpustack (ne (toString $status.conditionsOnTarget) "Never") }}
- apiGroups: [worker.gpustack.ai]
  resources: [modeldeployments/status]
  verbs: [patch]
{{- end }}
{{- if $writes }}
- apiGroups: [observer.modeldeployment.io]
  resources: [modeldeploymentobservations]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [observer.modeldeployment.io]
  resources: [modeldeploymentobservations/status]
  verbs: [patch]
{{- if ne (toString $status.events) "false" }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- end }}
- apiGroups: [observer.modeldeployment.io]
  resources: [canaryanalyses]
  verbs: [get, list, watch]
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
{{- if and .Values.apiService.enabled (eq .Values.certificates.mode "existingSecret") (not .Values.certificates.existingSecret.caBundle) -}}
{{- fail "certificates.existingSecret.caBundle is empty: the API server must know who signed the serving certificate. Give the authority in PEM" -}}
{{- end -}}
{{- end -}}
