{{/* What a container runs. Each definition gives a JSON list. */}}

{{/* The options of a map as a command has them. */}}
{{- define "weft.options" -}}
{{- $out := list -}}
{{- range $name, $value := . -}}
{{- $option := printf "--%s" (replace "_" "-" $name) -}}
{{- if kindIs "bool" $value -}}
{{- if $value }}{{ $out = append $out $option }}{{ end -}}
{{- else if kindIs "slice" $value -}}
{{- $texts := list -}}
{{- range $value }}{{ $texts = append $texts (include "weft.number" .) }}{{ end -}}
{{- $out = concat $out (list $option (join "," $texts)) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $out = concat $out (list $option (include "weft.number" $value)) -}}
{{- end -}}
{{- end -}}
{{- $out | toJson -}}
{{- end }}

{{/* Text of a number as people write it: Helm reads 1000000 as 1e+06, and does not keep all digits of larger ones. */}}
{{- define "weft.number" -}}
{{- if and (kindIs "float64" .) (or (gt . 9007199254740992.0) (lt . -9007199254740992.0)) -}}
{{- fail (printf "the number %.0f is too large for Helm to keep all its digits: want it in quotation marks" .) -}}
{{- end -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end -}}
{{- end }}

{{/* Options of elastic by the names of DeepEP's chart; elastic.options wins. */}}
{{- define "weft.elasticOptions" -}}
{{- $v := .Values -}}
{{- $ranks := mul (include "weft.nodes" . | int) (include "weft.ranksPerNode" . | int) -}}
{{- $out := dict -}}
{{- if not (kindIs "invalid" $v.deepep.numTokens) }}{{ $_ := set $out "num-tokens" $v.deepep.numTokens }}{{ end -}}
{{- with $v.deepep.hidden }}{{ $_ := set $out "hidden-dim" . }}{{ end -}}
{{- with $v.deepep.numTopk }}{{ $_ := set $out "num-topk" . }}{{ end -}}
{{- with $v.deepep.numExperts -}}
{{- if mod (int .) $ranks -}}
{{- fail (printf "deepep.numExperts is %d, and there are %d ranks: it must be a multiple of that" (int .) $ranks) -}}
{{- end -}}
{{- $_ := set $out "num-experts-per-rank" (div (int .) $ranks) -}}
{{- end -}}
{{- if include "weft.gpuCount" . | int }}{{ $_ := set $out "memory" "cuda" }}{{ end -}}
{{- range $name, $value := $v.elastic.options }}{{ $_ := set $out (replace "_" "-" $name) $value }}{{ end -}}
{{- $out | toJson -}}
{{- end }}

{{/* The plan of job=elastic, as JSON. */}}
{{- define "weft.plan" -}}
{{- $v := .Values -}}
{{- $ranks := mul (include "weft.nodes" . | int) (include "weft.ranksPerNode" . | int) | int -}}
{{- $plan := $v.elastic.plan -}}
{{- if kindIs "string" $plan -}}
{{- $file := printf "plans/%s.json" $plan -}}
{{- $plan = .Files.Get $file | required (printf "elastic.plan: there is no plan %s in the chart" $plan) | fromJsonArray -}}
{{- else if not $plan -}}
{{- if gt $ranks 4096 -}}
{{- fail (printf "nodes x ranksPerNode is %d, and a group has 4096 ranks at most: want fewer, or an elastic.plan with fewer" $ranks) -}}
{{- end -}}
{{- $plan = list (untilStep 0 (max 1 (div $ranks 2) | int) 1) (until $ranks) -}}
{{- end -}}
{{- include "weft.checkRanks" (dict "memory" (include "weft.elasticOptions" . | fromJson).memory "plan" $plan) -}}
{{- /* With numAgents pods may come later, for phases that have no room yet. */ -}}
{{- if not (and (include "weft.comeAndGo" .) $v.elastic.numAgents) -}}
{{- range $phase, $members := $plan -}}
{{- if gt (len $members) $ranks -}}
{{- fail (printf "elastic.plan: phase %d has %d ranks, and there is room for %d: nodes x ranksPerNode (with elastic.numAgents more nodes may come later)" $phase (len $members) $ranks) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $plan | toJson -}}
{{- end }}

