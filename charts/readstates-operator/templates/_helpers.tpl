{{/* The chart's name, as it stands in labels. */}}
{{- define "readstates-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
The name of everything the chart makes. A release called `readstates` gives `readstates-operator`, not
`readstates-readstates-operator`.
*/}}
{{- define "readstates-operator.fullname" -}}
{{- $name := include "readstates-operator.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else if hasPrefix .Release.Name $name }}
{{- $name }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "readstates-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "readstates-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "readstates-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{ include "readstates-operator.selectorLabels" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: readstates
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The reaper's pods are not the operator's: nothing that selects those may select these. */}}
{{- define "readstates-operator.reaperSelectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-reaper" (include "readstates-operator.name" . | trunc 56 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "readstates-operator.reaperLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{ include "readstates-operator.reaperSelectorLabels" . }}
app.kubernetes.io/component: superdisk-reaper
app.kubernetes.io/part-of: readstates
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Nor are the pods that set up nodes. */}}
{{- define "readstates-operator.nodeSetupSelectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-node-setup" (include "readstates-operator.name" . | trunc 52 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "readstates-operator.nodeSetupLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{ include "readstates-operator.nodeSetupSelectorLabels" . }}
app.kubernetes.io/component: superdisk-node-setup
app.kubernetes.io/part-of: readstates
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "readstates-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "readstates-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/*
An image as a pod names it: `include "…image" (dict "of" "image" "values" .Values "tag" .Chart.AppVersion)`.
Without a "tag" to fall back to, the values must give one.
*/}}
{{- define "readstates-operator.image" -}}
{{- $image := index .values .of }}
{{- $repository := required (printf "%s.repository is missing: build the images, push them to a registry that your nodes reach, and name them (readstates/book/src/how-to/install.md)" .of) $image.repository }}
{{- if $image.digest }}
{{- printf "%s@%s" $repository $image.digest }}
{{- else }}
{{- $tag := default .tag $image.tag | required (printf "the image %s needs a tag or a digest" $repository) }}
{{- printf "%s:%s" $repository $tag }}
{{- end }}
{{- end }}

{{/* The ClusterRole that the operator binds cache pods to. */}}
{{- define "readstates-operator.tokenReviewRole" -}}
{{- printf "%s-token-review" (include "readstates-operator.fullname" .) }}
{{- end }}
