// Parses the operands that name runs.
#include "compare/operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/printable.h"
#include "compare/input.h"
#include "measure/whole_file.h"

void operands_free(struct operands *operands) {
  for (size_t i = 0; i < operands->count; i++)
    compare_run_free(&operands->runs[i]);
  operands->count = 0;
}

static struct compare_run *find(struct operands *operands, const char *label) {
  for (size_t i = 0; i < operands->count; i++)
    if (strcmp(operands->runs[i].label, label) == 0)
      return &operands->runs[i];
  return NULL;
}

// The label is the file's name without its folder and its suffix, or the whole path if another run has this label.
static void label_of(struct operands *operands, const char *path, char label[COMPARE_NAME]) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/')
    length--;
  const char *name = memrchr(path, '/', length);
  name = name && name + 1 < path + length ? name + 1 : path;
  size_t size = (size_t)(path + length - name);
  const char *dot = memrchr(name, '.', size);
  if (dot && dot > name && dot[-1] != '.')
    size = (size_t)(dot - name);
  snprintf(label, COMPARE_NAME, "%.*s", (int)(size < COMPARE_NAME ? size : COMPARE_NAME - 1), name);
  if (strcmp(path, "-") == 0)
    snprintf(label, COMPARE_NAME, "stdin");
  if (find(operands, label) && length < COMPARE_NAME)
    snprintf(label, COMPARE_NAME, "%.*s", (int)length, path);
  for (unsigned n = 2; find(operands, label); n++)
    snprintf(label, COMPARE_NAME, "%.48s (%u)", path, n);
  printable_line(label);
}

static int add_file(struct operands *operands, struct compare_run *run, const char *path) {
  if (*path == '\0')
    return fail(WEFT_ERR_INVALID, "the name of a file is empty: want FILE or LABEL=FILE,FILE");
  if (strcmp(path, "-") == 0 && operands->read_stdin)
    return fail(WEFT_ERR_INVALID, "standard input (-) is named twice: it can be read once");
  operands->read_stdin |= strcmp(path, "-") == 0;
  if (!run->path && !(run->path = strdup(path)))
    return fail(WEFT_ERR_NOMEM, "no memory for a path");
  printable_line(run->path); // the path is only shown
  int err = whole_file_check_input("html", operands->html, path);
  if (!err)
    err = whole_file_check_input("save-baseline", operands->baseline, path);
  if (!err)
    err = input_add_file(run, path);
  printable_line(run->remark);
  printable_line(run->why_left);
  printable_line(run->why_without);
  return err;
}

static struct compare_run *new_run(struct operands *operands) {
  if (operands->count < OPERANDS_MOST)
    return memset(&operands->runs[operands->count++], 0, sizeof(struct compare_run));
  fail(WEFT_ERR_INVALID, "more than %d runs", OPERANDS_MOST);
  return NULL;
}

// Adds each file of a list with commas.
static int add_files(struct operands *operands, struct compare_run *run, char *files) {
  int err = 0;
  for (char *path; !err && (path = strsep(&files, ","));)
    err = add_file(operands, run, path);
  return err;
}

int operands_add(struct operands *operands, const char *text) {
  char label[COMPARE_NAME] = "";
  bool is_file = access(text, F_OK) == 0; // a file's name may have '=' or ',' in it
  const char *equals = is_file ? NULL : strchr(text, '=');
  if (equals && memchr(text, '/', (size_t)(equals - text)))
    equals = NULL; // the '=' is part of a folder's name
  if (equals == text || (equals && equals - text >= COMPARE_NAME))
    return fail(WEFT_ERR_INVALID, "%s: want LABEL=FILE with a label of at most %d bytes", text, COMPARE_NAME - 1);
  if (equals)
    snprintf(label, sizeof label, "%.*s", (int)(equals - text), text);
  printable_line(label);
  struct compare_run *run = equals ? find(operands, label) : NULL;
  char *files = strdup(equals ? equals + 1 : text);
  if (!files)
    return fail(WEFT_ERR_NOMEM, "no memory for a path");
  if (!equals) {
    size_t first = is_file ? strlen(files) : strcspn(files, ",");
    char after = files[first];
    files[first] = '\0';
    label_of(operands, files, label);
    files[first] = after;
  }
  bool known = run != NULL;
  if (!known)
    run = new_run(operands);
  if (run && !known)
    snprintf(run->label, sizeof run->label, "%s", label);
  int err = !run ? WEFT_ERR_INVALID : is_file ? add_file(operands, run, files) : add_files(operands, run, files);
  free(files);
  return err;
}

int operands_pair(const char *text, char *key, size_t cap, const char **value) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text || (size_t)(equals - text) >= cap)
    return fail(WEFT_ERR_INVALID, "\"%s\" is not KEY=VALUE, such as op=WRITE", text);
  snprintf(key, cap, "%.*s", (int)(equals - text), text);
  *value = equals + 1;
  return 0;
}

int operands_percent(const char *option, const char *text, double *percent) {
  char *end;
  double number = strtod(text, &end);
  bool digits = text[strspn(text, "0123456789.")] == '\0' || strcmp(end, "%") == 0;
  if (*end == '%' && end[1] == '\0')
    end++;
  if (end == text || *end || !digits || !isfinite(number) || number < 0 || number > 1e6)
    return fail(WEFT_ERR_INVALID, "--%s is \"%s\": want a number of percent from 0 to 1000000, such as 5 or 2.5",
                option, text);
  *percent = number;
  return 0;
}
