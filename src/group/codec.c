// Keys and values of a group in the store: claims, tickets, views, barriers.
#include "group/codec.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "group/view.h"

enum { INCARNATION_DIGITS = 16 };

static char *format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *pattern, ...) {
  char *out = NULL;
  va_list args;
  va_start(args, pattern);
  int length = vasprintf(&out, pattern, args);
  va_end(args);
  return length < 0 ? NULL : out;
}

char *group_key_view(const char *prefix) {
  return format("%sview", prefix);
}

char *group_key_claim(const char *prefix, int32_t rank) {
  return format("%srank/%" PRId32, prefix, rank);
}

char *group_key_ticket(const char *prefix, uint64_t incarnation) {
  return format("%sticket/%016" PRIx64, prefix, incarnation);
}

char *group_key_offer(const char *prefix, int32_t rank) {
  return format("%soffer/%" PRId32, prefix, rank);
}

char *group_key_barrier(const char *prefix, const char *name, int32_t rank) {
  return format("%sbarrier/%s/%" PRId32, prefix, name, rank);
}

char *group_incarnation_encode(uint64_t incarnation) {
  return format("%016" PRIx64, incarnation);
}

// A digit's value plus 16; 0: no digit. A table, since a branch on random digits is mispredicted every second time.
static const uint8_t digits_of[256] = {['0'] = 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, ['a'] = 26, 27, 28, 29, 30, 31};

int group_incarnation_decode(const char *value, size_t length, uint64_t *incarnation) {
  uint64_t number = 0;
  uint8_t all = 16;
  for (size_t i = 0; i < length && i < INCARNATION_DIGITS; i++) {
    uint8_t digit = digits_of[(unsigned char)value[i]];
    all &= digit;
    number = number << 4 | (digit & 15u);
  }
  if (!all)
    return fail(WEFT_ERR_PROTOCOL, "an incarnation is 16 lower-case hexadecimal digits, not '%.*s'", (int)length,
                value);
  if (length != INCARNATION_DIGITS || number == 0)
    return fail(WEFT_ERR_PROTOCOL, "an incarnation is 16 hexadecimal digits, not all 0; this has %zu characters",
                length);
  *incarnation = number;
  return 0;
}

// A rank in decimal without sign or leading zeros, below `capacity`; -1 for anything else.
static int32_t parse_rank(const char *text, uint32_t capacity) {
  uint64_t rank = 0;
  if (!*text || (*text == '0' && text[1]))
    return -1;
  for (; *text; text++) {
    if (*text < '0' || *text > '9')
      return -1;
    rank = rank * 10 + (uint64_t)(*text - '0');
    if (rank >= capacity)
      return -1;
  }
  return (int32_t)rank;
}

