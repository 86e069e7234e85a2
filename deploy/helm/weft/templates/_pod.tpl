{{/* The pod of a role. */}}

{{/* Security contexts: those of the restricted profile; RDMA locks memory and opens devices, for which pods are root. */}}
{{- define "weft.podSecurity" -}}
{{- if not (kindIs "invalid" .Values.podSecurityContext) -}}
{{- .Values.podSecurityContext | toYaml -}}
{{- else if include "weft.rdma" . -}}
runAsUser: 0
seccompProfile: {type: RuntimeDefault}
{{- else -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}
{{- end }}

{{- define "weft.containerSecurity" -}}
{{- if not (kindIs "invalid" .Values.securityContext) -}}
{{- .Values.securityContext | toYaml -}}
{{- else -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- if include "weft.rdma" . }}
  add: [IPC_LOCK]
  {{- end }}
{{- end -}}
{{- end }}

{{- define "weft.env" -}}
{{- $v := .Values -}}
- {name: HOME, value: /tmp}
{{- if include "weft.needsToken" . }}
- name: WEFT_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "weft.secret" . | toYaml }}, key: {{ toYaml $v.token.key }}}}
{{- end }}
{{- if include "weft.storeSecret" . }}
- {name: WEFT_CA, value: /etc/weft-store/ca.crt}
{{- if $v.store.clientCertificate }}
- {name: WEFT_CERT, value: /etc/weft-store/tls.crt}
- {name: WEFT_KEY, value: /etc/weft-store/tls.key}
{{- end }}
{{- end }}
{{- with $v.ucx.logLevel }}
- {name: UCX_LOG_LEVEL, value: {{ quote . }}}
{{- end }}
{{- with $v.ucx.transports }}
{{- $list := . }}
{{- if kindIs "string" . }}{{ $list = regexSplit "[,+ ]+" (trim .) -1 }}{{ end }}
- {name: UCX_TLS, value: {{ join "," $list | quote }}}
{{- end }}
{{- /* A number 0 says 0, and is as empty as "" for Helm. */}}
{{- with include "weft.number" (ternary "" $v.ucx.gidIndex (kindIs "invalid" $v.ucx.gidIndex)) | default (ternary "3" "" (contains "roce" (include "weft.rdma" .))) }}
- {name: UCX_IB_GID_INDEX, value: {{ quote . }}}
{{- end }}
{{- with $v.nvshmem.hcaPrefix }}
- {name: NVSHMEM_HCA_PREFIX, value: {{ quote . }}}
{{- end }}
{{- range $name, $value := $v.env }}
- {name: {{ quote $name }}, value: {{ include "weft.number" $value | quote }}}
{{- end }}
{{- end }}

{{- define "weft.podAnnotations" -}}
{{- $v := .Values -}}
{{- $out := dict -}}
{{- if and $v.sriov.enabled (not $v.sriov.networks) }}{{ fail "sriov.enabled needs sriov.networks: [{name: NETWORK}, ...]" }}{{ end -}}
{{- if $v.sriov.enabled -}}
{{- $names := list -}}
{{- range $v.sriov.networks }}{{ $names = append $names .name }}{{ end -}}
{{- $_ := set $out "k8s.v1.cni.cncf.io/networks" (join "," $names) -}}
{{- end -}}
{{- with $v.gke.interfaces -}}
{{- $all := prepend . (dict "interfaceName" "eth0" "network" "default") -}}
{{- $_ := set $out "networking.gke.io/default-interface" "eth0" -}}
{{- $_ := set $out "networking.gke.io/interfaces" (toJson $all) -}}
{{- end -}}
{{- with $v.kueue.topology }}{{ $_ := set $out (printf "kueue.x-k8s.io/podset-%s-topology" $v.kueue.topologyMode) . }}{{ end -}}
{{- range $name, $value := $v.podAnnotations }}{{ $_ := set $out $name (include "weft.number" $value) }}{{ end -}}
{{- if $out }}{{ $out | toYaml }}{{ end -}}
{{- end }}

