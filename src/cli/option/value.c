// Reads the value of one option by its type and range.
#include "cli/option/value.h"

#include "base/fail.h"
#include "base/text/nearest.h"
#include "base/text/yes_no.h"
#include "cli/process/secrets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANGE_SIZE = 256 };

static uint64_t highest(const struct cli_option *row) {
  if (row->max)
    return row->max;
  return row->size >= sizeof(uint64_t) ? UINT64_MAX : (UINT64_C(1) << (8 * row->size)) - 1;
}

static void describe_number(const struct cli_option *row, char *out, size_t cap) {
  const char *space = row->unit ? " " : "", *unit = row->unit ? row->unit : "";
  if (row->step > 1)
    snprintf(out, cap, "%" PRIu64 " to %" PRIu64 "%s%s, a multiple of %" PRIu64, row->min, highest(row), space, unit,
             row->step);
  else
    snprintf(out, cap, "%" PRIu64 " to %" PRIu64 "%s%s", row->min, highest(row), space, unit);
}

static void describe_choices(const struct cli_option *row, char *out, size_t cap) {
  size_t used = 0;
  for (size_t i = 0; row->choices[i] && used < cap; i++)
    used += (size_t)snprintf(out + used, cap - used, "%s%s", i ? ", " : "", row->choices[i]);
}

void cli_option_describe_range(const struct cli_option *row, char *out, size_t cap) {
  out[0] = '\0';
  if (row->type == OPTION_UINT)
    describe_number(row, out, cap);
  else if (row->type == OPTION_ENUM)
    describe_choices(row, out, cap);
}

static void store_number(const struct cli_option *row, uint64_t number, void *field) {
  uint16_t number16 = (uint16_t)number;
  uint32_t number32 = (uint32_t)number;
  switch (row->size) {
  case sizeof number16:
    memcpy(field, &number16, sizeof number16);
    break;
  case sizeof number32:
    memcpy(field, &number32, sizeof number32);
    break;
  default:
    memcpy(field, &number, sizeof number);
  }
}

// "the nearest are 7168 and 7296": the multiples below and above that are in range. Into out[cap].
static void describe_nearest(const struct cli_option *row, uint64_t number, char *out, size_t cap) {
  uint64_t below = number - number % row->step, above = below + row->step;
  bool has_below = below >= row->min, has_above = above > below && above <= highest(row);
  if (has_below && has_above)
    snprintf(out, cap, "the nearest are %" PRIu64 " and %" PRIu64 "; ", below, above);
  else if (has_below || has_above)
    snprintf(out, cap, "the nearest is %" PRIu64 "; ", has_below ? below : above);
  else
    out[0] = '\0';
}

static int set_number(const struct cli_option *row, const char *text, void *field) {
  char range[RANGE_SIZE];
  cli_option_describe_range(row, range, sizeof range);
  size_t digits = strspn(text, "0123456789");
  bool negative = text[0] == '-' && text[1] && strspn(text + 1, "0123456789") == strlen(text + 1);
  if (!negative && (digits == 0 || text[digits] != '\0'))
    return fail(WEFT_ERR_INVALID, "\"%s\" is not a whole number; want %s", text, range);
  uint64_t number = 0;
  bool overflow = false;
  for (size_t i = 0; i < digits; i++)
    overflow |= __builtin_mul_overflow(number, 10, &number) ||
                __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number);
  if (negative || overflow || number < row->min || number > highest(row))
    return fail(WEFT_ERR_INVALID, "%s is out of range; want %s", text, range);
  if (row->step > 1 && number % row->step != 0) {
    char nearest[64];
    describe_nearest(row, number, nearest, sizeof nearest);
    return fail(WEFT_ERR_INVALID, "%s is not a multiple of %" PRIu64 "; %swant %s", text, row->step, nearest, range);
  }
  store_number(row, number, field);
  return 0;
}

