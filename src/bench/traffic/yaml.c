// Reads the list of patterns from YAML, by libyaml. One table says what each node may be.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <yaml.h>

#include "base/fail.h"
#include "bench/traffic/pattern.h"
#include "bench/traffic/yaml_json.h"

enum { MAX_TEXT = 1 << 20, SHOWN = 40 };

struct reader {
  yaml_document_t *document;
  const char *source;
  uint32_t workers;
  struct traffic_plan *plan;
  const yaml_node_t *matrix_file; // of the pattern that is read now
};

static int complain(const struct reader *reader, const yaml_node_t *node, const char *sentence, const char *what) {
  fail(WEFT_ERR_INVALID, sentence, what); // NOLINT: the formats are all in this file
  return fail_context(WEFT_ERR_INVALID, "%s:%zu:%zu", reader->source, node->start_mark.line + 1,
                      node->start_mark.column + 1);
}

static const char *kind_of(const yaml_node_t *node) {
  return node->type == YAML_MAPPING_NODE ? "a mapping" : node->type == YAML_SEQUENCE_NODE ? "a list" : "a scalar";
}

// The text of a scalar; NULL if the node is no scalar, or has a NUL character in it.
static const char *text_of(const yaml_node_t *node) {
  const char *text = node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
  return text && strlen(text) == node->data.scalar.length ? text : NULL;
}

static int read_name(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern) {
  const char *text = text_of(node);
  if (!text || !*text || strlen(text) >= sizeof pattern->name || strpbrk(text, "\n\r\t\033"))
    return complain(reader, node, "name: want 1 to 63 bytes on one line, not %s", kind_of(node));
  snprintf(pattern->name, sizeof pattern->name, "%s", text);
  return 0;
}

static int read_matrix_file(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern) {
  (void)pattern;
  if (!text_of(node) || !*text_of(node))
    return complain(reader, node, "matrix_file: want the path of a matrix, not %s", kind_of(node));
  reader->matrix_file = node; // it is read when the shards are known, wherever they are in the document
  return 0;
}

static int read_shards(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern) {
  const char *text = text_of(node);
  char *end = NULL;
  errno = 0;
  unsigned long value = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
  if (!end || *end || errno || value < 1 || value > TRAFFIC_MAX_SHARDS)
    return complain(reader, node, "shards: %s: want a number of pieces, 1 to 65536", text ? text : kind_of(node));
  pattern->shards = (uint32_t)value;
  return 0;
}

static int read_memory(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern) {
  static const struct {
    const char *name;
    enum traffic_memory memory;
  } known[] = {{"cpu", TRAFFIC_HOST},
               {"dram", TRAFFIC_HOST},
               {"host", TRAFFIC_HOST},
               {"cuda", TRAFFIC_CUDA},
               {"vram", TRAFFIC_CUDA}};
  const char *text = text_of(node);
  for (size_t i = 0; text && i < sizeof known / sizeof *known; i++)
    if (strcasecmp(text, known[i].name) == 0) {
      pattern->memory = known[i].memory;
      pattern->memory_given = true;
      return 0;
    }
  return complain(reader, node, "mem_type: %s: want cpu, dram or host, cuda or vram", text ? text : kind_of(node));
}

static int read_op(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern) {
  const char *text = text_of(node);
  if (!text || (strcasecmp(text, "WRITE") != 0 && strcasecmp(text, "READ") != 0))
    return complain(reader, node, "xfer_op: %s: want WRITE or READ", text ? text : kind_of(node));
  pattern->op = strcasecmp(text, "READ") == 0 ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE;
  return 0;
}

