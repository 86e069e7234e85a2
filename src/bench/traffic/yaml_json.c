// Converts YAML to JSON, with a limit on size: aliases can make a small text a large or even an endless tree.
#include "bench/traffic/yaml_json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8, MAX_NODES = 1024 };

struct budget {
  yaml_document_t *document;
  unsigned left;
};

static json_t *convert(struct budget *budget, const yaml_node_t *node, unsigned depth);

// A plain scalar that looks like a number, a boolean or null becomes one, as YAML says.
static json_t *scalar(const yaml_node_t *node) {
  const char *text = (const char *)node->data.scalar.value;
  size_t size = node->data.scalar.length;
  if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || strlen(text) != size)
    return json_stringn(text, size);
  if (size == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)
    return json_null();
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
    return json_boolean(*text == 't');
  if (strspn(text, "0123456789.eE+-") == size) {
    char *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (!*end && !errno)
      return json_integer(whole);
    double real = strtod(text, &end);
    json_t *json = *end ? NULL : json_real(real); // NULL for an infinite number
    if (json)
      return json;
  }
  return json_stringn(text, size);
}

static json_t *sequence(struct budget *budget, const yaml_node_t *node, unsigned depth) {
  json_t *list = json_array();
  for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
    if (json_array_append_new(list, convert(budget, yaml_document_get_node(budget->document, *item), depth + 1)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

static json_t *mapping(struct budget *budget, const yaml_node_t *node, unsigned depth) {
  json_t *object = json_object();
  for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
    const yaml_node_t *key = yaml_document_get_node(budget->document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(budget->document, pair->value);
    bool named =
        key->type == YAML_SCALAR_NODE && strlen((const char *)key->data.scalar.value) == key->data.scalar.length;
    if (!named ||
        json_object_set_new(object, (const char *)key->data.scalar.value, convert(budget, value, depth + 1)) != 0) {
      json_decref(object);
      return NULL;
    }
  }
  return object;
}

static json_t *convert(struct budget *budget, const yaml_node_t *node, unsigned depth) { // NOLINT: bounded by depth
  if (depth > MAX_DEPTH || budget->left == 0)
    return NULL;
  budget->left--;
  switch (node->type) {
  case YAML_SCALAR_NODE:
    return scalar(node);
  case YAML_SEQUENCE_NODE:
    return sequence(budget, node, depth);
  case YAML_MAPPING_NODE:
    return mapping(budget, node, depth);
  default:
    return NULL;
  }
}

json_t *traffic_yaml_json(yaml_document_t *document, const yaml_node_t *node) {
  struct budget budget = {.document = document, .left = MAX_NODES};
  return convert(&budget, node, 0);
}
