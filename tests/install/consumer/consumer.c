// The smallest user of libweft, compiled as C and as C++ against an installation.
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static int give_up(const char *what, int err) {
  fprintf(stderr, "%s: %s: %s\n", what, weft_strerror(err), weft_last_error());
  return err;
}

static int use_store(weft_store_t *store) {
  int err = weft_store_put(store, "/weft/consumer", "woven", 5, 0, NULL);
  if (err)
    return give_up("put", err);
  struct weft_store_list *list;
  err = weft_store_range(store, "/weft/consumer", false, 0, &list);
  if (err)
    return give_up("range", err);
  bool same = list->count == 1 && list->kvs[0]->value_len == 5 && memcmp(list->kvs[0]->value, "woven", 5) == 0;
  weft_store_list_free(list);
  return same ? 0 : give_up("the value read is not the one put", WEFT_ERR_DATA);
}

// A group of one rank: open, activate, one operation.
static int use_ep(weft_store_t *store) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.hidden = 128;
  options.max_tokens = 4;
  weft_ep_t *ep = NULL;
  int err = weft_ep_open(&ep, &options, 30000);
  if (err)
    return give_up("open", err);
  err = weft_ep_activate(ep, 30000);
  if (err)
    give_up("activate", err);
  else if ((err = weft_ep_barrier(ep)) != 0)
    give_up("barrier", err);
  weft_ep_close(ep);
  return err;
}

int main(void) {
  weft_store_t *store = NULL;
  int err = weft_store_open_local(&store);
  if (err)
    give_up("store", err);
  else if ((err = use_store(store)) == 0)
    err = use_ep(store);
  weft_store_close(store);
  printf("weft %s\n", weft_version());
  return weft_err_exit_status(err);
}