static bool is_null(const char *text) {
  return !*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

static int read_gap(struct reader *reader, const yaml_node_t *node, double *seconds) {
  const char *text = text_of(node);
  char *end = NULL;
  if (text && is_null(text)) {
    *seconds = 0;
    return 0;
  }
  double value = text && strspn(text, "0123456789.eE+-") == strlen(text) ? strtod(text, &end) : -1;
  if (!end || *end || !(value >= 0 && value <= TRAFFIC_MAX_SLEEP_S))
    return complain(reader, node, "a gap of %s: want 0 to 3600 seconds", text ? text : kind_of(node));
  *seconds = value;
  return 0;
}

static int read_before(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern) {
  return read_gap(reader, node, &pattern->before_s);
}

static int read_after(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern) {
  return read_gap(reader, node, &pattern->after_s);
}

static int read_metadata(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern) {
  pattern->metadata = traffic_yaml_json(reader->document, node);
  return pattern->metadata ? 0
                           : complain(reader, node, "metadata: %s that is too large or contains itself", kind_of(node));
}

static const struct {
  const char *name;
  int (*read)(struct reader *reader, const yaml_node_t *node, struct traffic_pattern *pattern);
} members[] = {
    {"name", read_name},
    {"matrix_file", read_matrix_file},
    {"shards", read_shards},
    {"mem_type", read_memory},
    {"xfer_op", read_op},
    {"sleep_before_launch_sec", read_before},
    {"sleep_after_launch_sec", read_after},
    {"metadata", read_metadata},
};
enum { MEMBERS = sizeof members / sizeof *members };

static int read_member(struct reader *reader, const yaml_node_pair_t *pair, struct traffic_pattern *pattern,
                       bool seen[MEMBERS]) {
  const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
  const yaml_node_t *value = yaml_document_get_node(reader->document, pair->value);
  const char *name = text_of(key);
  for (size_t i = 0; name && i < MEMBERS; i++) {
    if (strcmp(name, members[i].name) != 0)
      continue;
    if (seen[i])
      return complain(reader, key, "%s is given twice in one pattern", name);
    seen[i] = true;
    return members[i].read(reader, value, pattern);
  }
  char shown[SHOWN + 1];
  snprintf(shown, sizeof shown, "%s", name ? name : kind_of(key));
  return complain(reader, key,
                  "a pattern has no member %s: want matrix_file, shards, mem_type, xfer_op, "
                  "sleep_before_launch_sec, sleep_after_launch_sec, metadata or name",
                  shown);
}

// A relative path starts at the folder of the document.
static int load_matrix(struct reader *reader, struct traffic_pattern *pattern) {
  const char *file = text_of(reader->matrix_file), *slash = strrchr(reader->source, '/');
  char path[PATH_MAX];
  bool own = *file == '/' || !slash;
  int size = own ? snprintf(path, sizeof path, "%s", file)
                 : snprintf(path, sizeof path, "%.*s/%s", (int)(slash - reader->source), reader->source, file);
  if (size < 0 || (size_t)size >= sizeof path)
    return complain(reader, reader->matrix_file, "matrix_file: the path is too long%s", "");
  int rc = traffic_matrix_load(pattern, path, reader->workers);
  // An error in the matrix has its own position, in the file of the matrix.
  if (rc == 0 || rc == WEFT_ERR_INVALID)
    return rc;
  return fail_context(rc, "%s:%zu:%zu", reader->source, reader->matrix_file->start_mark.line + 1,
                      reader->matrix_file->start_mark.column + 1);
}

static int read_pattern(struct reader *reader, const yaml_node_t *node) {
  bool seen[MEMBERS] = {false};
  if (node->type != YAML_MAPPING_NODE)
    return complain(reader, node, "a pattern is a mapping with a matrix_file, not %s", kind_of(node));
  struct traffic_pattern *pattern = traffic_plan_add(reader->plan);
  if (!pattern)
    return fail_context(WEFT_ERR_LIMIT, "%s", reader->source);
  reader->matrix_file = NULL;
  int rc = 0;
  for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top && rc == 0;
       pair++)
    rc = read_member(reader, pair, pattern, seen);
  if (rc == 0 && !reader->matrix_file)
    rc = complain(reader, node, "%s without matrix_file: want the path of its matrix", "a pattern");
  return rc == 0 ? load_matrix(reader, pattern) : rc;
}

static int read_list(struct reader *reader, const yaml_node_t *list) {
  if (list->type != YAML_SEQUENCE_NODE)
    return complain(reader, list, "traffic_patterns is a list of patterns, not %s", kind_of(list));
  int rc = 0;
  for (const yaml_node_item_t *item = list->data.sequence.items.start; item < list->data.sequence.items.top && rc == 0;
       item++)
    rc = read_pattern(reader, yaml_document_get_node(reader->document, *item));
  if (rc == 0 && reader->plan->num_patterns == 0)
    rc = complain(reader, list, "traffic_patterns is %s: want at least one pattern", "empty");
  return rc;
}

static int read_root(struct reader *reader) {
  const yaml_node_t *root = yaml_document_get_root_node(reader->document);
  if (!root)
    return fail(WEFT_ERR_INVALID, "%s:1:1: the document is empty: want traffic_patterns: [...]", reader->source);
  if (root->type != YAML_MAPPING_NODE)
    return complain(reader, root, "%s: want a mapping with traffic_patterns; --matrix gives a matrix", kind_of(root));
  const yaml_node_t *list = NULL;
  for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
    const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
    if (!text_of(key) || strcmp(text_of(key), "traffic_patterns") != 0 || list)
      return complain(reader, key, "%s: want traffic_patterns once, and no other member beside it",
                      text_of(key) ? text_of(key) : kind_of(key));
    list = yaml_document_get_node(reader->document, pair->value);
  }
  return list ? read_list(reader, list) : complain(reader, root, "%s without traffic_patterns", kind_of(root));
}

static int refuse_text(const yaml_parser_t *parser, const char *source) {
  if (parser->error == YAML_MEMORY_ERROR)
    return fail(WEFT_ERR_NOMEM, "%s: no memory to read it", source);
  bool marked = parser->error != YAML_READER_ERROR;
  return fail(WEFT_ERR_INVALID, "%s:%zu:%zu: not YAML: %s", source, marked ? parser->problem_mark.line + 1 : 1,
              marked ? parser->problem_mark.column + 1 : parser->problem_offset + 1,
              parser->problem ? parser->problem : "unreadable");
}

int traffic_yaml_parse(struct traffic_plan *plan, const char *text, size_t size, const char *source, uint32_t workers) {
  yaml_parser_t parser;
  yaml_document_t document;
  *plan = (struct traffic_plan){0};
  if (!yaml_parser_initialize(&parser))
    return fail(WEFT_ERR_NOMEM, "%s: no memory to read it", source);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
  if (!yaml_parser_load(&parser, &document)) {
    int rc = refuse_text(&parser, source);
    yaml_parser_delete(&parser);
    return rc;
  }
  struct reader reader = {.document = &document, .source = source, .workers = workers, .plan = plan};
  int rc = read_root(&reader);
  yaml_document_delete(&document);
  yaml_parser_delete(&parser);
  for (uint32_t i = 0; i < plan->num_patterns; i++)
    plan->ranks = plan->patterns[i].ranks > plan->ranks ? plan->patterns[i].ranks : plan->ranks;
  if (rc != 0)
    traffic_plan_free(plan);
  return rc;
}

int traffic_yaml_load(struct traffic_plan *plan, const char *path, uint32_t workers) {
  char *text = NULL;
  size_t size = 0;
  int rc = traffic_file_read(path, "YAML with traffic_patterns", MAX_TEXT, &text, &size);
  if (rc == 0)
    rc = traffic_yaml_parse(plan, text, size, path, workers);
  free(text);
  return rc;
}
