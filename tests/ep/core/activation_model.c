// The activation rule with crashes, in a model: members use the real decision and the adoption rule of recv_headers.c
// on headers that a dying member delivers to some members only, while ranks join and leave. Without a crash all members
// agree on every operation, after a crash they soon agree again, and no member waits for ever. If operations form
// steps, the view of a member changes only where a step begins. Each seed gives one random sequence.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "ep/core/activation.h"

enum { RANKS = 6, FOUNDERS = 4, OPS = 60, VIEWS = 64, STEPS = 20000, SEEDS = 3000, DEPTH = EP_ACTIVATION_LEAD };

struct header {
  bool there;
  uint64_t active, ready;
};

struct member {
  bool member;  // of the newest view at some time
  bool started; // runs operations
  bool dead;
  bool out;       // runs no more, having seen that the view is without it
  uint64_t known; // newest view that it has received of
  struct ep_activation activation;
  uint64_t view;    // of the next operation to send
  uint64_t next_op; // to send
  uint64_t sent_view[OPS + DEPTH], sent_ready[OPS + DEPTH];
  uint32_t sent_to[OPS + DEPTH]; // bit r: our header of the operation went to r
  uint32_t received[OPS + DEPTH], passed[OPS + DEPTH];
  uint64_t closed_in[OPS + DEPTH]; // 0: not closed
  uint64_t start_op[RANKS];        // start_op[from]: sent by that member, plus one; 0: none
  uint64_t start_epoch[RANKS];
  struct header in[RANKS][OPS + DEPTH];
};

struct world {
  struct member m[RANKS];
  uint32_t views[VIEWS]; // bits of members; by epoch
  uint64_t newest;
  uint32_t dead; // and not yet out of the newest view
  uint32_t crashes;
  uint64_t random;
  uint32_t step; // operations of a step
  uint64_t adoptions, passes;
};

static uint64_t draw(struct world *w, uint64_t below) {
  return random_next(&w->random) % below;
}

static bool in_view(const struct world *w, uint64_t epoch, int rank) {
  return w->views[epoch] >> rank & 1;
}

static void die(struct world *w, int rank) {
  w->m[rank].dead = true;
  w->dead |= 1u << rank;
  w->crashes++;
}

static bool runs(const struct member *m) {
  return m->started && !m->dead && !m->out;
}

// --- the store ---

static void commit(struct world *w, uint32_t members) {
  if (w->newest + 1 < VIEWS && members != w->views[w->newest])
    w->views[++w->newest] = members;
}

static bool commit_something(struct world *w) {
  uint32_t now = w->views[w->newest];
  if (now & w->dead) {
    commit(w, now & ~w->dead);
    return true;
  }
  int rank = (int)draw(w, RANKS);
  if (!(now >> rank & 1) && !w->m[rank].member) {
    w->m[rank].member = true;
    commit(w, now | 1u << rank);
  } else if (runs(&w->m[rank]) && __builtin_popcount(now) > 2 && (now >> rank & 1)) {
    commit(w, now & ~(1u << rank));
  } else {
    return false;
  }
  return true;
}

// --- a member ---

static void send_start(struct world *w, int from, int to, uint64_t op, uint64_t epoch) {
  struct member *m = &w->m[to];
  if (m->start_op[from] != 0 && m->start_op[from] <= op + 1)
    return;
  m->start_op[from] = op + 1;
  m->start_epoch[from] = epoch;
}

static void put(struct world *w, int from, int to, uint64_t op) {
  struct member *m = &w->m[from];
  m->sent_to[op] |= 1u << to;
  w->m[to].in[from][op] = (struct header){.there = true, .active = m->sent_view[op], .ready = m->sent_ready[op]};
}

// Sends the headers of the next operation; a crash among them leaves some without.
static void send_headers(struct world *w, int rank, bool crash) {
  struct member *m = &w->m[rank];
  uint64_t op = m->next_op++;
  m->sent_view[op] = m->view;
  m->sent_ready[op] = m->known;
  for (int to = 0; to < RANKS; to++)
    if (to != rank && in_view(w, m->view, to) && !(crash && draw(w, 2)))
      put(w, rank, to, op);
  if (crash)
    die(w, rank);
}

static void set_view(struct world *w, int rank, uint64_t op, uint64_t epoch) {
  struct member *m = &w->m[rank];
  ep_activation_adopt(&m->activation, epoch);
  m->sent_view[op] = epoch;
  m->received[op] = 0;
  for (int to = 0; to < RANKS; to++)
    if (to != rank && in_view(w, epoch, to) && !(m->sent_to[op] >> to & 1) && !(m->passed[op] >> to & 1))
      send_start(w, rank, to, op, epoch), put(w, rank, to, op);
  w->adoptions++;
}

