// The state machine of a group's member on a store that anybody writes into. An input is a scenario, a line for each
// step: a letter, and what belongs to it.
//
//   t MS            so much time passes          p KEY VALUE     another client puts; the watch sends it
//   q ERR           carries out the machine's    d KEY           another client deletes; the watch sends it
//                   request, or fails it         l | b | x       the watch is lost, is back, is back without history
//   f               wishes to found              j EPOCH         wishes to join; 0: no more
//   r RANK          wishes it out                s RANK HEX      suspects that incarnation
//   n NAME | e NAME a barrier begins, ends       c               closes
//   o STAGE         offers itself; 0: no more    w RANK HEX      takes that offer back
//   g               wishes a change in one step  h               and no more
//
// Views come in order, none twice; a lower epoch comes only to a member that the view before it has not. Requests are
// right, and a machine that is closed comes to its end, with a few requests.
#include "group/machine.h"
#include "group/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/support/fuzz.h"

enum { CAPACITY = 8, MAX_KEYS = 24, MAX_STEPS = 200, CLOSE_REQUESTS = 20 };

static const char prefix[] = "/g/";
static const uint64_t incarnation = 0x1111111111111111;
static const uint64_t second = 1000000000;
static const int32_t added[] = {0, 2, 3}, removes[] = {1};
static const uint64_t removed[] = {0x2222222222222222};
static const struct group_change change = {.add = added, .remove = removes, .num_add = 3, .num_remove = 1};

struct key {
  char *name, *value;
  size_t size;
  int64_t created, changed, lease;
};

struct scenario {
  struct group_machine *machine;
  bool changes; // a change is wished
  struct key keys[MAX_KEYS];
  size_t num_keys;
  int64_t revision, leases;
  const struct group_view *view; // the last one that the member got
  uint64_t now_ns;
  bool watching;
};

static struct weft_store_kv kv_of(const struct key *key) {
  return (struct weft_store_kv){.key = key->name,
                                .value = key->value,
                                .key_len = strlen(key->name),
                                .value_len = key->size,
                                .create_revision = key->created,
                                .mod_revision = key->changed,
                                .version = 1,
                                .lease = key->lease};
}

static void deliver(struct scenario *scenario, enum weft_store_event_kind kind, const struct key *key) {
  struct weft_store_event event = {.kind = kind, .revision = scenario->revision};
  struct weft_store_kv kv;
  if (key) {
    kv = kv_of(key);
    event.kv = &kv;
  }
  if (scenario->watching)
    group_machine_watch(scenario->machine, scenario->now_ns, &event);
}

static struct key *find(struct scenario *scenario, const char *name) {
  for (size_t i = 0; i < scenario->num_keys; i++)
    if (strcmp(scenario->keys[i].name, name) == 0)
      return &scenario->keys[i];
  return NULL;
}

static void put(struct scenario *scenario, const char *name, const void *value, size_t size, int64_t lease) {
  struct key *key = find(scenario, name);
  if (!key && scenario->num_keys == MAX_KEYS)
    return;
  if (!key) {
    key = &scenario->keys[scenario->num_keys++];
    *key = (struct key){.name = strdup(name), .created = scenario->revision};
  }
  free(key->value);
  key->value = malloc(size + 1);
  memcpy(key->value, value, size);
  key->value[size] = '\0';
  key->size = size;
  key->changed = scenario->revision;
  key->lease = lease;
  deliver(scenario, WEFT_STORE_EVENT_PUT, key);
}

static void drop(struct scenario *scenario, const char *name) {
  struct key *key = find(scenario, name);
  if (!key)
    return;
  struct key gone = *key;
  *key = scenario->keys[--scenario->num_keys];
  struct key deletion = {.name = gone.name, .changed = scenario->revision};
  deliver(scenario, WEFT_STORE_EVENT_DELETE, &deletion);
  free(gone.name);
  free(gone.value);
}

static void check_txn(const struct weft_store_txn *txn) {
  FUZZ_CHECK(txn->num_compares <= 128 && txn->num_success <= 128 && txn->num_failure <= 128);
  for (size_t i = 0; i < txn->num_success; i++) {
    const struct weft_store_op *op = &txn->success[i];
    FUZZ_CHECK(strncmp(op->key, prefix, sizeof prefix - 1) == 0);
    for (size_t j = 0; op->kind == WEFT_STORE_PUT && j < i; j++) // etcd refuses to put a key twice
      FUZZ_CHECK(txn->success[j].kind != WEFT_STORE_PUT || strcmp(txn->success[j].key, op->key) != 0);
  }
}