{{/* Where the pod may run: dict "root" $ "hosts" (names of nodes, or none) */}}
{{- define "weft.affinity" -}}
{{- $v := .root.Values -}}
{{- /* Without the pods of `helm test`, which take what node there is, also while the run goes on. */ -}}
{{- $noTest := list (dict "key" "role" "operator" "NotIn" "values" (list "test")) -}}
{{- $ours := dict "matchLabels" (include "weft.selector" .root | fromYaml) "matchExpressions" $noTest -}}
{{- $out := dict -}}
{{- with .hosts -}}
{{- $term := dict "matchExpressions" (list (dict "key" "kubernetes.io/hostname" "operator" "In" "values" .)) -}}
{{- $_ := set $out "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" (list $term))) -}}
{{- end -}}
{{- $apart := list -}}
{{- $near := list -}}
{{- $term := dict "labelSelector" $ours "topologyKey" "kubernetes.io/hostname" -}}
{{- if eq $v.spread "required" }}{{ $apart = append $apart $term }}{{ end -}}
{{- $key := $v.exclusivePlacement.topologyKey -}}
{{- if and $key (ne $v.job "store") (or (ne $v.mode "lws") (eq $key "kubernetes.io/hostname")) -}}
{{- $others := list (dict "key" "app" "operator" "In" "values" (list "weft")) (dict "key" "test-id" "operator" "NotIn" "values" (list (include "weft.testId" .root))) -}}
{{- $apart = append $apart (dict "labelSelector" (dict "matchExpressions" $others) "namespaceSelector" dict "topologyKey" $key) -}}
{{- /* A domain of one node is each pod's own: a run of several pods has as many. */ -}}
{{- if ne $key "kubernetes.io/hostname" }}{{ $near = append $near (dict "labelSelector" $ours "topologyKey" $key) }}{{ end -}}
{{- end -}}
{{- if and $v.imex.enabled $v.imex.cliqueAffinity (ne $v.job "store") }}{{ $near = append $near (dict "labelSelector" $ours "topologyKey" "nvidia.com/gpu.clique") }}{{ end -}}
{{- if $apart }}{{ $_ := set $out "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" $apart) }}{{ end -}}
{{- if eq $v.spread "preferred" -}}
{{- $wish := dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term)) -}}
{{- $_ := set $out "podAntiAffinity" (merge (get $out "podAntiAffinity" | default dict) $wish) -}}
{{- end -}}
{{- if $near }}{{ $_ := set $out "podAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" $near) }}{{ end -}}
{{- $out = mergeOverwrite $out (deepCopy ($v.affinity | default dict)) -}}
{{- if $out }}{{ $out | toYaml }}{{ end -}}
{{- end }}