// Whether the peer's end of the link is closed: its process is gone, or it runs in a newer view without us.
static bool hung_up(const struct world *w, int rank, int from, uint64_t op) {
  const struct member *peer = &w->m[from];
  return peer->dead || peer->out || (peer->view > w->m[rank].sent_view[op] && !in_view(w, peer->view, rank));
}

static bool counts_us_later(const struct member *m, int from, uint64_t op) {
  uint64_t start = m->start_op[from];
  return start > op + 1 && start - 1 < OPS && m->in[from][start - 1].there;
}

static void close_op(struct world *w, int rank, uint64_t op, bool crash) {
  struct member *m = &w->m[rank];
  uint64_t now = m->sent_view[op];
  m->closed_in[op] = now;
  uint64_t decided = ep_activation_close(&m->activation);
  for (int to = 0; decided && to < RANKS; to++)
    if (in_view(w, decided, to) && !in_view(w, now, to) && !(crash && draw(w, 2)))
      send_start(w, rank, to, op + EP_ACTIVATION_LEAD, decided);
  if (crash) {
    die(w, rank);
    return;
  }
  uint64_t follow = m->next_op < op + 2 ? m->next_op : op + 2;
  uint64_t epoch = ep_activation_epoch(&m->activation, follow);
  m->view = epoch > m->view ? epoch : m->view;
  m->out = !in_view(w, m->view, rank);
}

// One look at the headers of the oldest open operation. True: something happened.
static bool listen(struct world *w, int rank, bool crash) {
  struct member *m = &w->m[rank];
  uint64_t op = m->activation.op;
  if (op >= m->next_op)
    return false;
  uint64_t due = ep_activation_epoch(&m->activation, op);
  if (due > m->sent_view[op]) {
    set_view(w, rank, op, due);
    return true;
  }
  if (m->received[op] == 0) {
    ep_activation_receive(&m->activation, m->sent_ready[op]);
    m->received[op] = 1u << rank;
  }
  bool waits = false;
  for (int from = 0; from < RANKS; from++) {
    uint32_t bit = 1u << from;
    if (!in_view(w, m->sent_view[op], from) || ((m->received[op] | m->passed[op]) & bit))
      continue;
    struct header *h = &m->in[from][op];
    if (!h->there) {
      if (counts_us_later(m, from, op)) {
        m->passed[op] |= bit;
        w->passes++;
        return true;
      }
      waits |= !hung_up(w, rank, from, op);
      continue;
    }
    if (h->active > m->sent_view[op]) {
      m->known = m->known > h->active ? m->known : h->active;
      if (in_view(w, h->active, rank)) {
        set_view(w, rank, op, h->active);
        return true;
      }
      m->out = true;
      return true;
    }
    m->received[op] |= bit;
    ep_activation_receive(&m->activation, h->ready);
  }
  if (waits)
    return false;
  close_op(w, rank, op, crash);
  return true;
}

static bool begin(struct world *w, int rank) {
  struct member *m = &w->m[rank];
  uint64_t op = UINT64_MAX, epoch = 0;
  for (int from = 0; from < RANKS; from++)
    if (m->start_op[from] && m->start_op[from] - 1 < op) {
      op = m->start_op[from] - 1;
      epoch = m->start_epoch[from];
    }
  if (op == UINT64_MAX || op >= OPS)
    return false;
  ep_activation_init(&m->activation, op, epoch, w->step);
  m->started = true;
  m->known = m->known > epoch ? m->known : epoch;
  m->next_op = op;
  m->view = epoch;
  for (int to = 0; to < RANKS; to++)
    if (to != rank && in_view(w, epoch, to))
      send_start(w, rank, to, op, epoch);
  return true;
}

static bool step(struct world *w, int rank, bool overlap) {
  struct member *m = &w->m[rank];
  if (m->dead || m->out || !m->member)
    return false;
  if (!m->started)
    return begin(w, rank);
  bool crash = w->crashes < 3 && __builtin_popcount(w->views[w->newest] & ~w->dead) > 2 && draw(w, 40) == 0;
  uint64_t depth = overlap ? DEPTH : 1;
  bool may_send = m->next_op < OPS && m->next_op < m->activation.op + depth;
  if (may_send && (draw(w, 2) || m->activation.op == m->next_op)) {
    send_headers(w, rank, crash);
    return true;
  }
  return listen(w, rank, crash) || (may_send && (send_headers(w, rank, crash), true));
}