static void run_txn(struct scenario *scenario, const struct weft_store_txn *txn, struct group_answer *answer) {
  check_txn(txn);
  answer->succeeded = true;
  for (size_t i = 0; i < txn->num_compares; i++) {
    const struct weft_store_compare *compare = &txn->compares[i];
    const struct key *key = find(scenario, compare->key);
    int64_t number = !key ? 0 : compare->target == WEFT_STORE_CREATE ? key->created : key->changed;
    FUZZ_CHECK(compare->target == WEFT_STORE_CREATE || compare->target == WEFT_STORE_MOD);
    answer->succeeded &= number == compare->number;
  }
  scenario->revision += answer->succeeded;
  for (size_t i = 0; answer->succeeded && i < txn->num_success; i++) {
    const struct weft_store_op *op = &txn->success[i];
    if (op->kind == WEFT_STORE_PUT)
      put(scenario, op->key, op->value, op->value_len, op->lease);
    else
      drop(scenario, op->key);
  }
  answer->revision = scenario->revision;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(struct weft_store_kv *const *)a)->key, (*(struct weft_store_kv *const *)b)->key);
}

static void answer_read(struct scenario *scenario, struct group_answer *answer) {
  struct weft_store_kv kvs[MAX_KEYS], *places[MAX_KEYS];
  struct weft_store_list list = {.kvs = places, .revision = scenario->revision};
  for (; list.count < scenario->num_keys; list.count++) {
    kvs[list.count] = kv_of(&scenario->keys[list.count]);
    places[list.count] = &kvs[list.count];
  }
  qsort(places, list.count, sizeof *places, by_name);
  list.total = list.count;
  answer->list = &list;
  scenario->watching = false;
  group_machine_answer(scenario->machine, scenario->now_ns, answer);
}

static void end_lease(struct scenario *scenario, int64_t lease) {
  scenario->revision++;
  for (size_t i = scenario->num_keys; i > 0; i--)
    if (i <= scenario->num_keys && scenario->keys[i - 1].lease == lease)
      drop(scenario, scenario->keys[i - 1].name);
}

// Carries out the next request, if there is one; `err` other than 0: it fails so instead.
static bool carry_out(struct scenario *scenario, int err) {
  struct group_request request;
  uint64_t wake_ns;
  if (!group_machine_request(scenario->machine, scenario->now_ns, &request, &wake_ns))
    return false;
  struct group_answer answer = {.err = err, .reason = err ? "as the scenario has it" : NULL};
  if (err == 0 && request.kind == GROUP_REQUEST_READ) {
    answer_read(scenario, &answer);
    return true;
  }
  if (err == 0 && request.kind == GROUP_REQUEST_TXN)
    run_txn(scenario, request.txn, &answer);
  else if (err == 0 && request.kind == GROUP_REQUEST_REVOKE)
    end_lease(scenario, request.lease);
  else if (request.kind == GROUP_REQUEST_GRANT) {
    FUZZ_CHECK(request.ttl_s > 0);
    answer.lease = err ? 0 : ++scenario->leases;
  }
  if (request.kind == GROUP_REQUEST_WATCH) {
    FUZZ_CHECK(request.revision > 0);
    scenario->watching = err == 0;
  }
  group_machine_answer(scenario->machine, scenario->now_ns, &answer);
  return true;
}

static void check_view(const struct group_view *view) {
  FUZZ_CHECK(view->count <= CAPACITY);
  for (uint32_t i = 0; i < view->count; i++) {
    FUZZ_CHECK(view->members[i].rank >= 0 && view->members[i].rank < CAPACITY && view->members[i].incarnation != 0);
    FUZZ_CHECK(i == 0 || view->members[i].rank > view->members[i - 1].rank);
  }
}

static void take_view(struct scenario *scenario, const struct group_view *view) {
  const struct group_view *before = scenario->view;
  check_view(view);
  FUZZ_CHECK(!before || !group_view_equal(before, view));
  FUZZ_CHECK(!before || view->epoch > before->epoch ||
             !group_view_has(before, group_machine_rank(scenario->machine), incarnation));
  group_view_unref(before);
  scenario->view = group_view_ref(view);
}

static void take_events(struct scenario *scenario) {
  struct group_event event;
  while (group_machine_event(scenario->machine, &event)) {
    if (event.kind == GROUP_EVENT_VIEW)
      take_view(scenario, event.view);
    group_view_unref(event.view);
  }
}

// Everything that can be asked without changing anything.
static void look(const struct scenario *scenario) {
  const struct group_machine *machine = scenario->machine;
  const struct group_view *view = group_machine_view(machine);
  struct text missing = {0};
  uint64_t claimer;
  const char *address;
  if (view)
    check_view(view);
  for (int32_t rank = 0; rank < CAPACITY; rank++)
    FUZZ_CHECK(!group_machine_claim(machine, rank, &claimer, &address) || address);
  FUZZ_CHECK(group_machine_rank(machine) >= -1 && group_machine_rank(machine) < CAPACITY);
  group_machine_full(machine);
  group_machine_view_stands(machine);
  group_machine_damage(machine);
  group_machine_lost(machine);
  group_machine_missing_founders(machine, &missing);
  group_machine_barrier_missing(machine, "b", &missing);
  if (scenario->changes && !group_machine_changed(machine))
    group_machine_change_missing(machine, &missing);
  text_free(&missing);
}

