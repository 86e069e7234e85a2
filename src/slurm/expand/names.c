// Expands and sorts the names of nodes. The brackets hold numbers; each has as many digits as the first number of its
// range.
#include "slurm/expand/names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Adds the names in the text of one node, which has `length` characters. Each name begins with `before`.
static void add_node(struct slurm_memory *memory, struct slurm_words *names, const char *before, const char *text,
                     size_t length) {
  const char *bracket = memchr(text, '[', length), *end = bracket ? memchr(bracket, ']', length) : NULL;
  if (!end) {
    slurm_words_add(memory, names, slurm_memory_print(memory, "%s%.*s", before, (int)length, text));
    return;
  }
  for (const char *at = bracket; *at != ']';) {
    const char *first = ++at;
    char *behind;
    uint64_t from = strtoull(first, &behind, 10), to = from;
    int digits = (int)(behind - first);
    if (*behind == '-')
      to = strtoull(behind + 1, &behind, 10);
    for (uint64_t number = from; number <= to; number++)
      add_node(memory, names,
               slurm_memory_print(memory, "%s%.*s%0*" PRIu64, before, (int)(bracket - text), text, digits, number),
               end + 1, (size_t)(text + length - end - 1));
    at = behind;
  }
}

void slurm_names_add(struct slurm_memory *memory, struct slurm_words *names, const char *list) {
  while (*list) {
    size_t length = 0;
    for (bool inside = false; list[length] && (inside || list[length] != ','); length++)
      inside = list[length] == '[' || (inside && list[length] != ']');
    add_node(memory, names, "", list, length);
    list += length;
    list += strspn(list, ", ");
  }
}

// The position where the digits at a name's end begin.
static size_t stem(const char *name) {
  size_t length = strlen(name);
  while (length && isdigit((unsigned char)name[length - 1]))
    length--;
  return length;
}

// Orders by the text before the last number, then by that number: n9 comes before n10, and numbers of the same width
// are together.
static int by_name(const void *a, const void *b) {
  const char *one = *(const char *const *)a, *other = *(const char *const *)b;
  size_t of_one = stem(one), of_other = stem(other);
  int order = strncmp(one, other, of_one < of_other ? of_one : of_other);
  if (order || of_one != of_other)
    return order ? order : of_one < of_other ? -1 : 1;
  size_t width = strlen(one), other_width = strlen(other);
  return width != other_width ? (width < other_width ? -1 : 1) : strcmp(one, other);
}

void slurm_names_sort(struct slurm_words *names) {
  size_t kept = 0;
  if (names->count)
    qsort(names->list, names->count, sizeof *names->list, by_name);
  for (size_t i = 0; i < names->count; i++)
    if (i == 0 || strcmp(names->list[i], names->list[kept - 1]) != 0)
      names->list[kept++] = names->list[i];
  names->count = kept;
}

// Whether a range that ends with `last` can continue with `next`.
static bool follows(const char *last, const char *next) {
  size_t begin = stem(next), width = strlen(next) - begin;
  return width > 0 && width < 10 && strlen(last) == strlen(next) && stem(last) == begin &&
         strncmp(last, next, begin) == 0 && strtoull(last + begin, NULL, 10) + 1 == strtoull(next + begin, NULL, 10);
}

const char *slurm_names_without(struct slurm_memory *memory, const struct slurm_words *all,
                                const struct slurm_words *taken) {
  const char *text = NULL, *first = NULL, *last = NULL;
  for (size_t i = 0; i <= all->count; i++) {
    const char *name = i < all->count ? all->list[i] : NULL;
    if (name && taken->count && bsearch(&name, taken->list, taken->count, sizeof *taken->list, by_name))
      continue;
    if (first && name && follows(last, name)) {
      last = name;
      continue;
    }
    const char *before = text ? text : "", *comma = text ? "," : "";
    if (first == last && first)
      text = slurm_memory_print(memory, "%s%s%s", before, comma, first);
    else if (first)
      text = slurm_memory_print(memory, "%s%s%.*s[%s-%s]", before, comma, (int)stem(first), first, first + stem(first),
                                last + stem(last));
    first = last = name;
  }
  return text;
}
