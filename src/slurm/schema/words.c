// Reads time limits, lists of nodes and sizes.
#include "slurm/schema/words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_DIGITS = 9, MOST_NODES = 100000, MOST_ID = 100 };

// Reads a number of at most MOST_DIGITS digits at *text, and moves *text behind it.
static bool read_number(const char **text, uint64_t *number) {
  size_t digits = strspn(*text, "0123456789");
  if (digits == 0 || digits > MOST_DIGITS)
    return false;
  *number = strtoull(*text, NULL, 10);
  *text += digits;
  return true;
}

// Reads minutes, M:S or H:M:S, and with days D-H, D-H:M or D-H:M:S. As in Slurm, each part may have any size.
static bool read_limit(const char *text, uint64_t *seconds) {
  uint64_t part[4];
  size_t count = 0;
  bool days = false;
  do {
    if (count == 4 || !read_number(&text, &part[count++]))
      return false;
    if (*text == '-' && count == 1)
      days = true;
    else if (*text && *text != ':')
      return false;
  } while (*text++);
  if (days ? count < 2 : count > 3)
    return false;
  static const uint64_t with_days[] = {86400, 3600, 60, 1}, three[] = {3600, 60, 1}, two[] = {60, 1};
  const uint64_t *unit = days ? with_days : count == 3 ? three : two;
  *seconds = 0;
  for (size_t i = 0; i < count; i++)
    *seconds += part[i] * unit[i];
  return *seconds > 0;
}

const char *slurm_time_limit_read(const char *text, uint64_t *seconds) {
  uint64_t found = 0;
  bool unlimited = strcasecmp(text, "UNLIMITED") == 0 || strcasecmp(text, "INFINITE") == 0;
  if (!unlimited && !read_limit(text, &found))
    return "a time of more than 0 as Slurm reads it: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S, as \"00:30:00\"";
  if (seconds)
    *seconds = found;
  return NULL;
}

const char *slurm_time_limit_check(const char *text) {
  return slurm_time_limit_read(text, NULL);
}

// Reads the numbers and ranges between [ and ], and moves *text behind them.
static bool read_ranges(const char **text, size_t *count) {
  do {
    uint64_t first, last;
    ++*text;
    if (!read_number(text, &first))
      return false;
    last = first;
    if (**text == '-') {
      ++*text;
      if (!read_number(text, &last) || last < first)
        return false;
    }
    *count += last - first + 1;
    if (*count > MOST_NODES)
      return false;
  } while (**text == ',');
  return *(*text)++ == ']';
}

static bool read_node(const char **text, size_t *count) {
  size_t named = 1;
  const char *begin = *text;
  while (isalnum((unsigned char)**text) || (**text && strchr("_.-[", **text))) {
    size_t ranges = 0;
    if (**text != '[') {
      ++*text;
      continue;
    }
    if (!read_ranges(text, &ranges) || ranges * named > MOST_NODES)
      return false;
    named *= ranges;
  }
  *count += named;
  return *text > begin && isalnum((unsigned char)*begin) && *count <= MOST_NODES;
}

const char *slurm_node_list_read(const char *text, size_t *count) {
  size_t found = 0;
  for (;;) {
    if (!read_node(&text, &found) || (*text && *text != ','))
      return "names of nodes as Slurm writes them, as \"n[01-16],login\"";
    if (!*text)
      break;
    text++;
    text += strspn(text, " ");
  }
  if (count)
    *count = found;
  return NULL;
}

const char *slurm_node_list_check(const char *text) {
  return slurm_node_list_read(text, NULL);
}

const char *slurm_line_check(const char *text) {
  return strpbrk(text, "\n\r") ? "one line" : NULL;
}

bool slurm_size_read(const char *text, uint64_t *bytes) {
  static const char units[] = "kmgt";
  char *end;
  if (!isdigit((unsigned char)*text))
    return false;
  double number = strtod(text, &end);
  end += strspn(end, " ");
  uint64_t unit = 1;
  const char *at = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
  if (at)
    unit = UINT64_C(1) << 10 * (at - units + 1);
  end += at != NULL;
  if (strcasecmp(end, "ib") == 0 && at)
    end += 2;
  else if (strcasecmp(end, "b") == 0)
    end++;
  if (*end || number * (double)unit > 1e18)
    return false;
  *bytes = (uint64_t)(number * (double)unit);
  return (double)*bytes == number * (double)unit;
}

bool slurm_is_variable(const char *text) {
  if (!isalpha((unsigned char)*text) && *text != '_')
    return false;
  while (isalnum((unsigned char)*text) || *text == '_')
    text++;
  return !*text;
}

const char *slurm_id_check(const char *text) {
  size_t length = strlen(text);
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)text[i]) && !strchr("_.-", text[i]))
      return "letters, digits, '_', '.' and '-', since a directory has this name";
  if (length == 0 || length > MOST_ID || text[0] == '.' || text[0] == '-')
    return "1 to 100 letters, digits, '_', '.' and '-', and a letter or digit first, since a directory has this name";
  return NULL;
}
