// Values of the store's keys in the model of views, by number.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/support/views_state.h"

static struct {
  char *text;
  const struct group_view *view;
} values[VALUES];
static num num_values;

num value_of(const char *text, size_t size) {
  for (num i = 1; i <= num_values; i++)
    if (strlen(values[i].text) == size && memcmp(values[i].text, text, size) == 0)
      return i;
  if (num_values + 1 == VALUES)
    abort();
  values[++num_values].text = strndup(text, size);
  struct group_view *view = NULL;
  if (group_view_decode(text, size, RANKS, &view) == 0)
    values[num_values].view = view;
  return num_values;
}

const char *value_text(num value) {
  return values[value].text;
}

const struct group_view *value_view(num value) {
  return value ? values[value].view : NULL;
}

num value_of_view(const struct group_view *view) {
  for (num i = 1; view && i <= num_values; i++)
    if (values[i].view && (values[i].view == view || group_view_equal(values[i].view, view)))
      return i;
  if (!view)
    return 0;
  char *text = group_view_encode(view);
  num value = value_of(text, strlen(text));
  free(text);
  return value;
}

static char keys[KEYS][64];

const char *key_text(uint8_t key) {
  if (keys[key][0])
    return keys[key];
  char *text = key == VIEW_KEY     ? group_key_view(PREFIX)
               : key < TICKET_KEYS ? group_key_claim(PREFIX, key - CLAIM_KEYS)
               : key < OFFER_KEYS  ? group_key_ticket(PREFIX, key - TICKET_KEYS + 1u)
                                   : group_key_offer(PREFIX, key - OFFER_KEYS);
  snprintf(keys[key], sizeof keys[key], "%s", text);
  free(text);
  return keys[key];
}

uint8_t key_of(const char *text) {
  for (uint8_t key = 0; key < KEYS; key++)
    if (strcmp(key_text(key), text) == 0)
      return key;
  abort();
}
