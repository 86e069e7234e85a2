// A node of YAML as JSON, for what is kept and not understood. Only where there is libyaml.
#ifndef BENCH_TRAFFIC_YAML_JSON_H
#define BENCH_TRAFFIC_YAML_JSON_H

#include <jansson.h>
#include <yaml.h>

// NULL: memory ran out, or the node is larger than metadata has to be; also one that is part of itself, by an alias.
json_t *traffic_yaml_json(yaml_document_t *document, const yaml_node_t *node);

#endif
