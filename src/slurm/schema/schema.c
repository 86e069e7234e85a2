// Checks tables against their keys, and describes what would be right.
#include "slurm/schema/schema.h"

#include <inttypes.h>
#include <string.h>

#include "base/text/nearest.h"
#include "base/text/text.h"

const struct slurm_key *slurm_schema_find(const struct slurm_schema *schema, const char *name) {
  for (size_t i = 0; i < schema->count; i++)
    if (strcmp(schema->keys[i].name, name) == 0)
      return &schema->keys[i];
  return NULL;
}

const char *slurm_schema_nearest(const struct slurm_schema *schema, const char *name) {
  struct nearest nearest = {.wanted = name};
  for (size_t i = 0; i < schema->count; i++)
    nearest_offer(&nearest, schema->keys[i].name);
  return nearest.best;
}

bool slurm_schema_misspells(const struct toml_value *member, const char *name, const struct slurm_faults *faults) {
  struct nearest nearest = {.wanted = member->key};
  nearest_offer(&nearest, name);
  return nearest.best && slurm_fault_is_at(faults, member->key_at);
}

static void add_range(struct text *text, const struct slurm_key *key) {
  if (key->max == INT64_MAX)
    text_add(text, " of at least %" PRId64, key->min);
  else if (key->min || key->max)
    text_add(text, " from %" PRId64 " to %" PRId64, key->min, key->max);
}

static void add_choices(struct text *text, const struct slurm_key *key) {
  for (size_t i = 0; key->choices[i]; i++)
    text_add(text, "%s\"%s\"", i == 0 ? "" : key->choices[i + 1] ? ", " : " or ", key->choices[i]);
}

static void add_or(struct text *text) {
  if (text->size)
    text_add(text, ", or ");
}

static void add_elements(struct text *text, unsigned types) {
  static const struct {
    unsigned type;
    const char *plural;
  } names[] = {{SCHEMA_TABLE, "tables"},     {SCHEMA_ARRAY, "lists"},
               {SCHEMA_STRING, "strings"},   {1 << TOML_INTEGER, "whole numbers"},
               {1 << TOML_FLOAT, "numbers"}, {SCHEMA_BOOLEAN, "booleans"}};
  bool first = true;
  text_add(text, "a list");
  for (size_t i = 0; types && i < sizeof names / sizeof *names; i++)
    if (types & names[i].type) {
      text_add(text, "%s%s", first ? " of " : " or ", names[i].plural);
      first = false;
    }
}

// Describes what the key wants; the caller frees the text.
static void describe(struct text *text, const struct slurm_key *key) {
  if (key->types & SCHEMA_STRING && key->choices)
    add_choices(text, key);
  else if (key->types & SCHEMA_STRING)
    text_add(text, "a string");
  if (key->types & SCHEMA_NUMBER) {
    add_or(text);
    text_add(text, (key->types & 1 << TOML_FLOAT) ? "a number" : "a whole number");
    add_range(text, key);
  }
  if (key->types & SCHEMA_BOOLEAN) {
    add_or(text);
    text_add(text, "true or false");
  }
  if (key->types & SCHEMA_TABLE) {
    add_or(text);
    text_add(text, "a table");
  }
  if (key->types & SCHEMA_ARRAY) {
    add_or(text);
    add_elements(text, key->elements);
  }
  if (key->grid)
    text_add(text, ", or a list of them for a grid");
}

static void refuse(const struct slurm_key *key, const struct toml_value *value, struct slurm_faults *faults) {
  struct text want = {0};
  describe(&want, key);
  const char *quote = value->type == TOML_STRING ? "\"" : "";
  if (*value->text && key->types & (1U << value->type))
    slurm_fault(faults, value->at, "%s is %s%s%s; want %s", key->name, quote, value->text, quote, want.data);
  else
    slurm_fault(faults, value->at, "%s is %s; want %s", key->name,
                value->type == TOML_STRING && !*value->text ? "an empty string" : toml_type_name(value->type),
                want.data);
  text_free(&want);
}

static bool is_choice(const struct slurm_key *key, const char *text) {
  for (size_t i = 0; key->choices[i]; i++)
    if (strcmp(key->choices[i], text) == 0)
      return true;
  return false;
}

static void refuse_choice(const struct slurm_key *key, const struct toml_value *value, struct slurm_faults *faults) {
  struct nearest nearest = {.wanted = value->text};
  struct text want = {0};
  for (size_t i = 0; key->choices[i]; i++)
    nearest_offer(&nearest, key->choices[i]);
  add_choices(&want, key);
  slurm_fault(faults, value->at, "%s is \"%s\"; %s%s%swant %s", key->name, value->text,
              nearest.best ? "did you mean \"" : "", nearest.best ? nearest.best : "", nearest.best ? "\"? " : "",
              want.data);
  text_free(&want);
}

