// Grows the lists of a run.
#include "slurm/core/lists.h"

#include <stdlib.h>
#include <string.h>

void slurm_words_add(struct slurm_memory *memory, struct slurm_words *words, const char *word) {
  const char **list = slurm_memory_room(memory, words->list, words->count, sizeof *list);
  if (!list)
    return;
  words->list = list;
  list[words->count++] = word;
}

// Reads one word, beginning at `*line`, into `out`, which has room for the whole line; false: there is none. `*open`
// becomes a quote that is not closed, else '\0'.
static bool next_word(const char **line, char *out, char *open) {
  const char *at = *line + strspn(*line, " \t\n");
  char quote = '\0';
  if (!*at)
    return false;
  for (; *at && (quote || !strchr(" \t\n", *at)); at++) {
    if (quote ? *at == quote : *at == '\'' || *at == '"')
      quote = quote ? '\0' : *at;
    else if (*at == '\\' && quote != '\'' && at[1])
      *out++ = *++at;
    else
      *out++ = *at;
  }
  *out = '\0';
  *line = at;
  *open = quote;
  return true;
}

bool slurm_words_split(struct slurm_memory *memory, struct slurm_words *words, const char *line) {
  char open = '\0';
  while (line) {
    char *word = slurm_memory_take(memory, strlen(line) + 1);
    if (!word || !next_word(&line, word, &open))
      break;
    slurm_words_add(memory, words, word);
  }
  return !open;
}

void slurm_settings_add(struct slurm_memory *memory, struct slurm_settings *settings, const char *name,
                        const char *value) {
  struct slurm_setting *list = slurm_memory_room(memory, settings->list, settings->count, sizeof *list);
  if (!list)
    return;
  settings->list = list;
  list[settings->count++] = (struct slurm_setting){name, value};
}

void slurm_settings_set(struct slurm_memory *memory, struct slurm_settings *settings, const char *name,
                        const char *value) {
  for (size_t i = 0; i < settings->count; i++)
    if (strcmp(settings->list[i].name, name) == 0) {
      settings->list[i].value = value;
      return;
    }
  slurm_settings_add(memory, settings, name, value);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct slurm_setting *)a)->name, ((const struct slurm_setting *)b)->name);
}

void slurm_settings_sort(struct slurm_settings *settings) {
  if (settings->count)
    qsort(settings->list, settings->count, sizeof *settings->list, by_name);
}
