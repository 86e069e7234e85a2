// Options, one argument a line: they are refused with a reason, or stored at their place and within their range, and
// give the same values when they are passed again in their normal form.
#include "cli/option/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/err.h>

#include "fuzz/support/fuzz.h"

enum { MAX_ARGUMENTS = 16, GUARD = 0xA5 };

struct target {
  uint8_t before[8]; // what no value may touch
  uint16_t port;
  uint8_t between[2];
  uint32_t count;
  uint64_t seed;
  unsigned color;
  bool json;
  uint8_t after[7];
  const char *name, *file, *url;
};

#define FIELD(member) OPTION_FIELD(struct target, member)

static const char *const colors[] = {"red", "green", "blue", NULL};

static const struct cli_option rows[] = {
    {.name = "port", .type = OPTION_UINT, FIELD(port), .help = "a port"},
    {.name = "count",
     .letter = 'n',
     .type = OPTION_UINT,
     .min = 128,
     .max = 1024,
     .step = 128,
     FIELD(count),
     .help = "a count"},
    {.name = "seed", .type = OPTION_UINT, FIELD(seed), .help = "a seed"},
    {.name = "color", .type = OPTION_ENUM, .choices = colors, .preset = "green", FIELD(color), .help = "a colour"},
    {.name = "json", .letter = 'j', .type = OPTION_FLAG, FIELD(json), .help = "a flag"},
    {.name = "name", .alias = "title", .type = OPTION_STRING, FIELD(name), .help = "a name"},
    {.name = "file",
     .type = OPTION_PATH,
     .metavar = "FILE",
     .operand = true,
     .required = true,
     FIELD(file),
     .help = "a file"},
    {.name = "url", .type = OPTION_URL, FIELD(url), .help = "servers"},
};
static const struct cli_option_table table = OPTION_TABLE(rows);

static int parse(struct target *target, int argc, char *const *argv) {
  memset(target, 0, sizeof *target);
  memset(target->before, GUARD, sizeof target->before);
  memset(target->between, GUARD, sizeof target->between);
  memset(target->after, GUARD, sizeof target->after);
  int err = cli_options_parse(table, target, argc, argv);
  FUZZ_CHECK(err == 0 || err == OPTION_HELP || err == WEFT_ERR_INVALID);
  FUZZ_CHECK(fuzz_untouched(target->before, GUARD, sizeof target->before));
  FUZZ_CHECK(fuzz_untouched(target->between, GUARD, sizeof target->between));
  FUZZ_CHECK(fuzz_untouched(target->after, GUARD, sizeof target->after));
  return err;
}

static bool same(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static void add(char **argv, int *argc, const char *format, const char *value) {
  if (value)
    FUZZ_CHECK(asprintf(&argv[(*argc)++], format, value) >= 0);
}

static void add_number(char **argv, int *argc, const char *name, uint64_t value) {
  FUZZ_CHECK(asprintf(&argv[(*argc)++], "--%s=%llu", name, (unsigned long long)value) >= 0);
}

static void check_again(const struct target *target) {
  char *argv[MAX_ARGUMENTS] = {strdup("command")};
  int argc = 1;
  add_number(argv, &argc, "port", target->port);
  if (target->count > 0) // 0: it was not given
    add_number(argv, &argc, "count", target->count);
  add_number(argv, &argc, "seed", target->seed);
  add(argv, &argc, "--color=%s", colors[target->color]);
  add(argv, &argc, "--json=%s", target->json ? "yes" : "no");
  add(argv, &argc, "--name=%s", target->name);
  add(argv, &argc, "--file=%s", target->file);
  add(argv, &argc, "--url=%s", target->url);
  struct target again;
  FUZZ_CHECK(parse(&again, argc, argv) == 0);
  FUZZ_CHECK(again.port == target->port && again.count == target->count && again.seed == target->seed);
  FUZZ_CHECK(again.color == target->color && again.json == target->json);
  FUZZ_CHECK(same(again.name, target->name) && same(again.file, target->file) && same(again.url, target->url));
  while (argc > 0)
    free(argv[--argc]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {(const char *)data, size};
  char *argv[MAX_ARGUMENTS + 1] = {strdup("command")};
  int argc = 1;
  while (argc < MAX_ARGUMENTS && (argv[argc] = fuzz_line(&input, NULL)))
    argc++;
  argv[argc] = NULL;
  struct target target;
  if (parse(&target, argc, argv) == 0) {
    FUZZ_CHECK(target.count == 0 || (target.count >= 128 && target.count <= 1024 && target.count % 128 == 0));
    FUZZ_CHECK(target.color < 3 && target.file);
    check_again(&target);
  }
  while (argc > 0)
    free(argv[--argc]);
  return 0;
}