{{/* What all pods of the chart have in their spec. */}}
{{- define "weft.podCommon" -}}
{{- $v := .Values -}}
serviceAccountName: {{ include "weft.serviceAccount" . | toYaml }}
automountServiceAccountToken: false
{{- /* Else the Service of a store called "store" gives pods a WEFT_STORE_PORT, which is an option of weft. */}}
enableServiceLinks: false
{{- if and (include "weft.comeAndGo" .) (le (int $v.terminationGracePeriodSeconds) 20) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, and a worker that is to leave takes 20: want more, or elastic.agents=fixed" (int $v.terminationGracePeriodSeconds)) -}}
{{- end }}
terminationGracePeriodSeconds: {{ int $v.terminationGracePeriodSeconds }}
securityContext:
  {{- include "weft.podSecurity" . | nindent 2 }}
{{- with $v.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ ternary . (get (ternary (dict) . (kindIs "string" .)) "name") (kindIs "string" .) | quote }}
  {{- end }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
{{- with $v.runtimeClassName }}
runtimeClassName: {{ quote . }}
{{- end }}
{{- with $v.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $v.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end }}

{{/* A pod template: dict "root" $ "role" ROLE "hosts" HOSTS "restart" POLICY */}}
{{- define "weft.pod" -}}
{{- $root := .root -}}
{{- $v := $root.Values -}}
metadata:
  labels:
    {{- include "weft.podLabels" $root | nindent 4 }}
    role: {{ .role }}
    {{- with .rank }}
    rank: {{ quote . }}
    {{- end }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with include "weft.podAnnotations" $root }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: {{ .restart }}
  {{- include "weft.podCommon" $root | nindent 2 }}
  {{- with include "weft.affinity" . }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- if $v.imex.enabled }}
  resourceClaims:
    - {name: imex-channel, resourceClaimTemplateName: {{ include "weft.name" $root }}-imex}
  {{- end }}
  containers:
    - name: weft
      image: {{ $v.image | quote }}
      imagePullPolicy: {{ $v.imagePullPolicy }}
      command: {{ include "weft.command" . }}
      workingDir: /results
      terminationMessagePolicy: FallbackToLogsOnError
      env:
        {{- include "weft.env" $root | nindent 8 }}
      {{- $ports := list }}
      {{- if eq .role "master" }}{{ $ports = append $ports (dict "name" "master" "containerPort" (include "weft.port" $root | int)) }}{{ end }}
      {{- if and $v.metrics.enabled (eq $v.job "elastic") }}{{ $ports = append $ports (dict "name" "metrics" "containerPort" (int $v.metrics.port)) }}{{ end }}
      {{- with $ports }}
      ports: {{ toJson . }}
      {{- end }}
      securityContext:
        {{- include "weft.containerSecurity" $root | nindent 8 }}
      resources:
        {{- include "weft.resources" $root | nindent 8 }}
      volumeMounts:
        - {name: results, mountPath: /results}
        - {name: tmp, mountPath: /tmp}
        - {name: shm, mountPath: /dev/shm}
        {{- with include "weft.storeMount" $root | trim }}
        {{- nindent 8 . }}
        {{- end }}
        {{- if and (eq $v.job "elastic") (eq .role "master") }}
        - {name: plan, mountPath: /etc/weft, readOnly: true}
        {{- end }}
  volumes:
    - name: results
      {{- if and $v.results.claim (eq .role "master") }}
      persistentVolumeClaim: {claimName: {{ quote $v.results.claim }}}
      {{- else }}
      emptyDir: {}
      {{- end }}
    - {name: tmp, emptyDir: {}}
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ $v.shm.size }}}}
    {{- with include "weft.storeVolume" $root | trim }}
    {{- nindent 4 . }}
    {{- end }}
    {{- if and (eq $v.job "elastic") (eq .role "master") }}
    - {name: plan, configMap: {name: {{ include "weft.name" $root }}}}
    {{- end }}
{{- end }}

{{/* The spec of a Job: dict "root" $ "role" ROLE "count" N "hosts" HOSTS */}}
{{- define "weft.jobSpec" -}}
{{- $v := .root.Values -}}
{{- $worker := eq .role "worker" -}}
{{- $comeAndGo := include "weft.comeAndGo" .root -}}
{{- $unsaid := ternary 6 0 (not (empty $comeAndGo)) -}}
{{- if eq $v.job "doctor" }}{{ $unsaid = 2 }}{{ end -}} {{/* the master may not answer yet */}}
{{- $restarts := ternary $unsaid $v.workerRestarts (kindIs "invalid" $v.workerRestarts) | int -}}
completionMode: {{ ternary "Indexed" "NonIndexed" $worker }}
completions: {{ .count }}
parallelism: {{ .count }}
backoffLimit: {{ ternary $restarts 0 $worker }}
{{- if and $worker $comeAndGo $restarts }}
podFailurePolicy: # a successor only for a worker that was killed: what weft ends with is the run's end
  rules:
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}
    - action: FailJob
      onExitCodes: {containerName: weft, operator: In, values: [1, 2, 3, 4, 5, 124]}
      onPodConditions: [] # which Kubernetes before 1.31 wants to be there
{{- end }}
activeDeadlineSeconds: {{ int $v.activeDeadlineSeconds }}
{{- if and (eq $v.mode "job") (not (kindIs "invalid" $v.ttlSecondsAfterFinished)) }}
ttlSecondsAfterFinished: {{ int $v.ttlSecondsAfterFinished }}
{{- end }}
template:
  {{- include "weft.pod" (merge (dict "restart" "Never") .) | nindent 2 }}
{{- end }}
