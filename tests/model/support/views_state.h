// One state of the model of views.h, in numbers of one or two bytes: equal states are equal strings.
#ifndef TESTS_MODEL_VIEWS_STATE_H
#define TESTS_MODEL_VIEWS_STATE_H

#include "group/state.h"
#include "model/support/views.h"

enum { MEMBERS = 4, RANKS = 4, VIEW_KEY = 0, CLAIM_KEYS = 1, TICKET_KEYS = 1 + RANKS };
enum { OFFER_KEYS = TICKET_KEYS + MEMBERS, KEYS = OFFER_KEYS + RANKS };
enum { EVENTS = 64, COMPARES = 8, OPS = 8, LEASES = 20, VALUES = 4096, NOBODY = 255 };

#define NOW_NS UINT64_C(1000000000000)
#define PREFIX "/weft/model/"

typedef int16_t num;

struct kv {
  num create, mod, lease, value; // create 0: absent
};

struct event {
  num revision;
  uint8_t key, put;
  struct kv kv;
};

struct lease {
  num id;
  uint8_t owner, of_view;
};

struct store {
  num revision, num_events;
  struct kv keys[KEYS];
  struct lease leases[LEASES]; // id 0: free
  struct event events[EVENTS]; // events that some member has not received yet
};

// A request that is on its way, or was carried out and has no answer yet.
struct request {
  uint8_t asked; // enum group_request_kind plus one
  uint8_t executed, succeeded, of_view;
  num err, lease, revision;
  uint8_t num_compares, num_ops;
  struct {
    uint8_t key, target;
    num number;
  } compares[COMPARES];
  struct {
    uint8_t key, put;
    num value, lease;
  } ops[OPS];
};

// The fields of a struct group_machine that change.
struct machine {
  uint8_t synced, watching, late_ticket, standing, founding, leaving, closing, closed;
  uint8_t busy, kind, of_view_lease, retry, conflicts, holding, requests_fail, lost, watch_lost;
  uint8_t keepalive;         // 0: due now, 1: due with the retry, 2: later
  uint8_t grace, view_grace; // whether these times run
  uint8_t turn, backoff;     // whether these delays of a change run
  uint8_t retry_runs, hold_runs;
  uint8_t offering, offered, wanted, sent, unknown, leaves;
  num rank, revision, stored, stored_mod, stored_lease, stored_seen, view;
  num lease, spare_lease, sent_revision, hold_revision, need_mod, join_epoch;
  num builder_lease, builder_of_view;
  num num_tickets;
  struct {
    num revision, incarnation;
  } tickets[MEMBERS];
  struct {
    num incarnation, create, mod, lease;
  } claims[RANKS];
  struct {
    num incarnation, removers, suspected;
  } removals[RANKS];
  struct {
    num incarnation, create, mod, lease, stage;
  } offers[RANKS];
};

enum life { LIFE_NONE, LIFE_ALIVE, LIFE_DEAD, LIFE_ENDED };
enum watch { WATCH_NONE, WATCH_ON, WATCH_CUT, WATCH_BROKEN };

struct member {
  uint8_t life, watch;
  uint8_t leaves;  // 1: may leave, 2: leaves
  uint8_t fenced;  // got GROUP_EVENT_FENCED
  uint8_t wronged; // its lease ended while it lived
  uint8_t was_in;  // has been in a view of the store
  uint8_t offers;  // has offered itself
  uint8_t changes; // 1: requests the change, 2: no longer
  num at;          // number of the store's events that it has received
  num newest;      // epoch of the newest view that it got
  num wanted;      // epoch of the view on which it asked to join
  struct request request;
  struct machine machine;
};

struct world {
  struct store store;
  struct member m[MEMBERS];
  struct request late; // of a member that is dead or has given the request up
  uint8_t late_from;
  uint8_t forgetful, emptied; // the store has lost its view and has no newer one yet; the store was emptied
  num top, last;              // the highest epoch so far; the value of the newest view
  uint8_t crashes, losses, cuts, expiries, empties, withdrawals;
  uint8_t gave_up; // the change was given up, and must not take effect any more
};

// A world during a step.
struct play {
  struct world w;
  const struct views_options *o;
  char broken[200];
};

#define BREAK(play, ...)                                                                                               \
  do {                                                                                                                 \
    if (!(play)->broken[0])                                                                                            \
      snprintf((play)->broken, sizeof(play)->broken, __VA_ARGS__);                                                     \
  } while (0)

// views_values.c: values and keys with numbers. The incarnation of member i is i + 1.
num value_of(const char *text, size_t size);
const char *value_text(num value);
const struct group_view *value_view(num value); // NULL: it is no view
num value_of_view(const struct group_view *view);
const char *key_text(uint8_t key);
uint8_t key_of(const char *text);

// views_store.c
enum store_target { STORE_CREATE, STORE_MOD };
void store_execute(struct store *s, struct request *request, uint8_t owner);
void store_expire(struct store *s, num lease);
bool store_has_lease(const struct store *s, num lease);
void store_forget(struct store *s, num events); // the oldest events

// views_machine.c
extern struct group_change the_change; // the change that member 0 requests
extern uint64_t the_removed[MEMBERS];
void machines_open(const struct views_options *o);
void machines_close(void);
void machine_load(const struct world *w, int i);
void machine_save(struct world *w, int i);
struct group_machine *machine_of(int i);
void world_renumber(struct world *w); // revisions and leases, in order

num world_highest_lease(const struct world *w);

// views_member.c: does what a driver and the layer above do with a machine.
void member_pump(struct play *p, int i);
void member_answer(struct play *p, int i, int err);
void member_execute(struct play *p, int i);
void late_execute(struct play *p);
void member_deliver(struct play *p, int i, bool all);
void member_lose_watch(struct play *p, int i);
void member_resume(struct play *p, int i); // after its watch was cut or broken

#endif