static const char *after(const char *text, const char *prefix) {
  size_t length = strlen(prefix);
  return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

struct group_key group_key_parse(const char *prefix, uint32_t capacity, const char *key) {
  struct group_key parsed = {.kind = GROUP_KEY_OTHER, .rank = -1};
  const char *own = after(key, prefix);
  const char *rest;
  if (!own)
    return parsed;
  if (strcmp(own, "view") == 0) {
    parsed.kind = GROUP_KEY_VIEW;
  } else if ((rest = after(own, "rank/"))) {
    parsed.rank = parse_rank(rest, capacity);
    if (parsed.rank >= 0)
      parsed.kind = GROUP_KEY_CLAIM;
  } else if ((rest = after(own, "offer/"))) {
    parsed.rank = parse_rank(rest, capacity);
    if (parsed.rank >= 0)
      parsed.kind = GROUP_KEY_OFFER;
  } else if ((rest = after(own, "ticket/"))) {
    if (group_incarnation_decode(rest, strlen(rest), &parsed.incarnation) == 0)
      parsed.kind = GROUP_KEY_TICKET;
  } else if ((rest = after(own, "barrier/"))) {
    const char *slash = strrchr(rest, '/');
    parsed.rank = slash && slash > rest ? parse_rank(slash + 1, capacity) : -1;
    if (parsed.rank >= 0) {
      parsed.kind = GROUP_KEY_BARRIER;
      parsed.name = rest;
      parsed.name_length = (size_t)(slash - rest);
    }
  }
  return parsed;
}

char *group_claim_encode(uint64_t incarnation, const char *address) {
  char digits[INCARNATION_DIGITS + 1];
  snprintf(digits, sizeof digits, "%016" PRIx64, incarnation);
  json_t *claim = json_pack("{s:s, s:s}", "incarnation", digits, "address", address);
  char *text = claim ? json_dumps(claim, JSON_COMPACT) : NULL;
  json_decref(claim);
  return text;
}

// "<incarnation> <stage>"
static const char *const stages[] = {
    [GROUP_OFFER_COMING] = " coming", [GROUP_OFFER_READY] = " ready", [GROUP_OFFER_TAKEN] = " taken"};

char *group_offer_encode(uint64_t incarnation, enum group_offer_stage stage) {
  return format("%016" PRIx64 "%s", incarnation, stages[stage]);
}

int group_offer_decode(const char *value, size_t length, uint64_t *incarnation, enum group_offer_stage *stage) {
  size_t digits = length < INCARNATION_DIGITS ? length : INCARNATION_DIGITS;
  uint64_t number = 0;
  int err = group_incarnation_decode(value, digits, &number);
  if (err)
    return err;
  for (int i = GROUP_OFFER_COMING; i <= GROUP_OFFER_TAKEN; i++) {
    size_t size = strlen(stages[i]);
    if (length - digits != size || memcmp(value + digits, stages[i], size) != 0)
      continue;
    *incarnation = number;
    *stage = (enum group_offer_stage)i;
    return 0;
  }
  return fail(WEFT_ERR_PROTOCOL, "an offer is an incarnation and \"coming\", \"ready\" or \"taken\", not '%.*s'",
              (int)(length < 64 ? length : 64), value);
}

char *group_view_encode(const struct group_view *view) {
  struct text text = {0};
  text_add(&text, "{\"epoch\":%" PRIu64 ",\"members\":[", view->epoch);
  for (uint32_t i = 0; i < view->count; i++)
    text_add(&text, "%s[%" PRId32 ",\"%016" PRIx64 "\"]", i ? "," : "", view->members[i].rank,
             view->members[i].incarnation);
  text_add(&text, "]}");
  if (text.failed) {
    text_free(&text);
    return NULL;
  }
  return text_take(&text);
}

// The value as a JSON object, or NULL with the failure set.
static json_t *load(const char *value, size_t length, const char *what) {
  json_error_t error;
  json_t *root = json_loadb(value, length, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    fail(WEFT_ERR_PROTOCOL, "%s is not JSON: %s", what, error.text);
  return root;
}

static int decode_member(const json_t *pair, int64_t above, uint32_t capacity, struct group_member *member) {
  json_error_t error;
  json_int_t rank;
  const char *digits;
  if (json_unpack_ex((json_t *)pair, &error, JSON_STRICT, "[I, s]", &rank, &digits) != 0)
    return fail(WEFT_ERR_PROTOCOL, "a member of a view is [rank, incarnation]: %s", error.text);
  if (rank <= above)
    return fail(WEFT_ERR_PROTOCOL, "the ranks of a view ascend from 0; %lld follows %lld", (long long)rank,
                (long long)above);
  if (rank >= capacity)
    return fail(WEFT_ERR_PROTOCOL, "rank %lld in a view of a group with capacity %u", (long long)rank, capacity);
  member->rank = (int32_t)rank;
  return group_incarnation_decode(digits, strlen(digits), &member->incarnation);
}

static int decode_members(const json_t *members, uint32_t capacity, struct group_view *view) {
  for (uint32_t i = 0; i < view->count; i++) {
    int64_t above = i ? view->members[i - 1].rank : -1;
    int err = decode_member(json_array_get(members, i), above, capacity, &view->members[i]);
    if (err)
      return err;
  }
  return 0;
}

// --- Values as this code writes them, read without a tree of JSON: every member reads every view and claim.

struct scanner {
  const char *at, *end;
};

static bool scan_text(struct scanner *s, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(s->end - s->at) < length || memcmp(s->at, text, length) != 0)
    return false;
  s->at += length;
  return true;
}

// A number of up to 18 digits without leading zeros.
static bool scan_number(struct scanner *s, uint64_t *number) {
  const char *first = s->at;
  uint64_t sum = 0;
  for (; s->at < s->end && *s->at >= '0' && *s->at <= '9' && s->at - first < 19; s->at++)
    sum = 10 * sum + (uint64_t)(*s->at - '0');
  *number = sum;
  return s->at > first && s->at - first < 19 && (*first != '0' || s->at - first == 1);
}

// Any JSON of that form. If memory runs out, jansson may fail in any way, and may also omit bytes of a string: its
// result is not usable then.
static int parse_claim(const char *value, size_t length, uint64_t *incarnation, char **address) {
  json_t *root = load(value, length, "a rank claim");
  if (!root)
    return WEFT_ERR_PROTOCOL;
  json_error_t error;
  const char *digits, *where;
  int err = 0;
  uint64_t number = 0;
  if (json_unpack_ex(root, &error, JSON_STRICT, "{s:s, s:s}", "incarnation", &digits, "address", &where) != 0)
    err = fail(WEFT_ERR_PROTOCOL, "a rank claim is {\"incarnation\", \"address\"}: %s", error.text);
  else if (strlen(where) >= GROUP_ADDRESS_SIZE)
    err = fail(WEFT_ERR_PROTOCOL, "an address has up to %d bytes, not %zu", GROUP_ADDRESS_SIZE - 1, strlen(where));
  else
    err = group_incarnation_decode(digits, strlen(digits), &number);
  if (!err && !(*address = strdup(where)))
    err = fail(WEFT_ERR_NOMEM, "no memory for an address");
  if (!err)
    *incarnation = number;
  json_decref(root);
  return err;
}

// A claim as group_claim_encode() writes it, without escapes in the address.
static bool scan_claim(const char *value, size_t length, uint64_t *incarnation, const char **address, size_t *size) {
  struct scanner s = {.at = value, .end = value + length};
  if (!scan_text(&s, "{\"incarnation\":\"") || s.end - s.at < INCARNATION_DIGITS ||
      group_incarnation_decode(s.at, INCARNATION_DIGITS, incarnation) != 0)
    return false;
  s.at += INCARNATION_DIGITS;
  if (!scan_text(&s, "\",\"address\":\""))
    return false;
  *address = s.at;
  while (s.at < s.end && *s.at >= ' ' && *s.at <= '~' && *s.at != '"' && *s.at != '\\')
    s.at++;
  *size = (size_t)(s.at - *address);
  return *size < GROUP_ADDRESS_SIZE && scan_text(&s, "\"}") && s.at == s.end;
}

int group_claim_decode(const char *value, size_t length, uint64_t *incarnation, char **address) {
  uint64_t number = 0;
  const char *where;
  size_t size;
  if (!scan_claim(value, length, &number, &where, &size))
    return parse_claim(value, length, incarnation, address);
  char *copy = strndup(where, size);
  if (!copy)
    return fail(WEFT_ERR_NOMEM, "no memory for an address");
  *address = copy;
  *incarnation = number;
  return 0;
}

static bool scan_member(struct scanner *s, int64_t above, uint32_t capacity, struct group_member *member) {
  uint64_t rank;
  if (!scan_text(s, "[") || !scan_number(s, &rank) || !scan_text(s, ",\"") || s->end - s->at < INCARNATION_DIGITS)
    return false;
  if (rank >= capacity || (int64_t)rank <= above ||
      group_incarnation_decode(s->at, INCARNATION_DIGITS, &member->incarnation) != 0)
    return false;
  member->rank = (int32_t)rank;
  s->at += INCARNATION_DIGITS;
  return scan_text(s, "\"]");
}

static uint32_t count_members(const char *value, size_t length) {
  uint32_t brackets = 0;
  const char *end = value + length;
  for (const char *at = value; (at = memchr(at, '[', (size_t)(end - at))); at++)
    brackets++;
  return brackets ? brackets - 1 : 0;
}

// NULL for whatever is written otherwise, right or wrong: that is for group_view_decode() to say. Or `*err` is NOMEM.
static struct group_view *scan_view(const char *value, size_t length, uint32_t capacity, int *err) {
  struct scanner s = {.at = value, .end = value + length};
  uint64_t epoch;
  uint32_t count = count_members(value, length);
  if (count > capacity || !scan_text(&s, "{\"epoch\":") || !scan_number(&s, &epoch) || epoch < 1 ||
      !scan_text(&s, ",\"members\":["))
    return NULL;
  struct group_view *view = group_view_new(epoch, count);
  *err = view ? 0 : WEFT_ERR_NOMEM;
  bool ok = view != NULL;
  for (uint32_t i = 0; ok && i < count; i++)
    ok = (i == 0 || scan_text(&s, ",")) &&
         scan_member(&s, i ? view->members[i - 1].rank : -1, capacity, &view->members[i]);
  if (ok && scan_text(&s, "]}") && s.at == s.end)
    return view;
  group_view_unref(view);
  return NULL;
}

int group_view_decode(const char *value, size_t length, uint32_t capacity, struct group_view **view) {
  int err = 0;
  struct group_view *scanned = scan_view(value, length, capacity, &err);
  if (scanned)
    *view = scanned;
  if (scanned || err)
    return err;
  json_t *root = load(value, length, "the view");
  if (!root)
    return WEFT_ERR_PROTOCOL;
  json_error_t error;
  json_int_t epoch;
  json_t *members;
  struct group_view *made = NULL;
  if (json_unpack_ex(root, &error, JSON_STRICT, "{s:I, s:o}", "epoch", &epoch, "members", &members) != 0)
    err = fail(WEFT_ERR_PROTOCOL, "a view is {\"epoch\", \"members\"}: %s", error.text);
  else if (epoch < 1)
    err = fail(WEFT_ERR_PROTOCOL, "the epoch of a view is from 1, not %lld", (long long)epoch);
  else if (!json_is_array(members) || json_array_size(members) > capacity)
    err = fail(WEFT_ERR_PROTOCOL, "the members of a view are an array of up to %u", capacity);
  else if (!(made = group_view_new((uint64_t)epoch, (uint32_t)json_array_size(members))))
    err = WEFT_ERR_NOMEM;
  else
    err = decode_members(members, capacity, made);
  json_decref(root);
  if (err)
    group_view_unref(made);
  else
    *view = made;
  return err;
}
