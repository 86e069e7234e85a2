// The decisions of one member of a group, without I/O, threads or a clock: the same inputs give the same outputs.
//
// It holds what the store is known to hold (fed by reading everything once, then by the watch), what the layer above
// wishes, and asks for one store request at a time that brings the first nearer to the second. It believes only what it
// reads and watches: the answer to a transaction shows when to read and when to try again, never what is now true.
// So a lost answer, a duplicate event and a lost race need no cases of their own.
//
// A driver loops: carry out what group_machine_request() asks for and hand in the answer, hand in every watch event,
// take events, and come back at `*wake_ns` at the latest. Not safe for concurrent calls. Times are nanoseconds of one
// clock that does not go back. Running out of memory in here is logged and read again from the store.
#ifndef GROUP_MACHINE_H
#define GROUP_MACHINE_H

#include "base/text/text.h"
#include "group/group.h"

struct group_machine;

struct group_machine_options {
  const char *prefix;
  int32_t rank; // -1: the lowest free one
  uint32_t capacity;
  const int32_t *founders; // num_founders 0: this rank alone
  uint32_t num_founders;
  bool join_only;
  uint32_t lease_ttl_s;
  const char *address;
  uint64_t incarnation; // not 0
  uint64_t seed;        // of its random delays
};

enum group_request_kind {
  GROUP_REQUEST_READ,      // end the watch, if any; read every key under the prefix. Answer: `list`
  GROUP_REQUEST_WATCH,     // watch the prefix from `revision`
  GROUP_REQUEST_GRANT,     // a lease of `ttl_s`. Answer: `lease`
  GROUP_REQUEST_KEEPALIVE, // of `lease`; NOT_FOUND tells that it has expired
  GROUP_REQUEST_REVOKE,    // of `lease`
  GROUP_REQUEST_TXN,       // Answer: `succeeded`, `revision`
};

struct group_request {
  enum group_request_kind kind;
  int64_t revision;
  int64_t ttl_s;
  int64_t lease;
  const struct weft_store_txn *txn; // the machine's, until it has the answer
};

struct group_answer {
  int err;
  const char *reason; // with err: a sentence
  int64_t lease;
  bool succeeded;
  int64_t revision;
  const struct weft_store_list *list;
};

enum group_standing {
  GROUP_OPENING, // has not got its claim yet
  GROUP_CLAIMED, // holds its rank (or gets it back, after its lease was lost)
  GROUP_LEFT,    // asked to leave and is out
  GROUP_FENCED,  // was put out; proposes nothing any more
};

int group_machine_new(struct group_machine **machine, const struct group_machine_options *options);
void group_machine_free(struct group_machine *machine);

// The next request to carry out, if one is due and none is under way; otherwise false, and `*wake_ns` is when to ask
// again if no input comes before.
bool group_machine_request(struct group_machine *machine, uint64_t now_ns, struct group_request *request,
                           uint64_t *wake_ns);
void group_machine_answer(struct group_machine *machine, uint64_t now_ns, const struct group_answer *answer);
void group_machine_watch(struct group_machine *machine, uint64_t now_ns, const struct weft_store_event *event);
// The next event for the layer above; the reference to its view passes to the caller.
bool group_machine_event(struct group_machine *machine, struct group_event *event);

// Wishes. They stay until they are fulfilled or withdrawn; whether they are shows in the state below.
void group_machine_found(struct group_machine *machine, bool wish);
void group_machine_join(struct group_machine *machine, uint64_t base_epoch); // 0 withdraws
// Names the incarnation of `rank` in the newest view that is to go, 0 when there is none.
uint64_t group_machine_remove(struct group_machine *machine, int32_t rank);
void group_machine_remove_end(struct group_machine *machine, int32_t rank, uint64_t incarnation);
void group_machine_suspect(struct group_machine *machine, int32_t rank, uint64_t incarnation);
// COMING announces this member, READY follows when it has its links, NONE takes it back.
void group_machine_offer(struct group_machine *machine, enum group_offer_stage stage);
enum group_offer_stage group_machine_offering(const struct group_machine *machine); // what was wished for last
// `removed`: incarnations of change->remove. Both stay the caller's, until NULL withdraws the wish.
void group_machine_change(struct group_machine *machine, const struct group_change *change, const uint64_t *removed);
void group_machine_withdraw(struct group_machine *machine, int32_t rank, uint64_t incarnation); // -1 withdraws the wish
int group_machine_barrier(struct group_machine *machine, const char *name); // EXISTS: under way already
void group_machine_barrier_end(struct group_machine *machine, const char *name);
// Leaves and gives its lease back, until `until_ns` at most; with an unreachable store at once. Nothing else is wished
// after it.
void group_machine_close(struct group_machine *machine, uint64_t until_ns);

// State.
enum group_standing group_machine_standing(const struct group_machine *machine);
bool group_machine_closed(const struct group_machine *machine);
int32_t group_machine_rank(const struct group_machine *machine);                  // -1 while it waits for any
const struct group_view *group_machine_view(const struct group_machine *machine); // the newest agreed, or NULL
bool group_machine_view_stands(const struct group_machine *machine);              // the store holds a readable view
bool group_machine_lives(const struct group_machine *machine); // a member of the newest view has its claim
// Finds the claim of `rank`: its incarnation (0: unreadable) and address (""), or false when it is free.
bool group_machine_claim(const struct group_machine *machine, int32_t rank, uint64_t *incarnation,
                         const char **address);
// The offer of `rank`, and whether its owner announced itself before this member did.
enum group_offer_stage group_machine_offer_of(const struct group_machine *machine, int32_t rank, uint64_t *incarnation,
                                              bool *before);
bool group_machine_offers(const struct group_machine *machine); // the wish stands: nobody has taken it back
// Whether the newest view is as the change asks.
bool group_machine_changed(const struct group_machine *machine);
bool group_machine_change_sent(const struct group_machine *machine);    // its transaction is under way
bool group_machine_change_unknown(const struct group_machine *machine); // one was, and had no answer
// Adds those of change->add that are neither ready nor in the newest view; false when there are none.
bool group_machine_change_missing(const struct group_machine *machine, struct text *missing);
bool group_machine_full(const struct group_machine *machine);          // every rank below capacity is claimed
const char *group_machine_damage(const struct group_machine *machine); // what is wrong with the view's value, or NULL
const char *group_machine_lost(const struct group_machine *machine);   // why the store does not answer, NULL: it does
int group_machine_refused(const struct group_machine *machine); // AUTH while the store refuses this client, else 0
// Adds the founders that have no claim yet, ", " between them; false when there are none.
bool group_machine_missing_founders(const struct group_machine *machine, struct text *missing);
int32_t group_machine_lowest_founder(const struct group_machine *machine);
// Adds the members of the newest view that have not come to the barrier; false when it is complete.
bool group_machine_barrier_missing(const struct group_machine *machine, const char *name, struct text *missing);

#endif