static int set_choice(const struct cli_option *row, const char *text, void *field) {
  struct nearest nearest = {.wanted = text};
  for (size_t i = 0; row->choices[i]; i++) {
    if (strcmp(text, row->choices[i]) == 0) {
      store_number(row, row->first + i, field);
      return 0;
    }
    if (strcasecmp(text, row->choices[i]) == 0)
      nearest = (struct nearest){.wanted = text, .best = row->choices[i]}; // at distance 0
    else
      nearest_offer(&nearest, row->choices[i]);
  }
  char range[RANGE_SIZE];
  cli_option_describe_range(row, range, sizeof range);
  if (nearest.best)
    return fail(WEFT_ERR_INVALID, "\"%s\" is none of %s; did you mean %s?", text, range, nearest.best);
  return fail(WEFT_ERR_INVALID, "\"%s\" is none of %s", text, range);
}

static int set_flag(const char *text, void *field) {
  return yes_no_read(text, field) ? 0 : fail(WEFT_ERR_INVALID, "\"%s\" is neither yes nor no", text);
}

// The size of one URL's scheme and "://"; 0 when the scheme is neither http nor https.
static size_t scheme_size(const char *url) {
  if (strncmp(url, "http://", 7) == 0)
    return 7;
  return strncmp(url, "https://", 8) == 0 ? 8 : 0;
}

static bool is_port(const char *text, size_t size) {
  unsigned port = 0;
  for (size_t i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9' || i >= 5)
      return false;
    port = port * 10 + (unsigned)(text[i] - '0');
  }
  return port >= 1 && port <= 65535;
}

// http[s]://host[:port][/]; a numeric IPv6 host is in brackets.
static bool is_url(const char *url, size_t size) {
  size_t scheme = size >= 8 ? scheme_size(url) : 0;
  if (scheme == 0)
    return false;
  const char *host = url + scheme, *end = url + size;
  if (end > host && end[-1] == '/')
    end--;
  const char *closing = host < end && *host == '[' ? memchr(host, ']', (size_t)(end - host)) : NULL;
  const char *after = closing ? closing + 1 : host;
  if (!closing)
    while (after < end && !strchr(":/?#[]@ ", *after))
      after++;
  if (after == host || (closing && closing == host + 1))
    return false;
  return after == end || (*after == ':' && is_port(after + 1, (size_t)(end - after - 1)));
}

static int check_urls(const char *text) {
  const char *url = text;
  for (;;) {
    size_t size = strcspn(url, ",");
    if (!is_url(url, size))
      return fail(WEFT_ERR_INVALID,
                  "\"%.*s\" is not the URL of a server; want http://HOST:PORT or https://HOST:PORT, several "
                  "separated by commas",
                  (int)size, url);
    if (url[size] == '\0')
      return 0;
    url += size + 1;
  }
}

static int add_word(const char *text, struct cli_words *words) {
  size_t room = sizeof words->list / sizeof *words->list;
  if (words->count == room)
    return fail(WEFT_ERR_INVALID, "\"%s\" is one value too many; want at most %zu", text, room);
  words->list[words->count++] = text;
  return 0;
}

int cli_option_value_set(const struct cli_option *row, const char *text, void *target) {
  void *field = (char *)target + row->offset;
  if (*text == '\0')
    return fail(WEFT_ERR_INVALID, "is empty");
  switch (row->type) {
  case OPTION_FLAG:
    return set_flag(text, field);
  case OPTION_UINT:
    return set_number(row, text, field);
  case OPTION_ENUM:
    return set_choice(row, text, field);
  case OPTION_URL:
    if (check_urls(text))
      return WEFT_ERR_INVALID;
    break;
  case OPTION_SECRET_FILE:
    if (cli_secrets_read(text, &text))
      return WEFT_ERR_INVALID;
    break;
  case OPTION_WORDS:
    return add_word(text, field);
  case OPTION_STRING:
  case OPTION_PATH:
    break;
  }
  memcpy(field, &text, sizeof text);
  return 0;
}

int cli_option_check(const struct cli_option *row, const char *text) {
  union {
    uint64_t number;
    const char *string;
    bool flag;
    struct cli_words words;
  } field = {0};
  struct cli_option row_alone = *row;
  row_alone.offset = 0;
  return cli_option_value_set(&row_alone, text, &field);
}
