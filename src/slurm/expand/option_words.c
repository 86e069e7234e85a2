// Checks the words of --options and of [extra_cmd_args] before anything is submitted, as the program would.
#include <string.h>

#include "base/fail.h"
#include "base/text/yes_no.h"
#include "slurm/expand/maker.h"

static const char *program_of(const struct slurm_run *run) {
  return run->program == SLURM_TRANSFER ? "weft bench transfer" : "weft elastic";
}

// Checks an option with a value, which is NULL if there is none.
static void check_value(const struct slurm_maker *maker, const struct slurm_run *run, struct toml_place at,
                        const char *option, const char *name, const char *value) {
  const char *near = NULL;
  if (!value)
    slurm_fault(maker->faults, at, "%s needs a value", option);
  else if (maker->request->check_option(run->program, name, value, &near) < 0)
    slurm_fault(maker->faults, at, "%s: %s", option, weft_last_error());
}

static void unknown(const struct slurm_maker *maker, const struct slurm_run *run, struct toml_place at,
                    const char *option, const char *near) {
  slurm_fault(maker->faults, at, "%s is not an option of %s%s%s%s", option, program_of(run),
              near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

// Checks the word, and the next one (NULL: there is none) if that is its value; returns how many words these are.
static size_t check(const struct slurm_maker *maker, const struct slurm_run *run, struct toml_place at,
                    const char *word, const char *next) {
  bool transfer = run->program == SLURM_TRANSFER; // whose names may have one dash, and whose flags a value
  size_t dashes = strspn(word, "-");
  bool followed = next && next[0] != '-';
  if (dashes == 0 || !word[dashes]) {
    slurm_fault(maker->faults, at, "\"%s\" is no option; want --NAME, --NAME VALUE or --NAME=VALUE", word);
    return 1;
  }
  if (dashes == 1 && !(transfer && word[2])) // a letter
    return followed && !word[2] ? 2 : 1;
  size_t size = dashes + strcspn(word + dashes, "=");
  const char *option = slurm_memory_print(maker->memory, "%.*s", (int)size, word);
  const char *name = slurm_memory_print(maker->memory, "%.*s", (int)(size - dashes), word + dashes), *near = NULL;
  const char *value = word[size] ? word + size + 1 : NULL;
  const char *key;
  bool reserved = slurm_option_is_reserved(name, &key);
  int verdict = reserved ? 0 : maker->request->check_option(run->program, name, NULL, &near);
  if (reserved)
    slurm_fault(maker->faults, at, "%s is set by the script of the job; leave it out", option);
  else if (verdict > 0)
    unknown(maker, run, at, option, near);
  else if (verdict < 0)
    check_value(maker, run, at, option, name, value ? value : followed ? next : NULL);
  else { // a flag
    bool yes;
    return !value && transfer && next && yes_no_read(next, &yes) ? 2 : 1;
  }
  return value || !followed ? 1 : 2;
}

void slurm_check_words(const struct slurm_maker *maker, const struct slurm_run *run) {
  const struct slurm_words *words = &run->extra_args;
  size_t of_test = maker->test ? maker->test->num_extra_args : 0; // each of them is one word
  if (maker->request->as_written || !maker->request->check_option)
    return;
  for (size_t i = 0; i < words->count;) {
    struct toml_place at = i < of_test ? maker->test->extra_args[i]->key_at : slurm_place("--options");
    i += check(maker, run, at, words->list[i], i + 1 < words->count ? words->list[i + 1] : NULL);
  }
}
