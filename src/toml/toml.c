// Functions that need no parser: files, members, and names of types.
#include "toml/toml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"

enum { MOST_BYTES = 1 << 20 };

static int read_all(const char *path, struct text *text) {
  char chunk[4096];
  size_t got;
  FILE *file = fopen(path, "re");
  if (!file)
    return fail_errno(errno, "cannot read %s", path);
  while (text->size <= MOST_BYTES && (got = fread(chunk, 1, sizeof chunk, file)) > 0)
    text_add_bytes(text, chunk, got);
  int error = ferror(file) ? errno : 0;
  fclose(file);
  if (error)
    return fail_errno(error, "cannot read %s", path);
  if (text->failed)
    return fail(WEFT_ERR_NOMEM, "no memory for %s", path);
  return text->size <= MOST_BYTES ? 0 : fail(WEFT_ERR_LIMIT, "%s has more than %d bytes", path, MOST_BYTES);
}

int toml_load(struct toml_value **root, const char *path) {
  struct text text = {0};
  int err = read_all(path, &text);
  if (!err && text.data && strlen(text.data) != text.size)
    err = fail(WEFT_ERR_INVALID, "%s: it is not TOML: it contains a NUL character", path);
  if (!err)
    err = toml_parse(root, path, text.data ? text.data : "");
  text_free(&text);
  return err;
}

const struct toml_value *toml_get(const struct toml_value *table, const char *key) {
  if (!table || table->type != TOML_TABLE)
    return NULL;
  for (size_t i = 0; i < table->count; i++)
    if (strcmp(table->children[i].key, key) == 0)
      return &table->children[i];
  return NULL;
}

const char *toml_string(const struct toml_value *value) {
  return value && value->type == TOML_STRING && *value->text ? value->text : NULL;
}

const char *toml_type_name(enum toml_type type) {
  static const char *const names[] = {
      [TOML_TABLE] = "a table",
      [TOML_ARRAY] = "a list",
      [TOML_STRING] = "a string",
      [TOML_INTEGER] = "a whole number",
      [TOML_FLOAT] = "a number with a point",
      [TOML_BOOLEAN] = "a boolean",
      [TOML_TIME] = "a date or a time",
  };
  return names[type];
}
