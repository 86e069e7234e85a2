// Checks the words of --options before anything is submitted, as the program would.
#include <string.h>

#include "base/fail.h"
#include "base/text/yes_no.h"
#include "slurm/expand/maker.h"

static const char *program_of(const struct slurm_run *run) {
  return run->program == SLURM_TRANSFER ? "weft bench transfer" : "weft elastic";
}

// Checks an option with a value, which is NULL if there is none.
static void check_value(const struct slurm_maker *maker, const struct slurm_run *run, const char *option,
                        const char *name, const char *value) {
  const char *near = NULL;
  if (!value)
    slurm_fault(maker->faults, slurm_place("--options"), "%s needs a value", option);
  else if (maker->request->check_option(run->program, name, value, &near) < 0)
    slurm_fault(maker->faults, slurm_place("--options"), "%s: %s", option, weft_last_error());
}

static void unknown(const struct slurm_maker *maker, const struct slurm_run *run, const char *option,
                    const char *near) {
  slurm_fault(maker->faults, slurm_place("--options"), "%s is not an option of %s%s%s%s", option, program_of(run),
              near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

// Checks the word, and the next one (NULL: there is none) if that is its value; returns how many words these are.
static size_t check(const struct slurm_maker *maker, const struct slurm_run *run, const char *word, const char *next) {
  bool transfer = run->program == SLURM_TRANSFER; // whose names may have one dash, and whose flags a value
  size_t dashes = strspn(word, "-");
  bool followed = next && next[0] != '-';
  if (dashes == 0 || !word[dashes]) {
    slurm_fault(maker->faults, slurm_place("--options"),
                "\"%s\" is no option; want --NAME, --NAME VALUE or --NAME=VALUE", word);
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
    slurm_fault(maker->faults, slurm_place("--options"), "%s is set by the script of the job; leave it out", option);
  else if (verdict > 0)
    unknown(maker, run, option, near);
  else if (verdict < 0)
    check_value(maker, run, option, name, value ? value : followed ? next : NULL);
  else { // a flag
    bool yes;
    return !value && transfer && next && yes_no_read(next, &yes) ? 2 : 1;
  }
  return value || !followed ? 1 : 2;
}

void slurm_check_words(const struct slurm_maker *maker, const struct slurm_run *run, const struct slurm_words *words,
                       size_t first) {
  if (maker->request->as_written || !maker->request->check_option)
    return;
  for (size_t i = first; i < words->count;)
    i += check(maker, run, words->list[i], i + 1 < words->count ? words->list[i + 1] : NULL);
}