{{/* A group on GPUs has 64 ranks at most. Otherwise a run says so when its pods already have the GPUs: dict "memory"
MEMORY "plan" PLAN */}}
{{- define "weft.checkRanks" -}}
{{- if eq (toString .memory) "cuda" -}}
{{- range $phase, $members := .plan -}}
{{- if gt (len $members) 64 -}}
{{- fail (printf "phase %d of the plan has %d ranks, and a group on GPUs has 64 at most: want fewer nodes or ranksPerNode, an elastic.plan with fewer, or elastic.options.memory=host" $phase (len $members)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* How the pods of elastic, bench and ep meet: dict "root" $ "role" ROLE */}}
{{- define "weft.meeting" -}}
{{- $root := .root -}}
{{- $port := include "weft.port" $root -}}
{{- $out := list "--startup-timeout" (printf "%d" (int $root.Values.startupTimeoutSeconds)) -}}
{{- if $root.Values.store.url -}}
{{- $out = concat $out (list "--store" $root.Values.store.url) -}}
{{- else if eq .role "master" -}}
{{- $out = concat $out (list "--listen" $root.Values.listen "--store-port" $port) -}}
{{- else -}}
{{- $out = concat $out (list "--rank-server" (printf "%s:%s" (include "weft.master" $root) $port)) -}}
{{- end -}}
{{- $out | toJson -}}
{{- end }}

{{/* The arguments of weft: dict "root" $ "role" ROLE */}}
{{- define "weft.args" -}}
{{- $root := .root -}}
{{- $v := $root.Values -}}
{{- $master := eq .role "master" -}}
{{- $nodes := include "weft.nodes" $root | int -}}
{{- $perNode := include "weft.ranksPerNode" $root -}}
{{- $port := include "weft.port" $root -}}
{{- $meeting := include "weft.meeting" . | fromJsonArray -}}
{{- $timeout := printf "%d" (mul (int $v.startupTimeoutSeconds) 1000 | min 600000) -}}
{{- $out := list -}}
{{- if eq $v.job "elastic" -}}
{{- $out = concat (list "elastic" "--job" (include "weft.testId" $root) "--num-processes" $perNode) $meeting -}}
{{- if $master -}}
{{- $agents := $v.elastic.numAgents | default $nodes | int -}}
{{- if and (eq $v.elastic.agents "fixed") (ne $agents $nodes) -}}
{{- fail (printf "elastic.numAgents is %d, and there are %d nodes: with elastic.agents=fixed none comes later, so leave it out" $agents $nodes) -}}
{{- end -}}
{{- $out = concat $out (list "--plan" "/etc/weft/plan.json" "--num-agents" (printf "%d" $agents) "--agents" $v.elastic.agents) -}}
{{- $out = concat $out (include "weft.elasticOptions" $root | fromJson | include "weft.options" | fromJsonArray) -}}
{{- if $v.results.json }}{{ $out = append $out "--json" }}{{ end -}}
{{- end -}}
{{- if $v.metrics.enabled -}}
{{- $out = concat $out (list "--metrics" (include "weft.listenAt" (dict "root" $root "port" $v.metrics.port)) "--metrics-bearer-file" "/tmp/bearer") -}}
{{- end -}}
{{- else if eq $v.job "bench" -}}
{{- $out = concat (list "bench" "transfer" "--benchmark-group" (include "weft.testId" $root)) $meeting -}}
{{- include "weft.checkBenchGpus" $root -}}
{{- $out = concat $out (include "weft.benchWorkers" $root | fromJsonArray) -}}
{{- if include "weft.benchOnGpus" $root }}{{ $out = concat $out (list "--initiator-seg-type" "VRAM" "--target-seg-type" "VRAM") }}{{ end -}}
{{- $out = concat $out (include "weft.options" $v.bench.options | fromJsonArray) -}}
{{- if and $master $v.results.json }}{{ $out = concat $out (list "--json" "-") }}{{ end -}}
{{- else if eq $v.job "ep" -}}
{{- $ranks := printf "%d" (mul $nodes (int $perNode)) -}}
{{- if and (gt (int $ranks) 64) (include "weft.gpuCount" $root | int) (has (toString ($v.ep.options.memory | default "cuda")) (list "cuda" "host,cuda" "cuda,host")) -}}
{{- fail (printf "nodes x ranksPerNode is %s, and a group on GPUs has 64 ranks at most: want fewer, or ep.options.memory=host" $ranks) -}}
{{- end -}}
{{- $out = concat (list "bench" "ep" "--benchmark-group" (include "weft.testId" $root)) $meeting (list "--ranks" $ranks "--local-ranks" $perNode) -}}
{{- if include "weft.gpuCount" $root | int }}{{ $out = concat $out (list "--memory" "cuda") }}{{ end -}}
{{- $out = concat $out (include "weft.options" $v.ep.options | fromJsonArray) -}}
{{- if and $master $v.results.json }}{{ $out = concat $out (list "--json" "-") }}{{ end -}}
{{- else if eq $v.job "p2p" -}}
{{- $startup := printf "%d" (int $v.startupTimeoutSeconds) -}}
{{- $side := ternary (list "--mode" "target" "--listen" $v.listen "--initiators" (printf "%d" (sub $nodes 1))) (list "--mode" "initiator" "--startup-timeout" $startup "--ip" (include "weft.master" $root)) $master -}}
{{- $out = concat (list "p2p") $side (list "--port" $port "--timeout-ms" $timeout) -}}
{{- if include "weft.gpuCount" $root | int }}{{ $out = append $out "--cuda" }}{{ end -}}
{{- if not $master -}}
{{- $out = concat $out (include "weft.options" $v.p2p.options | fromJsonArray) -}}
{{- if $v.results.json }}{{ $out = append $out "--json" }}{{ end -}}
{{- end -}}
{{- else -}}
{{- $out = list "doctor" -}}
{{- /* A step is also a library that hangs: all of them together leave time for the rest, and for the report. */ -}}
{{- $timeout = printf "%d" (mul (int $v.startupTimeoutSeconds) 1000 | min 30000) -}}
{{- if not $master }}{{ $out = concat $out (list "--peer" (printf "%s:%s" (include "weft.master" $root) $port) "--startup-timeout" (printf "%d" (int $v.startupTimeoutSeconds)) "--timeout-ms" $timeout) }}{{ end -}}
{{- if $v.results.json }}{{ $out = append $out "--json" }}{{ end -}}
{{- $out = concat $out (include "weft.options" $v.doctor.options | fromJsonArray) -}}
{{- end -}}
{{- $out | toJson -}}
{{- end }}

{{/* The options of a transfer by names that have "_", as JSON. */}}
{{- define "weft.benchOptions" -}}
{{- $options := dict -}}
{{- range $name, $value := .Values.bench.options }}{{ $_ := set $options (replace "-" "_" $name) $value }}{{ end -}}
{{- $options | toJson -}}
{{- end }}

{{/* Initiators and targets of a transfer, as JSON. */}}
{{- define "weft.benchSides" -}}
{{- $options := include "weft.benchOptions" . | fromJson -}}
{{- $half := max 1 (div (include "weft.nodes" . | int) 2) -}}
{{- dict "initiators" ($options.num_initiator_dev | default $half | int) "targets" ($options.num_target_dev | default $half | int) | toJson -}}
{{- end }}

{{/* How many devices of a transfer a pod has: with mode SG as many as workers. */}}
{{- define "weft.benchDevices" -}}
{{- $sides := include "weft.benchSides" . | fromJson -}}
{{- $devices := add (int $sides.initiators) (int $sides.targets) -}}
{{- max 1 (div (add $devices (include "weft.nodes" . | int) -1) (include "weft.nodes" . | int)) -}}
{{- end }}

{{/* How many workers of a transfer a pod has: all pods alike. */}}
{{- define "weft.benchWorkers" -}}
{{- $options := include "weft.benchOptions" . | fromJson -}}
{{- $sides := include "weft.benchSides" . | fromJson -}}
{{- $nodes := include "weft.nodes" . | int -}}
{{- $workers := ternary 2 (add (int $sides.initiators) (int $sides.targets) | int) (eq (toString ($options.mode | default "SG")) "MG") -}}
{{- if mod $workers $nodes -}}
{{- fail (printf "bench.options: %d workers (num_initiator_dev + num_target_dev, or 2 with mode MG) cannot be shared evenly by %d nodes" $workers $nodes) -}}
{{- end -}}
{{- $out := list "--local-workers" (printf "%d" (div $workers $nodes)) -}}
{{- if not $options.num_initiator_dev }}{{ $out = concat $out (list "--num-initiator-dev" (toString $sides.initiators)) }}{{ end -}}
{{- if not $options.num_target_dev }}{{ $out = concat $out (list "--num-target-dev" (toString $sides.targets)) }}{{ end -}}
{{- $out | toJson -}}
{{- end }}

{{/* Whether a transfer measures GPU memory without an option that says so: pods have GPUs, and no option is about host
memory alone. */}}
{{- define "weft.benchOnGpus" -}}
{{- $options := include "weft.benchOptions" . | fromJson -}}
{{- $said := or (hasKey $options "initiator_seg_type") (hasKey $options "target_seg_type") $options.use_hugepages -}}
{{- $ways := list ($options.transport | default "" | toString) -}}
{{- with $options.backend }}{{ $ways = concat $ways (ternary . (toString . | splitList ",") (kindIs "slice" .)) }}{{ end -}}
{{- range $ways }}{{ if has (upper . | trim) (list "SHM" "POSIX" "OBJ" "OBJECT" "FILE") }}{{ $said = true }}{{ end }}{{ end -}}
{{- if and (include "weft.gpuCount" . | int) (not $said) }}yes{{ end -}}
{{- end }}

{{/* Refuses a transfer whose two ends would be on the only GPU: it crosses no link, so weft refuses every figure. GDS has
one end there and the other in a file. */}}
{{- define "weft.checkBenchGpus" -}}
{{- $options := include "weft.benchOptions" . | fromJson -}}
{{- $files := contains "GDS" ($options.backend | toString | upper) -}}
{{- if and (eq 1 (include "weft.nodes" . | int)) (eq 1 (include "weft.gpuCount" . | int)) (include "weft.benchOnGpus" .) (not $files) -}}
{{- fail "job=bench has one node with one GPU, so both ends of a transfer would be on that GPU, and no link is measured: want nodes=2, resources.gpuCount=2, or bench.options.initiator_seg_type=VRAM for a GPU and host memory" -}}
{{- end -}}
{{- end }}

{{/* The command of a container. A shell stands before weft only where it has to stay behind it:
dict "root" $ "role" ROLE */}}
{{- define "weft.command" -}}
{{- $v := .root.Values -}}
{{- $command := list "weft" -}}
{{- $run := .root.Files.Get "files/run.sh" -}}
{{- $stay := .root.Files.Get "files/stay.sh" -}}
{{- $answers := and (eq $v.job "doctor") (eq .role "master") -}}
{{- if $answers -}}
{{- $run = print $run (.root.Files.Get "files/answer.sh") -}}
{{- end -}}
{{- if eq $v.mode "lws" -}}
{{- $again := and (eq .role "worker") (include "weft.comeAndGo" .root) -}}
{{- $command = list "/bin/sh" "-c" (print $run $stay) (ternary "stays" (ternary "again" "stay" (not (empty $again))) $answers) -}}
{{- else if $answers -}}
{{- $command = list "/bin/sh" "-c" $run "answer" -}}
{{- end -}}
{{- if $answers -}}
{{- $seconds := $v.doctor.listenSeconds | default (min $v.startupTimeoutSeconds (sub $v.activeDeadlineSeconds 60 | max 1)) -}}
{{- $command = concat $command (list (include "weft.port" .root) (printf "%d" (int $seconds))) -}}
{{- end -}}
{{- concat $command (include "weft.args" . | fromJsonArray) | toJson -}}
{{- end }}
