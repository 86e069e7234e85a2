// One state of the model of active.h. All fields are bytes, so that equal states are equal strings.
#ifndef TESTS_MODEL_ACTIVE_STATE_H
#define TESTS_MODEL_ACTIVE_STATE_H

#include "ep/core/activation.h"
#include "model/support/active.h"

enum { MEMBERS = 4, DEPTH = EP_ACTIVATION_LEAD, VIEWS = 7, CALM = 5, OPS_MAX = 10 };

enum op_state {
  OP_FREE,
  OP_SENDING,
  OP_SENT,
  OP_RESTARTING, // sends the empty headers that are missing
  OP_COLLECTING,
  OP_ANSWERING,
  OP_ANSWERED,
};

// Sets of members and of epochs are bits.
struct op {
  uint8_t state, number, view, ready, mark;
  uint8_t members, linked, sent, lost; // as in struct ep_op; `linked`: there was a link
  uint8_t rows;                        // members that got rows of this rank
  uint8_t answers;                     // members whose rows were taken and that get an answer
  uint8_t next;                        // place in the order of sends
};

struct member {
  uint8_t dead, started, out;
  uint8_t leaver;               // wants to leave; 2: has asked to
  uint8_t known;                // epochs that it knows
  uint8_t view;                 // of the next operation to send
  uint8_t next_op;              // the next operation to send
  uint8_t op, epoch[2], lowest; // struct ep_activation; 255: none
  uint8_t was_active, closed;   // peers that it counted as active; peers whose links it has closed
  uint8_t silent, doubted;      // peers that it has given up; only the silent ones are reported
  uint8_t mark, learned;        // its own mark; operation + 1 in which it learnt that all members have set theirs
  struct op ops[DEPTH];
  uint8_t before;             // epoch of the operation that it closed last, if steps have several operations
  uint8_t closed_in[OPS_MAX]; // epoch in which it closed the operation; 0: not closed, 255: compared with the others
};

struct header {
  uint8_t flag, active, ready, mark, rows;
};

// The data that one member has written into the window of another, and what both know about it.
struct way {
  struct header slot[DEPTH];
  uint8_t start, start_epoch;
  uint8_t sent[DEPTH], taken[DEPTH]; // `taken` is the reader's
  uint8_t answer[DEPTH], answer_sent[DEPTH], answer_taken[DEPTH];
};

struct world {
  uint8_t views[VIEWS]; // by epoch
  uint8_t newest;
  uint8_t joined; // members that have been in a view
  uint8_t crashes, gives_up, gaps;
  uint8_t differ; // operations that ended in different views
  struct member m[MEMBERS];
  struct way way[MEMBERS][MEMBERS]; // [from][to]
};

// A world during a step.
struct play {
  struct world w;
  const struct active_options *o;
  uint32_t ops;    // the number of operations
  int writes_left; // writes until the member dies; below 0: it does not die
  bool died;
  bool all_came; // an operation was closed with a header of every member that was awaited
  char broken[200];
};

static inline bool has(uint8_t set, int i) {
  return set >> i & 1;
}

// Whether `i` finds its link to `j` down.
static inline bool is_down(const struct world *w, int i, int j) {
  const struct member *a = &w->m[i], *b = &w->m[j];
  return b->dead || has(b->closed, i) || has(a->closed, j) || has(a->silent, j) || has(a->doubted, j);
}

// The view of that epoch, or else the oldest newer one that the member knows; 0: none.
static inline uint8_t find_view(const struct member *m, uint8_t epoch) {
  for (uint8_t e = epoch; e < VIEWS; e++)
    if (has(m->known, e))
      return e;
  return 0;
}

static inline uint8_t newest_known(const struct member *m) {
  uint8_t newest = 0;
  for (uint8_t e = 1; e < VIEWS; e++)
    if (has(m->known, e))
      newest = e;
  return newest;
}

// Whether the store will send nothing more, and all members know everything that it sent.
bool play_is_calm(const struct play *p);

// active_member.c: the steps of a member. Each function returns whether there was something to do.
bool member_send(struct play *p, int i);
bool member_receive(struct play *p, int i);
bool member_adopt(struct play *p, int i, int from);
bool member_pass(struct play *p, int i, int from);
bool member_collect(struct play *p, int i);
bool member_answer(struct play *p, int i);
bool member_end(struct play *p, int i, uint32_t slot);
bool member_begin(struct play *p, int i);
bool member_give_up(struct play *p, int i);
void member_die(struct play *p, int i);

#endif
