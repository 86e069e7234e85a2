{{/* Names, labels, and the numbers that follow from several values. */}}

{{/* A release's name may have dots, and that of a Service may not. */}}
{{- define "weft.testId" -}}
{{- .Values.testId | default (replace "." "-" .Release.Name) | trunc 40 | regexFind ".*[^-]" -}}
{{- end }}

{{- define "weft.namespace" -}}
{{- .Values.namespace | default .Release.Namespace -}}
{{- end }}

{{- define "weft.name" -}}
weft-{{ include "weft.testId" . }}
{{- end }}

{{/* The Service of the pod with rank 0, by which the others find it. */}}
{{- define "weft.master" -}}
weft-master-{{ include "weft.testId" . }}
{{- end }}

{{- define "weft.port" -}}
{{- .Values.port | default .Values.deepep.rendezvous.masterPort | default 9999 | int -}}
{{- end }}

{{/* Two ports of one pod, which have to differ: dict "name" NAME "port" PORT "other" NAME "otherPort" PORT */}}
{{- define "weft.differ" -}}
{{- if eq (int .port) (int .otherPort) -}}
{{- fail (printf "%s is %d, as %s is: want two ports of a pod that differ" .name (int .port) .other) -}}
{{- end -}}
{{- end }}

{{/* Where a pod listens: dict "root" $ "port" PORT */}}
{{- define "weft.listenAt" -}}
{{- $listen := .root.Values.listen -}}
{{- if contains ":" $listen }}[{{ $listen }}]{{ else }}{{ $listen }}{{ end }}:{{ int .port }}
{{- end }}

{{/* What selects all pods of this run. */}}
{{- define "weft.selector" -}}
app: weft
test-id: {{ include "weft.testId" . | quote }}
{{- end }}

