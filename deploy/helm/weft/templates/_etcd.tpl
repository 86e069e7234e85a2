{{/* store.kind=etcd: one member or three, which find each other by the names of a headless Service. */}}
{{- define "weft.etcd" -}}
{{- $v := .Values -}}
{{- $name := include "weft.name" . -}}
{{- $members := list -}}
{{- include "weft.differ" (dict "name" "store.port" "port" $v.store.port "other" "that of etcd's members" "otherPort" 2380) -}}
{{- $replicas := int $v.store.replicas -}}
{{- if and (gt $replicas 1) (not $v.store.size) -}}
{{- fail (printf "store.replicas is %d, and store.size is not set: want a volume for each member, since the others refuse one that comes back without its keys" $replicas) -}}
{{- end -}}
{{- $there := lookup "apps/v1" "StatefulSet" (include "weft.namespace" .) $name -}}
{{- $before := dig "spec" "replicas" $replicas ($there | default dict) | int -}}
{{- if ne $before $replicas -}}
{{- fail (printf "store.replicas is %d, and this etcd has %d: members know each other from their first start on, so install another release" $replicas $before) -}}
{{- end -}}
{{- range $i := until $replicas -}}
{{- $members = append $members (printf "%s-%d=http://%s-%d.%s-peers:2380" $name $i $name $i $name) -}}
{{- end }}
apiVersion: v1
kind: Service
metadata:
  {{- include "weft.metadata" (dict "root" $ "name" (printf "%s-peers" $name) "role" "store") | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "weft.selector" . | nindent 4 }}
    role: store
  ports:
    - {name: peer, port: 2380}
---
{{- if gt $replicas 1 }}
# Drains take one member at a time: the store needs two of three.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "weft.metadata" (dict "root" $ "name" $name "role" "store") | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "weft.selector" . | nindent 6 }}
      role: store
---
{{- end }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {{- include "weft.metadata" (dict "root" $ "name" $name "role" "store") | nindent 2 }}
spec:
  replicas: {{ $replicas }}
  serviceName: {{ $name }}-peers
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "weft.selector" . | nindent 6 }}
      role: store
  template:
    metadata:
      labels:
        {{- include "weft.podLabels" . | nindent 8 }}
        role: store
        {{- with $v.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with include "weft.podAnnotations" . }}
      annotations:
        {{- . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "weft.podCommon" . | nindent 6 }}
      {{- with include "weft.affinity" (dict "root" $) }}
      affinity:
        {{- . | nindent 8 }}
      {{- end }}
      containers:
        - name: etcd
          image: {{ $v.store.etcdImage | quote }}
          imagePullPolicy: {{ $v.imagePullPolicy }}
          command: [etcd]
          env:
            - {name: ETCD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: ETCD_DATA_DIR, value: /data/etcd}
            - {name: ETCD_LISTEN_CLIENT_URLS, value: "http://{{ include "weft.listenAt" (dict "root" $ "port" $v.store.port) }}"}
            - {name: ETCD_ADVERTISE_CLIENT_URLS, value: "http://$(ETCD_NAME).{{ $name }}-peers:{{ int $v.store.port }}"}
            - {name: ETCD_LISTEN_PEER_URLS, value: "http://{{ include "weft.listenAt" (dict "root" $ "port" 2380) }}"}
            - {name: ETCD_INITIAL_ADVERTISE_PEER_URLS, value: "http://$(ETCD_NAME).{{ $name }}-peers:2380"}
            - {name: ETCD_INITIAL_CLUSTER, value: {{ join "," $members | quote }}}
            - {name: ETCD_INITIAL_CLUSTER_TOKEN, value: {{ $name }}}
            # Else the changes of all runs fill its quota one day. A quiet watch asks again from its last change on, so
            # that an age of an hour would be too young.
            - {name: ETCD_AUTO_COMPACTION_MODE, value: revision}
            - {name: ETCD_AUTO_COMPACTION_RETENTION, value: "100000"}
          ports:
            - {name: client, containerPort: {{ int $v.store.port }}}
            - {name: peer, containerPort: 2380}
          readinessProbe:
            httpGet: {path: /health, port: client}
            periodSeconds: 5
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          resources:
            requests: {cpu: 100m, memory: 128Mi}
            limits: {memory: 1Gi}
          volumeMounts:
            - {name: data, mountPath: /data}
      {{- if not $v.store.size }}
      volumes:
        - {name: data, emptyDir: {}}
      {{- end }}
  {{- if $v.store.size }}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $v.store.storageClass }}
        storageClassName: {{ quote . }}
        {{- end }}
        resources: {requests: {storage: {{ $v.store.size }}}}
  {{- end }}
{{- end }}
