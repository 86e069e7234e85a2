// The functions that this file wraps are called when rows are posted, have arrived, are published, and are read.
#include "ep/remote/support/strikes.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/remote/neighbours.h"
#include "ep/remote/remote_link.h"

enum { MOMENT_MS = 150 };

const struct scenario *scenario;
struct rank *self;
bool armed;
uint64_t rows_posted, bytes_posted;

void strikes_begin(const struct scenario *of, struct rank *rank) {
  scenario = of;
  self = rank;
  scenario->board->pids[rank->index] = getpid();
}

void __real_ep_net_post(struct ep_net *net, struct ep_post *post);
bool __real_ep_put_rows_arrived(const struct ep_link *link, uint64_t op);
void __real_ep_put_publish_apart(struct ep_link *link, uint64_t op);
void __real_ep_put_rows_apart(struct ep_link *link, uint64_t op, uint32_t rows, uint64_t head_bytes, bool counts);
const void *__real_ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number);
int __real_ep_window_map_read(struct ep_window *window, size_t size, int fd);
void __wrap_ep_net_post(struct ep_net *net, struct ep_post *post);
bool __wrap_ep_put_rows_arrived(const struct ep_link *link, uint64_t op);
void __wrap_ep_put_publish_apart(struct ep_link *link, uint64_t op);
void __wrap_ep_put_rows_apart(struct ep_link *link, uint64_t op, uint32_t rows, uint64_t head_bytes, bool counts);
const void *__wrap_ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number);
int __wrap_ep_window_map_read(struct ep_window *window, size_t size, int fd);

void __wrap_ep_net_post(struct ep_net *net, struct ep_post *post) {
  for (int slot = 0; post->part && slot < EP_DEPTH; slot++) {
    const struct ep_publication *part = &post->remote->parts[slot][EP_PART_DISPATCH];
    if (post->part != (const void *)part)
      continue;
    uint64_t row_bytes = post == &part->heads ? 0 : post->request.pieces[0].length;
    rows_posted += row_bytes / part->strides[0];
    for (uint32_t i = 0; i < post->request.num_pieces; i++)
      bytes_posted += post->request.pieces[i].length;
  }
  __real_ep_net_post(net, post);
}

static void strike(pid_t pid, int signal) {
  if (atomic_exchange(&scenario->board->struck, 1) == 0)
    kill(pid, signal);
}

static struct ep_link *link_to(int32_t rank) {
  return atomic_load(&self->ep->links.by_rank[rank]);
}

bool __wrap_ep_put_rows_arrived(const struct ep_link *link, uint64_t op) {
  bool before = scenario->strikes == CARRIER_KILLED_BEFORE || scenario->strikes == CARRIER_STOPPED_BEFORE;
  if (armed && before && self->index == SOURCE && link->rank == CARRIER) {
    strike(scenario->board->pids[CARRIER], scenario->strikes == CARRIER_KILLED_BEFORE ? SIGKILL : SIGSTOP);
    return false;
  }
  return __real_ep_put_rows_arrived(link, op);
}

void __wrap_ep_put_publish_apart(struct ep_link *link, uint64_t op) {
  if (armed && self->index == SOURCE && link->rank == READER && scenario->strikes == SOURCE_KILLED)
    kill(getpid(), SIGKILL);
  if (armed && self->index == SOURCE && link->rank == READER && scenario->strikes == CARRIER_KILLED_AFTER &&
      !scenario->board->struck) {
    uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
    strike(scenario->board->pids[CARRIER], SIGKILL);
    while (ep_link_up(link_to(CARRIER)) && !clock_passed(deadline))
      poll(NULL, 0, 1);
  }
  __real_ep_put_publish_apart(link, op);
}

// It is the last word of a row header, and of the words that take the place of headers in operations by a route.
void __wrap_ep_put_rows_apart(struct ep_link *link, uint64_t op, uint32_t rows, uint64_t head_bytes, bool counts) {
  const struct ep_layout *layout = &self->ep->layout;
  char *slot = (char *)ep_slot(layout, link->out.memory, op);
  bool lies = armed && self->index == SOURCE && link->rank == READER && scenario->strikes == SOURCE_LIES;
  if (lies && head_bytes > 0 && atomic_exchange(&scenario->board->struck, 1) == 0)
    memcpy(slot + layout->heads + head_bytes - sizeof scenario->lie, &scenario->lie, sizeof scenario->lie);
  __real_ep_put_rows_apart(link, op, rows, head_bytes, counts);
}

static bool is_of_the_dead(const weft_ep_t *ep, uint64_t number) {
  const struct ep_neighbour_area *area = atomic_load(&ep->links.areas);
  while (area && area->number != number)
    area = area->next;
  return area && area->carrier == CARRIER && scenario->strikes == CARRIER_KILLED_AFTER && scenario->board->struck;
}

// Waits a moment for the carrier to receive all its rows. It cannot: the source waits for this rank before it
// overwrites what this rank reads.
static void await_carrier(void) {
  static uint64_t waited_in;
  uint64_t op = weft_ep_next_op(self->ep), deadline = clock_deadline_ms(MOMENT_MS);
  if (waited_in == op)
    return;
  waited_in = op;
  while (scenario->board->operations[CARRIER] < op && !clock_passed(deadline))
    poll(NULL, 0, 1);
}

const void *__wrap_ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number) {
  static uint32_t calls;
  bool reader = self->index == READER && (scenario->strikes == READER_KILLED || scenario->strikes == READER_STOPPED);
  if (armed && reader && ++calls == 25) // rows of the first pieces are checked and laid out by then
    strike(getpid(), scenario->strikes == READER_KILLED ? SIGKILL : SIGSTOP);
  if (armed && self->index == READER && scenario->strikes == READER_SLOW)
    await_carrier();
  scenario->board->read_of_the_dead += is_of_the_dead(ep, number);
  return __real_ep_neighbours_area(ep, source, number);
}

int __wrap_ep_window_map_read(struct ep_window *window, size_t size, int fd) {
  if (self->index == scenario->cannot_map)
    return fail(WEFT_ERR_NOMEM, "this rank maps no window of a neighbour");
  return __real_ep_window_map_read(window, size, fd);
}

bool on_one_host(int32_t a, int32_t b) {
  return a % 2 == b % 2;
}

bool maps(int32_t rank) {
  return rank != scenario->cannot_map;
}

bool shares_rows(int32_t rank) {
  uint32_t others = 0;
  for (int32_t r = 0; r < (int32_t)scenario->ranks; r++)
    others += r != rank && on_one_host(rank, r) && maps(r);
  return maps(rank) && others > 0;
}

bool knows_all(struct rank *rank) {
  for (int32_t a = 0; a < (int32_t)scenario->ranks; a++)
    for (int32_t b = 0; b < (int32_t)scenario->ranks; b++) {
      if (a == b || on_one_host(rank->index, a) || !on_one_host(a, b) || !maps(a))
        continue;
      const struct ep_link *reader = link_to(a), *carrier = link_to(b);
      if (!reader || !carrier || !ep_neighbours_reads(reader, carrier))
        return false;
    }
  return true;
}
