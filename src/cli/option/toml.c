// Brings what a TOML file says to the options of a table.
#include "cli/option/toml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"

enum { MOST_BYTES = 1 << 20 };

struct apply {
  struct cli_option_table table;
  void *target;
  const char *path;
};

static int read_all(const char *path, struct text *text) {
  char chunk[4096];
  size_t got;
  FILE *file = fopen(path, "re");
  if (!file)
    return fail_errno(errno, "cannot read the config_file %s", path);
  while ((got = fread(chunk, 1, sizeof chunk, file)) > 0 && text->size <= MOST_BYTES)
    text_add_bytes(text, chunk, got);
  int error = ferror(file) ? errno : 0;
  fclose(file);
  if (error)
    return fail_errno(error, "cannot read the config_file %s", path);
  if (text->failed)
    return fail(WEFT_ERR_NOMEM, "no memory for the config_file %s", path);
  return text->size <= MOST_BYTES ? 0
                                  : fail(WEFT_ERR_LIMIT, "the config_file %s has more than %d bytes", path, MOST_BYTES);
}

// Strings of options point somewhere: here, as long as the process lives.
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

static enum cli_toml_type wanted(const struct cli_option *row, const char **in_words) {
  *in_words = row->type == OPTION_FLAG ? "true or false" : row->type == OPTION_UINT ? "a whole number" : "a string";
  return row->type == OPTION_FLAG ? TOML_BOOLEAN : row->type == OPTION_UINT ? TOML_INTEGER : TOML_TEXT;
}

static int refuse_name(const struct apply *apply, const struct cli_toml_member *found, const char *near) {
  if (found->type == TOML_OTHER && strcmp(found->type_name, "a table") == 0)
    return fail(WEFT_ERR_INVALID, "%s, line %u: [%s] is a table; options stand at the top, outside of tables",
                apply->path, found->line, found->name);
  return fail(WEFT_ERR_INVALID, "%s, line %u: %s is no option%s%s%s", apply->path, found->line, found->name,
              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int take(void *arg, const struct cli_toml_member *found) {
  const struct apply *apply = arg;
  const char *near = NULL, *in_words, *text;
  const struct cli_option *row = cli_options_find(apply->table, found->name, &near);
  if (!row)
    return refuse_name(apply, found, near);
  if (wanted(row, &in_words) != found->type)
    return fail(WEFT_ERR_INVALID, "%s, line %u: %s is %s; want %s", apply->path, found->line, found->name,
                found->type_name, in_words);
  int err = cli_option_check(row, found->text);
  if (err)
    return fail_context(err, "%s, line %u: %s", apply->path, found->line, found->name);
  if (apply->table.given && apply->table.given[row - apply->table.rows])
    return 0; // the command line wins
  text = keep(found->text);
  if (!text)
    return fail(WEFT_ERR_NOMEM, "no memory for what %s says", apply->path);
  return cli_option_set(row, text, apply->target);
}

int cli_toml_apply(struct cli_option_table table, void *target, const char *path) {
  struct apply apply = {.table = table, .target = target, .path = path};
  struct text text = {0};
  int err = read_all(path, &text);
  if (!err)
    err = cli_toml_read(path, text.data ? text.data : "", take, &apply);
  text_free(&text);
  return err;
}