static void wish(struct scenario *scenario, char letter, const char *rest) {
  struct group_machine *machine = scenario->machine;
  char *end;
  int32_t rank = (int32_t)((uint64_t)strtoull(rest, &end, 10) % CAPACITY);
  if (letter == 'f')
    group_machine_found(machine, true);
  else if (letter == 'j')
    group_machine_join(machine, strtoull(rest, NULL, 10));
  else if (letter == 'r')
    group_machine_remove(machine, rank);
  else if (letter == 's')
    group_machine_suspect(machine, rank, strtoull(end, NULL, 16));
  else if (letter == 'n' && *rest && !strchr(rest, '/'))
    group_machine_barrier(machine, rest);
  else if (letter == 'e')
    group_machine_barrier_end(machine, rest);
  else if (letter == 'o')
    group_machine_offer(machine, (enum group_offer_stage)(rank % (GROUP_OFFER_READY + 1)));
  else if (letter == 'w')
    group_machine_withdraw(machine, rank, strtoull(end, NULL, 16));
  else if (letter == 'g' || letter == 'h')
    group_machine_change(machine, (scenario->changes = letter == 'g') ? &change : NULL, removed);
  else if (letter == 'c')
    group_machine_close(machine, scenario->now_ns + second);
}

static void write_key(struct scenario *scenario, char letter, char *rest, size_t size) {
  char *space = memchr(rest, ' ', size), name[256];
  size_t length = space ? (size_t)(space - rest) : size;
  if (length == 0 || length > 200 || memchr(rest, '\0', length))
    return;
  snprintf(name, sizeof name, "%s%.*s", prefix, (int)length, rest);
  scenario->revision++;
  if (letter == 'p')
    put(scenario, name, space ? space + 1 : "", space ? size - length - 1 : 0, 99);
  else
    drop(scenario, name);
}

static void step(struct scenario *scenario, char *line, size_t size) {
  static const int errors[] = {0,
                               WEFT_ERR_UNREACHABLE,
                               WEFT_ERR_TIMEOUT,
                               WEFT_ERR_NOT_FOUND,
                               WEFT_ERR_AUTH,
                               WEFT_ERR_PROTOCOL,
                               WEFT_ERR_COMPACTED};
  char letter = line[0], *rest = size > 1 ? line + 2 : line + 1;
  size_t left = size > 2 ? size - 2 : 0;
  if (letter == 't')
    scenario->now_ns += strtoull(rest, NULL, 10) % 100000 * 1000000;
  else if (letter == 'q')
    carry_out(scenario, errors[strtoull(rest, NULL, 10) % (sizeof errors / sizeof *errors)]);
  else if (letter == 'p' || letter == 'd')
    write_key(scenario, letter, rest, left);
  else if (letter == 'l')
    deliver(scenario, WEFT_STORE_EVENT_LOST, NULL);
  else if (letter == 'b')
    deliver(scenario, WEFT_STORE_EVENT_RESUMED, NULL);
  else if (letter == 'x') {
    deliver(scenario, WEFT_STORE_EVENT_RESET, NULL);
    scenario->watching = false;
  } else
    wish(scenario, letter, rest);
}

static void end(struct scenario *scenario) {
  uint64_t until_ns = scenario->now_ns + second;
  group_machine_close(scenario->machine, until_ns);
  for (int requests = 0; !group_machine_closed(scenario->machine);) {
    if (carry_out(scenario, 0))
      FUZZ_CHECK(++requests <= CLOSE_REQUESTS);
    else
      FUZZ_CHECK((scenario->now_ns += second / 100) <= until_ns + second);
    take_events(scenario);
  }
  group_machine_free(scenario->machine);
  group_view_unref(scenario->view);
  while (scenario->num_keys > 0) {
    struct key *key = &scenario->keys[--scenario->num_keys];
    free(key->name);
    free(key->value);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {(const char *)data, size};
  const int32_t founders[] = {0, 1};
  char *line = fuzz_line(&input, NULL); // the rank: "0", or anything else for any
  if (!line)
    return 0;
  bool named = *line >= '0' && *line < '0' + CAPACITY;
  struct group_machine_options options = {.prefix = prefix,
                                          .rank = named ? *line - '0' : -1,
                                          .capacity = CAPACITY,
                                          .founders = founders,
                                          .num_founders = named && *line < '2' ? 2 : 0,
                                          .lease_ttl_s = 10,
                                          .address = "here",
                                          .incarnation = incarnation,
                                          .seed = 1};
  free(line);
  struct scenario scenario = {.now_ns = second, .revision = 1};
  FUZZ_CHECK(group_machine_new(&scenario.machine, &options) == 0);
  for (int i = 0; i < MAX_STEPS && (line = fuzz_line(&input, &size)); i++) {
    if (size > 0)
      step(&scenario, line, size);
    free(line);
    take_events(&scenario);
    look(&scenario);
  }
  end(&scenario);
  return 0;
}
