{{/* Kubernetes' own hands: what they delete or orphan, a person has asked for by deleting its owner or its namespace. */}}
{{- define "readstates-operator.notKubernetes" -}}
!(request.userInfo.username in [
'system:serviceaccount:kube-system:generic-garbage-collector',
'system:serviceaccount:kube-system:namespace-controller',
'system:kube-controller-manager'])
{{- end }}

{{- define "readstates-operator.notTheOperator" -}}
request.userInfo.username !=
'system:serviceaccount:{{ .Release.Namespace }}:{{ include "readstates-operator.serviceAccountName" . }}'
{{- end }}

{{/* Of a cluster that is there, as far as the object tells. */}}
{{- define "readstates-operator.ofCluster" -}}
oldObject.metadata.?ownerReferences.orValue([]).exists(o,
o.?controller.orValue(false) && o.kind == 'ReadStateCluster' && o.apiVersion.startsWith('readstates.dev/'))
{{- end }}

{{- define "readstates-operator.mayBeDeleted" -}}
oldObject.metadata.?annotations[?'readstates.dev/allow-deletion'].orValue('') == 'true'
{{- end }}

{{/* The binding of a policy: `include "…policyBinding" (dict "root" . "name" $name)`. */}}
{{- define "readstates-operator.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  {{- with .root.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  labels:
    {{- include "readstates-operator.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
  {{- with .root.Values.watchNamespaces }}
  matchResources:
    namespaceSelector:
      matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: In
          values:
            {{- toYaml . | nindent 12 }}
  {{- end }}
{{- end }}