{{/* Of pods. Nothing here changes with a newer chart: a Job's template cannot. */}}
{{- define "weft.podLabels" -}}
{{ include "weft.selector" . }}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "weft.labels" -}}
{{ include "weft.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- /* A version may have "+", and a label may not. */}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | regexFind ".*[A-Za-z0-9]" | quote }}
{{- end }}

{{/* metadata of an object: dict "root" $ "name" NAME "role" ROLE */}}
{{- define "weft.metadata" -}}
name: {{ .name | toYaml }}
namespace: {{ include "weft.namespace" .root | toYaml }}
labels:
  {{- include "weft.labels" .root | nindent 2 }}
  {{- with .role }}
  role: {{ . }}
  {{- end }}
{{- end }}

{{- define "weft.queueLabels" -}}
{{- with .Values.kueue.queue -}}
kueue.x-k8s.io/queue-name: {{ . | quote }}
{{- end }}
{{- with .Values.kueue.priorityClass }}
kueue.x-k8s.io/priority-class: {{ . | quote }}
{{- end }}
{{- end }}

{{/* The nodes that topology.nodes names, as a JSON list in the order of their ranks. */}}
{{- define "weft.nodeList" -}}
{{- $given := .Values.topology.nodes | default list -}}
{{- $sorted := list -}}
{{- range $rank, $_ := $given -}}
{{- $found := list -}}
{{- range $place, $node := $given -}}
{{- if eq (int (dig "rank" $place $node)) $rank }}{{ $found = append $found $node }}{{ end -}}
{{- end -}}
{{- if ne (len $found) 1 -}}
{{- fail (printf "topology.nodes: %d nodes have rank %d; each rank from 0 to %d belongs to one node" (len $found) $rank (sub (len $given) 1)) -}}
{{- end -}}
{{- $sorted = append $sorted (first $found) -}}
{{- end -}}
{{- $sorted | toJson -}}
{{- end }}

{{/* How many pods. */}}
{{- define "weft.nodes" -}}
{{- $v := .Values -}}
{{- $listed := len ($v.topology.nodes | default list) -}}
{{- $said := $v.nodes | default $v.deepep.worldSize | default (dig "worldSize" nil $v.topology.summary) | default (dig "totalNodes" nil $v.topology.summary) -}}
{{- if and $listed $v.nodes (ne (int $v.nodes) $listed) -}}
{{- fail (printf "nodes is %d, and topology.nodes lists %d: leave one of them out" (int $v.nodes) $listed) -}}
{{- end -}}
{{- $nodes := $listed | default $said | default 2 | int -}}
{{- if and (eq $v.job "p2p") (lt $nodes 2) }}{{ fail "job=p2p measures between nodes: nodes must be 2 or more" }}{{ end -}}
{{- $nodes -}}
{{- end }}

{{- define "weft.gpuCount" -}}
{{- $v := .Values -}}
{{- if kindIs "invalid" $v.resources.gpuCount -}}
{{- $nodes := include "weft.nodeList" . | fromJsonArray -}}
{{- $of := 0 -}}
{{- if $nodes }}{{ $of = dig "gpus" nil (first $nodes) }}{{ end -}}
{{- range $nodes -}}
{{- if ne (dig "gpus" nil . | int) (int $of) -}}
{{- fail (printf "topology.nodes: %s has %d GPUs, and %s %d: all pods ask for the same, so say resources.gpuCount" .name (dig "gpus" nil . | int) (first $nodes).name (int $of)) -}}
{{- end -}}
{{- end -}}
{{- $of | default (dig "gpusPerNode" nil $v.topology.summary) | default 0 | int -}}
{{- else -}}
{{- $v.resources.gpuCount | int -}}
{{- end -}}
{{- end }}

{{- define "weft.ranksPerNode" -}}
{{- .Values.ranksPerNode | default (include "weft.gpuCount" . | int) | default 2 | int -}}
{{- end }}

{{/* The resource of RDMA devices; "" for none. InfiniBand has a usual name; RoCE has a different one in each cluster. */}}
{{- define "weft.rdma" -}}
{{- $type := .Values.topology.rdmaType | default "" -}}
{{- if not (kindIs "invalid" .Values.resources.rdma) -}}
{{- .Values.resources.rdma -}}
{{- else if contains "/" $type -}}
{{- $type -}}
{{- else if has (lower $type) (list "infiniband" "ib") -}}
rdma/ib
{{- end -}}
{{- end }}

{{/* Whether workers may come and go while the run goes on. */}}
{{- define "weft.comeAndGo" -}}
{{- if and (eq .Values.job "elastic") (eq .Values.elastic.agents "elastic") }}yes{{ end -}}
{{- end }}

{{- define "weft.secret" -}}
{{- .Values.token.existingSecret | default (printf "%s-token" (include "weft.name" .)) -}}
{{- end }}

{{/* Without a token only where the store is an etcd: nothing else listens, and weft sends it to none. */}}
{{- define "weft.needsToken" -}}
{{- $v := .Values -}}
{{- $store := include "weft.onEtcd" . -}}
{{- if eq $v.job "store" -}}
{{- if eq $v.store.kind "weft" }}yes{{ end -}}
{{- else if or (not $store) (has $v.job (list "p2p" "doctor")) $v.metrics.enabled -}}
yes
{{- end -}}
{{- end }}

{{/* Whether the run meets on an etcd that is there. */}}
{{- define "weft.onEtcd" -}}
{{- if or (hasPrefix "http://" (.Values.store.url | default "")) (include "weft.storeSecret" .) }}yes{{ end -}}
{{- end }}

{{/* The Secret that an etcd's certificate is checked by. */}}
{{- define "weft.storeSecret" -}}
{{- $s := .Values.store -}}
{{- if ne .Values.job "store" -}}
{{- if and $s.tlsSecret (not (hasPrefix "https://" ($s.url | default ""))) }}{{ fail "store.tlsSecret needs a store.url of https://" }}{{ end -}}
{{- if and $s.clientCertificate (not $s.tlsSecret) }}{{ fail "store.clientCertificate needs store.tlsSecret, which has it" }}{{ end -}}
{{- $s.tlsSecret | default "" -}}
{{- end -}}
{{- end }}

{{/* That Secret as a volume, and where containers have it. */}}
{{- define "weft.storeVolume" -}}
{{- with include "weft.storeSecret" . }}
- {name: store, secret: {secretName: {{ quote . }}}}
{{- end }}
{{- end }}

{{- define "weft.storeMount" -}}
{{- if include "weft.storeSecret" . }}
- {name: store, mountPath: /etc/weft-store, readOnly: true}
{{- end }}
{{- end }}

{{- define "weft.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "weft.name" .) "default" .Values.serviceAccount.create) -}}
{{- end }}
