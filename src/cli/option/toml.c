// Sets the options of a table from a TOML file.
#include "cli/option/toml.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "toml/toml.h"

struct apply {
  struct cli_option_table table;
  void *target;
  const char *path;
};

// Keeps strings that options point to, as long as the process lives.
static const char *keep(const char *text) {
  static struct kept {
    struct kept *next;
    char text[];
  } * all;
  struct kept *one = malloc(sizeof *one + strlen(text) + 1);
  if (!one)
    return NULL;
  one->next = all;
  all = one;
  return strcpy(one->text, text);
}

static enum toml_type wanted(const struct cli_option *row, const char **in_words) {
  *in_words = row->type == OPTION_FLAG ? "true or false" : row->type == OPTION_UINT ? "a whole number" : "a string";
  return row->type == OPTION_FLAG ? TOML_BOOLEAN : row->type == OPTION_UINT ? TOML_INTEGER : TOML_STRING;
}

static int refuse_name(const struct apply *apply, const struct toml_value *found, const char *near) {
  if (found->type == TOML_TABLE)
    return fail(WEFT_ERR_INVALID, "%s, line %u: [%s] is a table; write options at the top level, outside of tables",
                apply->path, found->key_at.line, found->key);
  return fail(WEFT_ERR_INVALID, "%s, line %u: %s is not an option%s%s%s", apply->path, found->key_at.line, found->key,
              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

// A name has several spellings, which are different keys in TOML.
static int refuse_twice(const struct apply *apply, const struct toml_value *all, const struct toml_value *found,
                        const struct cli_option *row) {
  const char *near;
  for (const struct toml_value *one = all; one < found; one++)
    if (cli_options_find(apply->table, one->key, &near) == row)
      return fail(WEFT_ERR_INVALID, "%s, line %u: %s repeats %s of line %u: want it once", apply->path,
                  found->key_at.line, found->key, one->key, one->key_at.line);
  return 0;
}

// `all` are the keys of the file, `found` is one of them.
static int take(const struct apply *apply, const struct toml_value *all, const struct toml_value *found) {
  const char *near = NULL, *in_words, *text;
  const struct cli_option *row = cli_options_find(apply->table, found->key, &near);
  if (!row)
    return refuse_name(apply, found, near);
  if (strcmp(row->name, "config-file") == 0)
    return fail(WEFT_ERR_INVALID, "%s, line %u: a file cannot name a further file: write the options here", apply->path,
                found->key_at.line);
  int twice = refuse_twice(apply, all, found, row);
  if (twice)
    return twice;
  if (wanted(row, &in_words) != found->type)
    return fail(WEFT_ERR_INVALID, "%s, line %u: %s is %s; want %s", apply->path, found->at.line, found->key,
                toml_type_name(found->type), in_words);
  if (found->text[0] == '\0' && cli_option_may_be_empty(apply->table, found->key, strlen(found->key)))
    return 0;
  int err = cli_option_check(row, found->text);
  if (err)
    return fail_context(err, "%s, line %u: %s", apply->path, found->at.line, found->key);
  if (apply->table.given && apply->table.given[row - apply->table.rows])
    return 0; // the command line has precedence
  text = keep(found->text);
  if (!text)
    return fail(WEFT_ERR_NOMEM, "no memory for what %s says", apply->path);
  return cli_option_set(row, text, apply->target);
}

int cli_toml_apply(struct cli_option_table table, void *target, const char *path) {
  struct apply apply = {.table = table, .target = target, .path = path};
  struct toml_value *root = NULL;
  int err = toml_load(&root, path);
  if (err)
    return fail_context(err, "config_file");
  for (size_t i = 0; !err && i < root->count; i++)
    err = take(&apply, root->children, &root->children[i]);
  toml_free(root);
  return err;
}
