// Converts a YAML node to JSON, for data that is kept but not interpreted. Only in builds with libyaml.
#ifndef BENCH_TRAFFIC_YAML_JSON_H
#define BENCH_TRAFFIC_YAML_JSON_H

#include <jansson.h>
#include <yaml.h>

// NULL: memory ran out, or the node is too large for metadata, or it contains itself through an alias.
json_t *traffic_yaml_json(yaml_document_t *document, const yaml_node_t *node);

#endif