static bool learn_of_views(struct world *w) {
  bool news = false;
  for (int rank = 0; rank < RANKS; rank++)
    if (!w->m[rank].dead && w->m[rank].known < w->newest && draw(w, 2)) {
      w->m[rank].known++;
      news = true;
    }
  return news;
}

static bool differ(const struct world *w, uint64_t op) {
  uint64_t first = 0;
  for (int rank = 0; rank < RANKS; rank++) {
    uint64_t epoch = runs(&w->m[rank]) ? w->m[rank].closed_in[op] : 0;
    if (epoch != 0 && first != 0 && epoch != first)
      return true;
    first = first ? first : epoch;
  }
  return false;
}

// Without a crash survivors agree on every operation; each crash costs at most two in which they differ. With steps it
// costs a whole step, if a leaver decides a newer view than the others do, notifies a joiner, and is out: the others
// make the same decision one step later, and until then the joiner passes over them.
static void check_agreement(const struct world *w, uint64_t seed) {
  uint32_t different = 0;
  for (uint64_t op = 0; op < OPS; op++)
    different += differ(w, op);
  if (different > 2 * w->crashes * w->step)
    fail_msg("seed %d: survivors ended %u operations in different views, after %u crashes", (int)seed, different,
             w->crashes);
}

static void check_nobody_waits(const struct world *w, uint64_t seed) {
  for (int rank = 0; rank < RANKS; rank++)
    if (runs(&w->m[rank]) && w->m[rank].activation.op < OPS)
      fail_msg("seed %d: rank %d waits for ever in operation %d of view %d", (int)seed, rank,
               (int)w->m[rank].activation.op, (int)w->m[rank].sent_view[w->m[rank].activation.op]);
}

// After two crashes a member may adopt a view one operation late.
static void check_steps(const struct world *w, uint64_t seed) {
  uint32_t late = 0;
  for (int rank = 0; rank < RANKS; rank++)
    for (uint64_t op = 1; op < OPS; op++) {
      uint64_t before = w->m[rank].closed_in[op - 1], epoch = w->m[rank].closed_in[op];
      late += op % w->step != 0 && before != epoch && epoch != 0;
    }
  if (late > (w->crashes < 2 ? 0 : RANKS))
    fail_msg("seed %d: the view changed within a step %u times, after %u crashes", (int)seed, late, w->crashes);
}

static uint64_t adoptions, passes;

static void run_scenario(uint64_t seed, bool overlap, uint32_t operations) {
  static struct world w;
  memset(&w, 0, sizeof w);
  w.random = seed;
  w.step = operations;
  w.newest = 1;
  w.views[1] = (1u << FOUNDERS) - 1;
  for (int rank = 0; rank < FOUNDERS; rank++) {
    w.m[rank].member = w.m[rank].started = true;
    w.m[rank].known = w.m[rank].view = 1;
    ep_activation_init(&w.m[rank].activation, 0, 1, operations);
  }
  for (int i = 0, idle = 0; i < STEPS && idle < 1000; i++) {
    bool did = draw(&w, 30) == 0 ? commit_something(&w) : draw(&w, 4) == 0 ? learn_of_views(&w) : false;
    did |= step(&w, (int)draw(&w, RANKS), overlap);
    idle = did ? 0 : idle + 1;
  }
  adoptions += w.adoptions;
  passes += w.passes;
  check_agreement(&w, seed);
  check_steps(&w, seed);
  check_nobody_waits(&w, seed);
}

static void survivors_agree_one_operation_at_a_time(void **state) {
  (void)state;
  adoptions = passes = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++)
    run_scenario(seed, false, 1);
  assert_true(adoptions > 0); // the seeds reach what is tested
}

static void survivors_agree_with_two_operations_open(void **state) {
  (void)state;
  adoptions = passes = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++)
    run_scenario(seed, true, 1);
  assert_true(adoptions > 0);
}

static void views_change_between_steps(void **state) {
  (void)state;
  adoptions = passes = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++)
    run_scenario(seed, seed % 2, 2 + seed % 5);
  assert_true(adoptions > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(survivors_agree_one_operation_at_a_time),
      cmocka_unit_test(survivors_agree_with_two_operations_open),
      cmocka_unit_test(views_change_between_steps),
  };
  return cmocka_run_group_tests_name("ep_activation_model", tests, NULL, NULL);
}
