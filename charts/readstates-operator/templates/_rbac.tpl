{{/*
What the operator may do in a namespace it serves, and for what. It does not delete what holds data: claims only
with rbac.deleteVolumeClaims, and StatefulSets go when their ReadStateCluster does, by owner reference. The cache
pods it deletes hold nothing any more; each by its UID.
*/}}
{{- define "readstates-operator.rules" -}}
# The resources users write: their spec is read, their status is written, and a finalizer holds one with a database of
# its own until its cache has written what it holds.
- apiGroups: [readstates.dev]
  resources: [readstateclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [readstates.dev]
  resources: [readstateclusters/status]
  verbs: [get, patch]
# Backups: read, and their status is written. What they own are Jobs, CronJobs and VolumeSnapshots. Schedules of
# VolumeSnapshots make a ReadStateBackup each time, and delete those that their retention does not keep.
- apiGroups: [readstates.dev]
  resources: [readstatebackups, readstatebackupschedules]
  verbs: [get, list, watch]
- apiGroups: [readstates.dev]
  resources: [readstatebackups]
  verbs: [create, delete]
- apiGroups: [readstates.dev]
  resources: [readstatebackups/status, readstatebackupschedules/status]
  verbs: [get, patch]
# Moves of a table to another database: read, their status is written, and a finalizer holds one until its Job has ended.
- apiGroups: [readstates.dev]
  resources: [readstatemigrations]
  verbs: [get, list, watch, patch]
- apiGroups: [readstates.dev]
  resources: [readstatemigrations/status]
  verbs: [get, patch]
# Children may block the deletion of their owner where the cluster enforces this permission.
- apiGroups: [readstates.dev]
  resources:
    - readstateclusters/finalizers
    - readstatebackups/finalizers
    - readstatebackupschedules/finalizers
    - readstatemigrations/finalizers
  verbs: [update]
# Rings are made empty, and from then on written by cache pods. These and the leases are also what it
# gives cache pods a Role for: nobody can give more than they have.
- apiGroups: [readstates.dev]
  resources: [readstaterings]
  verbs: [get, list, watch, create, update]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, create, update, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch]
# Children, by server-side apply.
- apiGroups: [""]
  resources: [configmaps, serviceaccounts, services]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
# A schema Job is immutable: another wish is another Job, and the old one is deleted. CronJobs make backups; the one that
# verifies them is deleted when a schedule no longer asks for it.
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [get, list, watch, create, patch, delete]
# Looked at. Database pods are deleted only where one does not come up and a newer spec would cure it, cache pods when
# they hold nothing and are to be replaced.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
# More memory for a cache pod that runs, where Kubernetes can give it (1.33 and later): otherwise the pod is replaced.
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
# Which node of a database is on which volume; volumes grow with spec.database.storage.size, and those of a new database
# are made from the VolumeSnapshots of a backup, where it is asked to begin with them.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, create, patch{{ if .Values.rbac.deleteVolumeClaims }}, delete{{ end }}]
# Which volume a restored one is a copy of, for super-disks; and backups by VolumeSnapshots, which are deleted where not
# all could be made at one time.
- apiGroups: [snapshot.storage.k8s.io]
  resources: [volumesnapshots]
  verbs: [get, list, create, delete]
# By name, no list and no watch: the logins and certificates of databases, the tokens of the API's callers, of which it
# writes the hashes, and what the processes of each cluster prove themselves by. Certificates end, so those it renews:
# each by an update of the very version that it read, and of a Secret that a ReadStateCluster owns. No patch, which
# could make one, and no delete: owners take them along.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.rbac.certificates }}
# Asked of cert-manager, which makes the Secret.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, create, patch]
{{- end }}
{{- if .Values.rbac.podMonitors }}
# Asked for by spec.monitoring, and deleted when it is taken back.
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, create, patch, delete]
{{- end }}
{{- end }}