static void check_string(const struct slurm_key *key, const struct toml_value *value, struct slurm_faults *faults) {
  const char *want = NULL;
  if (key->choices && !is_choice(key, value->text))
    refuse_choice(key, value, faults);
  else if (!*value->text && key->required)
    refuse(key, value, faults);
  else if (key->check)
    want = key->check(value->text);
  if (want)
    slurm_fault(faults, value->at, "%s is \"%s\"; want %s", key->name, value->text, want);
}

static void check_elements(const struct slurm_key *key, const struct toml_value *value, struct slurm_faults *faults) {
  if (value->count == 0 && key->required)
    slurm_fault(faults, value->at, "%s is an empty list; want at least one element", key->name);
  for (size_t i = 0; i < value->count; i++) {
    const struct toml_value *element = &value->children[i];
    const char *want = element->type == TOML_STRING && key->check ? key->check(element->text) : NULL;
    if (key->elements && !(key->elements & (1U << element->type)))
      slurm_fault(faults, element->at, "element %zu of %s is %s; want %s", i + 1, key->name,
                  toml_type_name(element->type), key->elements == SCHEMA_STRING ? "a string" : "another type");
    else if (element->type == TOML_TABLE && key->inside)
      slurm_schema_check(key->inside, element, faults);
    else if (want)
      slurm_fault(faults, element->at, "element %zu of %s is \"%s\"; want %s", i + 1, key->name, element->text, want);
  }
}

static void check_grid(const struct slurm_key *key, const struct toml_value *value, struct slurm_faults *faults) {
  if (value->count == 0)
    slurm_fault(faults, value->at, "%s is an empty list, so the grid has no run; want at least one value", key->name);
  for (size_t i = 0; i < value->count; i++)
    if (value->children[i].type == TOML_ARRAY && !key->each)
      refuse(key, &value->children[i], faults);
    else
      slurm_schema_check_value(key, &value->children[i], faults);
}

void slurm_schema_check_value(const struct slurm_key *key, const struct toml_value *value,
                              struct slurm_faults *faults) {
  if (value->type == TOML_ARRAY && key->grid && !(key->types & SCHEMA_ARRAY)) {
    check_grid(key, value, faults);
    return;
  }
  bool number = value->type == TOML_INTEGER || value->type == TOML_FLOAT;
  bool in_range =
      !number || (!key->min && !key->max) || (value->number >= (double)key->min && value->number <= (double)key->max);
  if (!(key->types & (1U << value->type)) || !in_range)
    refuse(key, value, faults);
  else if (value->type == TOML_STRING)
    check_string(key, value, faults);
  else if (value->type == TOML_ARRAY)
    check_elements(key, value, faults);
  else if (value->type == TOML_TABLE && key->inside)
    slurm_schema_check(key->inside, value, faults);
}

static void refuse_key(const struct slurm_schema *schema, const struct toml_value *member,
                       struct slurm_faults *faults) {
  const char *near = slurm_schema_nearest(schema, member->key);
  slurm_fault(faults, member->key_at, "%s is not a key of %s%s%s%s", member->key, schema->what,
              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

// Whether a missing key is only misspelt: then one fault is enough.
static bool is_misspelt(const struct slurm_schema *schema, const struct toml_value *table, const char *name) {
  for (size_t i = 0; i < table->count; i++) {
    const char *key = table->children[i].key;
    const char *near = slurm_schema_find(schema, key) ? NULL : slurm_schema_nearest(schema, key);
    if (near && strcmp(near, name) == 0)
      return true;
  }
  return false;
}

void slurm_schema_check(const struct slurm_schema *schema, const struct toml_value *table,
                        struct slurm_faults *faults) {
  for (size_t i = 0; i < table->count; i++) {
    const struct toml_value *member = &table->children[i];
    const struct slurm_key *key = slurm_schema_find(schema, member->key);
    if (key)
      slurm_schema_check_value(key, member, faults);
    else if (!schema->open)
      refuse_key(schema, member, faults);
  }
  for (size_t i = 0; i < schema->count; i++) {
    const struct slurm_key *key = &schema->keys[i];
    if (!key->required || toml_get(table, key->name) || is_misspelt(schema, table, key->name))
      continue;
    struct text want = {0};
    describe(&want, key);
    slurm_fault(faults, table->at, "%s has no %s; want %s there", schema->what, key->name, want.data);
    text_free(&want);
  }
}
