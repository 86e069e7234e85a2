{{/* What a pod asks for: processors, memory and devices. */}}

{{/* A quantity as a number: 4, "500m", "1.5Gi", "2e9". */}}
{{- define "weft.quantity" -}}
{{- $units := dict "" 1.0 "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- $two := 1.0 -}}
{{- range list "Ki" "Mi" "Gi" "Ti" "Pi" "Ei" }}{{ $two = mulf $two 1024.0 }}{{ $_ := set $units . $two }}{{ end -}}
{{- $text := include "weft.number" . -}}
{{- mulf (regexFind "^[+]?[0-9.]+([eE][-+]?[0-9]+)?" $text | trimPrefix "+" | float64) (get $units (regexFind "[A-Za-z]*$" $text)) -}}
{{- end }}

{{/* How many ranks or workers a pod has; each has a GPU of its own where there are GPUs. */}}
{{- define "weft.processes" -}}
{{- if has .Values.job (list "elastic" "ep") -}}
{{- include "weft.ranksPerNode" . -}}
{{- else if eq .Values.job "bench" -}}
{{- include "weft.benchDevices" . -}}
{{- else -}}
1
{{- end -}}
{{- end }}

{{/* What is not given follows from the ranks of a pod, as JSON. Eight ranks on GPUs get the 16 processors and 32Gi, and
the limit of 64Gi, that values of DeepEP's chart have. On GPUs one processor launches and another moves rows between
nodes. docs/guide/cluster/capacity.md says how much memory ranks need. */}}
{{- define "weft.usualResources" -}}
{{- $ranks := include "weft.processes" . | int -}}
{{- $cpu := $ranks -}}
{{- $least := max 2 $ranks -}}
{{- $request := ternary (printf "%dMi" (mul 512 $least)) (printf "%dGi" (div $least 2)) (eq 1 (mod $least 2 | int)) -}}
{{- $limit := printf "%dGi" (mul 2 $least) -}}
{{- if and (include "weft.gpuCount" . | int) (ne .Values.job "store") -}}
{{- $cpu = mul 2 $ranks -}}
{{- $request = printf "%dGi" (mul 4 $ranks) -}}
{{- $limit = printf "%dGi" (mul 8 $ranks) -}}
{{- end -}}
{{- dict "cpu" (toString $cpu) "memory" $request "limit" $limit | toJson -}}
{{- end }}

{{/* The given quantities without those that are "" or null. */}}
{{- define "weft.given" -}}
{{- $out := dict -}}
{{- range $name, $value := . -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}{{ $_ := set $out $name $value }}{{ end -}}
{{- end -}}
{{- $out | toJson -}}
{{- end }}

{{/* The API refuses such a pod, for a JobSet or a LeaderWorkerSet without the user's seeing it: dict "requests" MAP
"limits" MAP */}}
{{- define "weft.checkResources" -}}
{{- $limits := .limits -}}
{{- range $name, $value := .requests -}}
{{- if hasKey $limits $name -}}
{{- $limit := get $limits $name -}}
{{- if gt (include "weft.quantity" $value | float64) (include "weft.quantity" $limit | float64) -}}
{{- fail (printf "resources.requests.%s is %s, and resources.limits.%s %s: want a limit that is at least as large" $name (include "weft.number" $value) $name (include "weft.number" $limit)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Adds a quantity that is not given. The other side may be given, and bounds it: dict "to" MAP "raw" VALUES "name" NAME
"usual" QUANTITY "other" MAP "most" (whether the other side is a limit) */}}
{{- define "weft.addUsual" -}}
{{- if and (not (kindIs "invalid" .raw)) (kindIs "invalid" (get (.raw | default dict) .name)) -}}
{{- $value := .usual -}}
{{- if hasKey .other .name -}}
{{- $bound := get .other .name -}}
{{- $ours := include "weft.quantity" $value | float64 -}}
{{- $theirs := include "weft.quantity" $bound | float64 -}}
{{- if ternary (gt $ours $theirs) (lt $ours $theirs) .most }}{{ $value = $bound }}{{ end -}}
{{- end -}}
{{- $_ := set .to .name $value -}}
{{- end -}}
{{- end }}

{{/* Requests and limits of processors and memory, as JSON: {requests, limits}. */}}
{{- define "weft.quantities" -}}
{{- $r := .Values.resources -}}
{{- $requests := include "weft.given" $r.requests | fromJson -}}
{{- $limits := include "weft.given" $r.limits | fromJson -}}
{{- $usual := include "weft.usualResources" . | fromJson -}}
{{- range list "cpu" "memory" -}}
{{- include "weft.addUsual" (dict "to" $requests "raw" $r.requests "name" . "usual" (get $usual .) "other" $limits "most" true) -}}
{{- end -}}
{{- include "weft.addUsual" (dict "to" $limits "raw" $r.limits "name" "memory" "usual" $usual.limit "other" $requests "most" false) -}}
{{- include "weft.checkResources" (dict "requests" $requests "limits" $limits) -}}
{{- dict "requests" $requests "limits" $limits | toJson -}}
{{- end }}

{{- define "weft.resources" -}}
{{- $r := .Values.resources -}}
{{- $quantities := include "weft.quantities" . | fromJson -}}
{{- $devices := dict -}}
{{- range $name, $count := $r.extra }}{{ $_ := set $devices $name (include "weft.number" $count) }}{{ end -}}
{{- with include "weft.rdma" . }}{{ $_ := set $devices . (include "weft.number" $r.rdmaQuantity) }}{{ end -}}
{{- with include "weft.gpuCount" . | int }}{{ $_ := set $devices $r.gpu (toString .) }}{{ end -}}
requests: {{ merge (dict) $devices $quantities.requests | toJson }}
limits: {{ merge (dict) $devices $quantities.limits | toJson }}
{{- if .Values.imex.enabled }}
claims: [{name: imex-channel}]
{{- end }}
{{- end }}

{{/* Whether GPUs of several nodes have nothing but TCP between them. Devices with names that the chart does not know may
be NICs, and so may networks that are attached; a privileged pod has the devices of its node. */}}
{{- define "weft.gpusByTcp" -}}
{{- $v := .Values -}}
{{- $r := $v.resources -}}
{{- $other := or (include "weft.rdma" .) $v.imex.enabled $v.sriov.enabled $v.gke.interfaces (dig "privileged" false ($v.securityContext | default dict)) -}}
{{- range list $r.extra $r.requests $r.limits -}}
{{- range $name, $_ := . }}{{ if and (contains "/" $name) (ne $name $r.gpu) }}{{ $other = true }}{{ end }}{{ end -}}
{{- end -}}
{{- if and (gt (include "weft.nodes" . | int) 1) (include "weft.gpuCount" . | int) (not $other) }}yes{{ end -}}
{{- end }}
