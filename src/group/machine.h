// The decisions of one member of a group, without I/O, threads or a clock: the same inputs give the same outputs.
//
// The machine keeps the known content of the store (it reads everything once, and then gets events of the watch) and
// the wishes of the layer above. It requests one store operation at a time that brings the store nearer to the wishes.
// It takes the content of the store only from reads and from the watch: the answer to a transaction shows only when to
// read and when to try again. So a lost answer, a duplicate event and a lost race need no special cases.
//
// A driver works in a loop: it carries out the request of group_machine_request() and passes in the answer, passes in
// every event of the watch, takes the machine's events, and calls again at `*wake_ns` at the latest. Concurrent calls
// are not allowed. Times are nanoseconds of one monotonic clock. If memory runs out in here, this is logged, and the
// machine reads the store again.
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
  uint64_t seed;        // seed of its random delays
};

enum group_request_kind {
  GROUP_REQUEST_READ,      // end the watch, if there is one, and read every key under the prefix. Answer: `list`
  GROUP_REQUEST_WATCH,     // watch the prefix from `revision`
  GROUP_REQUEST_GRANT,     // a lease of `ttl_s`. Answer: `lease`
  GROUP_REQUEST_KEEPALIVE, // renew `lease`; NOT_FOUND: it has expired
  GROUP_REQUEST_REVOKE,    // revoke `lease`
  GROUP_REQUEST_TXN,       // Answer: `succeeded`, `revision`
};

struct group_request {
  enum group_request_kind kind;
  int64_t revision;
  int64_t ttl_s;
  int64_t lease;
  const struct weft_store_txn *txn; // the machine owns it; valid until the machine has the answer
};

struct group_answer {
  int err;
  const char *reason; // with err: an error text
  int64_t lease;
  bool succeeded;
  int64_t revision;
  const struct weft_store_list *list;
};

enum group_standing {
  GROUP_OPENING, // has no claim yet
  GROUP_CLAIMED, // holds its rank (or gets it back, after its lease was lost)
  GROUP_LEFT,    // requested to leave, and is out of the view
  GROUP_FENCED,  // was removed by others; proposes nothing any more
};

int group_machine_new(struct group_machine **machine, const struct group_machine_options *options);
void group_machine_free(struct group_machine *machine);

// The next request to carry out, if one is due and none is under way. Otherwise false, and `*wake_ns` is the time of
// the next call, unless an input comes earlier.
bool group_machine_request(struct group_machine *machine, uint64_t now_ns, struct group_request *request,
                           uint64_t *wake_ns);
void group_machine_answer(struct group_machine *machine, uint64_t now_ns, const struct group_answer *answer);
void group_machine_watch(struct group_machine *machine, uint64_t now_ns, const struct weft_store_event *event);
// The next event for the layer above; the reference to its view passes to the caller.
bool group_machine_event(struct group_machine *machine, struct group_event *event);

// Wishes. A wish stays until it is fulfilled or withdrawn; the state below shows whether it is fulfilled.
void group_machine_found(struct group_machine *machine, bool wish);
void group_machine_join(struct group_machine *machine, uint64_t base_epoch); // 0 withdraws
// Returns the incarnation of `rank` in the newest view, which is to be removed; 0: there is none.
uint64_t group_machine_remove(struct group_machine *machine, int32_t rank);
void group_machine_remove_end(struct group_machine *machine, int32_t rank, uint64_t incarnation);
void group_machine_suspect(struct group_machine *machine, int32_t rank, uint64_t incarnation);
// COMING announces this member, READY follows when it has its links, NONE withdraws the offer.
void group_machine_offer(struct group_machine *machine, enum group_offer_stage stage);
enum group_offer_stage group_machine_offering(const struct group_machine *machine); // the last wish
// `removed`: incarnations of change->remove. The caller keeps both unchanged until NULL withdraws the wish.
void group_machine_change(struct group_machine *machine, const struct group_change *change, const uint64_t *removed);
void group_machine_withdraw(struct group_machine *machine, int32_t rank, uint64_t incarnation); // -1 withdraws the wish
int group_machine_barrier(struct group_machine *machine, const char *name); // EXISTS: under way already
void group_machine_barrier_end(struct group_machine *machine, const char *name);
// Leaves and revokes its lease, until `until_ns` at most; if the store is unreachable, it ends at once. It is the last
// wish.
void group_machine_close(struct group_machine *machine, uint64_t until_ns);

// State.
enum group_standing group_machine_standing(const struct group_machine *machine);
bool group_machine_closed(const struct group_machine *machine);
int32_t group_machine_rank(const struct group_machine *machine);                  // -1 while it waits for any rank
const struct group_view *group_machine_view(const struct group_machine *machine); // the newest agreed, or NULL
bool group_machine_view_stands(const struct group_machine *machine);              // the store has a readable view
bool group_machine_lives(const struct group_machine *machine); // a member of the newest view has its claim
// Finds the claim of `rank`: its incarnation (0: unreadable) and address (""). False: the rank is free.
bool group_machine_claim(const struct group_machine *machine, int32_t rank, uint64_t *incarnation,
                         const char **address);
// The stage of the offer of `rank`, and whether its owner announced itself before this member did.
enum group_offer_stage group_machine_offer_of(const struct group_machine *machine, int32_t rank, uint64_t *incarnation,
                                              bool *before);
bool group_machine_offers(const struct group_machine *machine);  // the offer is still wished: nobody has withdrawn it
bool group_machine_changes(const struct group_machine *machine); // a change is wished
// Whether the newest view has the change.
bool group_machine_changed(const struct group_machine *machine);
bool group_machine_change_sent(const struct group_machine *machine);    // its transaction is under way
bool group_machine_change_unknown(const struct group_machine *machine); // a transaction for it had no answer
// Adds to `missing` the ranks of change->add that are neither ready nor in the newest view; false: there are none.
bool group_machine_change_missing(const struct group_machine *machine, struct text *missing);
bool group_machine_full(const struct group_machine *machine);          // every rank below capacity is claimed
const char *group_machine_damage(const struct group_machine *machine); // how the view's value is malformed, or NULL
const char *group_machine_lost(const struct group_machine *machine);   // why the store does not answer, NULL: it does
int group_machine_refused(const struct group_machine *machine); // AUTH while the store refuses this client; else 0
// Adds to `missing` the founders that have no claim yet, separated by ", "; false: there are none.
bool group_machine_missing_founders(const struct group_machine *machine, struct text *missing);
int32_t group_machine_lowest_founder(const struct group_machine *machine);
// Adds to `missing` the members of the newest view that have not arrived at the barrier; false: it is complete. This
// result, like those of the two functions above, does not depend on whether there was memory for the text.
bool group_machine_barrier_missing(const struct group_machine *machine, const char *name, struct text *missing);

#endif
