// The engine of the fake plug-in. Its kernels carry headers with the layout of the real ones, but no tokens. In groups
// for throughput they also carry some rows without content (fake_stream.c), so that the streams are used. The kernels
// follow the rule of activation, but adopt no view. Their records have the values of FAKE_ROWS, FAKE_MISSING and
// FAKE_WAIT_NS (for the second member).
#include "support/fake_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "base/time/clock.h"
#include "cuda/engine/flow_layout.h"
#include "ep/core/activation.h"
#include "support/fake_stream.h"

enum { PUBLISHED = 8, RECORDS = 4, JOINER_NS = 1000000 };

struct view {
  uint64_t epoch;
  uint32_t count;
  struct device_member members[DEVICE_SEATS];
};

struct device_ep {
  struct device *device;
  struct device_ep_options options;
  size_t slot, counts; // bytes of a slot, and where the counts begin
  uint32_t count_units;
  struct cuda_flow flow; // in a group for throughput
  uint64_t stream;       // offset of a stream in a window
  pthread_mutex_t lock;
  struct device_control control;
  struct view published[PUBLISHED];
  uint64_t lost, told[DEVICE_SEATS];
  uint64_t seats, grown, grown_ns; // peers of the newest view; epoch and time of the newest view with new ones
  bool has_view;
  bool links_awake;
  // Used by the thread that runs kernels, and before it runs any
  struct ep_activation activation;
  struct view live[4]; // view of operation n: live[n % 4]
  uint64_t sent, received, combined;
  uint64_t ready[2]; // sent in the headers of the newest two operations
  struct device_record record[RECORDS];
  struct device_progress progress; // under `lock`
  struct device_report report;
};

typedef uint64_t __attribute__((may_alias)) unit_word;

// The flag of a unit is written last and read first.
static void store_unit(struct cuda_unit *unit, uint32_t a, uint32_t b, uint32_t c, uint32_t flag) {
  unit_word *words = (unit_word *)unit;
  __atomic_store_n(words, (uint64_t)b << 32 | a, __ATOMIC_RELAXED);
  __atomic_store_n(words + 1, (uint64_t)flag << 32 | c, __ATOMIC_RELEASE);
}

static struct cuda_unit load_unit(const struct cuda_unit *unit) {
  const unit_word *words = (const unit_word *)unit;
  uint64_t high = __atomic_load_n(words + 1, __ATOMIC_ACQUIRE), low = __atomic_load_n(words, __ATOMIC_ACQUIRE);
  return (struct cuda_unit){.word = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high},
                            .flag = (uint32_t)(high >> 32)};
}

// Writes a word of the report, which the host may read at any time.
static void store_word(volatile uint64_t *word, uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

int fake_ep_open(struct device *device, const struct device_ep_options *options, struct device_ep **out, char *why) {
  if (getenv("FAKE_NO_ENGINE"))
    return fake_say(why, WEFT_ERR_LIMIT, "the fake has no engine");
  if (getenv("FAKE_SHARED") && !options->ordered)
    return fake_say(why, WEFT_ERR_LIMIT, "the fake has room for ordered engines alone");
  struct device_ep *ep = calloc(1, sizeof *ep);
  ep->device = device;
  ep->options = *options;
  struct cuda_layout layout;
  struct cuda_forms forms;
  cuda_area_of(options, &layout, &forms);
  if (options->throughput)
    cuda_flow_of(options, &ep->flow, &ep->stream);
  ep->slot = layout.slot;
  ep->counts = layout.counts;
  ep->count_units = layout.count_units;
  pthread_mutex_init(&ep->lock, NULL);
  *out = ep;
  return 0;
}

void fake_ep_close(struct device_ep *ep) {
  char why[DEVICE_WHY];
  fake_stream_wait(ep->device, NULL, 60000, why);
  pthread_mutex_destroy(&ep->lock);
  free(ep);
}

uint64_t fake_ep_memory(const struct device_ep *ep) {
  return sizeof *ep;
}

const struct device_report *fake_ep_report(const struct device_ep *ep) {
  return &ep->report;
}

int fake_ep_progress(struct device_ep *ep, struct device_progress *progress, char *why) {
  (void)why;
  pthread_mutex_lock(&ep->lock);
  *progress = ep->progress;
  pthread_mutex_unlock(&ep->lock);
  return 0;
}

static _Noreturn void give_up(const struct device_ep *ep, const char *what) {
  fprintf(stderr, "fake device: rank %d: %s\n", ep->options.rank, what);
  abort();
}

static void note_seats(struct device_ep *ep, const struct device_view *view, bool first) {
  uint64_t before = ep->seats;
  ep->seats = 0;
  for (uint32_t m = 0; m < view->count; m++)
    if (view->members[m].rank != ep->options.rank && view->members[m].seat < DEVICE_SEATS)
      ep->seats |= UINT64_C(1) << view->members[m].seat;
  if (first || (ep->seats & ~before) == 0)
    return;
  ep->grown = view->epoch;
  ep->grown_ns = clock_ns();
}

// FAKE_MEMBERS: the most members of a view.
int fake_ep_publish(struct device_ep *ep, const struct device_view *view, char *why) {
  const char *most = getenv("FAKE_MEMBERS");
  if (most && view->count > strtoul(most, NULL, 10))
    return fake_say(why, WEFT_ERR_LIMIT, "too many ranks");
  pthread_mutex_lock(&ep->lock);
  struct view *oldest = &ep->published[0];
  for (int i = 1; i < PUBLISHED; i++)
    if (ep->published[i].epoch < oldest->epoch)
      oldest = &ep->published[i];
  bool room = oldest->epoch == 0 || oldest->epoch < ep->activation.epoch[0] || oldest->epoch < view->oldest;
  if (room) {
    *oldest = (struct view){.epoch = view->epoch, .count = view->count};
    memcpy(oldest->members, view->members, view->count * sizeof *view->members);
    note_seats(ep, view, !ep->has_view);
    ep->has_view = true;
  }
  pthread_mutex_unlock(&ep->lock);
  return room ? 0 : fake_say(why, WEFT_ERR_BUSY, "no room");
}

int fake_ep_control(struct device_ep *ep, const struct device_control *control, char *why) {
  (void)why;
  pthread_mutex_lock(&ep->lock);
  if (control->ready >= ep->grown && ep->control.ready < ep->grown && clock_ns() - ep->grown_ns < JOINER_NS)
    give_up(ep, "it is ready for a joiner that has had no time to hear of its view");
  ep->control = *control;
  pthread_mutex_unlock(&ep->lock);
  return 0;
}

int fake_ep_seat(struct device_ep *ep, uint32_t seat, char *why) {
  (void)why;
  pthread_mutex_lock(&ep->lock);
  ep->lost &= ~(UINT64_C(1) << seat);
  __atomic_store_n(&ep->report.lost[seat], 0, __ATOMIC_RELEASE);
  ep->told[seat] = 0;
  pthread_mutex_unlock(&ep->lock);
  return 0;
}

int fake_ep_zero_copy(struct device_ep *ep, uint32_t seat, const void *memory, char *why) {
  (void)seat, (void)why;
  ((uint8_t *)memory)[ep->options.rank] = (uint8_t)(ep->options.rank + 1);
  return 0;
}

// Finds the published view of `epoch`, or else the oldest newer one. [lock held]
static bool find_view(const struct device_ep *ep, uint64_t epoch, struct view *out) {
  const struct view *found = NULL;
  for (int i = 0; i < PUBLISHED; i++)
    if (ep->published[i].epoch >= epoch && (!found || ep->published[i].epoch < found->epoch))
      found = &ep->published[i];
  if (found && epoch > 0)
    *out = *found;
  return found && epoch > 0;
}

static const struct device_member *member_at(const struct view *view, uint32_t seat) {
  for (uint32_t m = 0; m < view->count; m++)
    if (view->members[m].seat == seat)
      return &view->members[m];
  return NULL;
}

static bool has_self(const struct device_ep *ep, const struct view *view) {
  for (uint32_t m = 0; m < view->count; m++)
    if (view->members[m].rank == ep->options.rank)
      return true;
  return false;
}

static bool is_peer(const struct device_ep *ep, const struct device_member *member) {
  return member->rank != ep->options.rank && member->seat != DEVICE_NO_SEAT;
}

// Notifies the members that are in `next` and not in `now` that `op` is their first operation. [lock held]
static void notify_joiners(struct device_ep *ep, const struct view *now, const struct view *next, uint64_t op) {
  for (uint32_t m = 0; m < next->count; m++) {
    const struct device_member *member = &next->members[m];
    if (!is_peer(ep, member) || member_at(now, member->seat) || !ep_activation_must_publish(ep->told[member->seat], op))
      continue;
    ep->told[member->seat] = op + 1;
    struct cuda_area_head *head = member->out;
    store_unit(&head->start, (uint32_t)(op + 1), 0, (uint32_t)next->epoch, 1);
  }
}

static void begin(struct device_ep *ep, uint64_t op, const struct view *view) {
  ep_activation_init(&ep->activation, op, view->epoch, ep->options.operations_per_step);
  ep->live[op % 4] = ep->live[(op + 1) % 4] = *view;
  ep->sent = ep->received = ep->combined = op;
  notify_joiners(ep, &(struct view){0}, view, op);
}

static void write_awaits(const struct device_member *seats, uint32_t count, uint64_t word) {
  for (uint32_t i = 0; i < count; i++)
    __atomic_store_n(&((struct cuda_area_head *)seats[i].out)->awaits, word, __ATOMIC_RELEASE);
}

int fake_ep_begin(struct device_ep *ep, const struct device_member *seats, uint32_t count, uint64_t op, uint64_t epoch,
                  char *why) {
  struct view view;
  pthread_mutex_lock(&ep->lock);
  bool found = find_view(ep, epoch, &view);
  if (found)
    begin(ep, op, &view);
  pthread_mutex_unlock(&ep->lock);
  if (found)
    write_awaits(seats, count, 0);
  return found ? 0 : fake_say(why, WEFT_ERR_NOT_FOUND, "not published");
}

static bool find_start(const struct device_member *seats, uint32_t count, uint64_t takes, uint64_t *op,
                       uint64_t *epoch) {
  uint64_t first = UINT64_MAX;
  for (uint32_t i = 0; i < count; i++) {
    struct cuda_unit start = load_unit(&((const struct cuda_area_head *)seats[i].in)->start);
    if (start.flag != 1 || start.word[0] > first || !(takes >> i & 1))
      continue;
    first = start.word[0];
    *op = first - 1;
    *epoch = start.word[2];
  }
  return first != UINT64_MAX;
}

int fake_ep_wake_links(struct device_ep *ep, const struct device_member *seats, uint32_t count, char *why) {
  (void)seats, (void)why;
  ep->links_awake = count > 0;
  return 0;
}

static bool read_awaits(const struct device_member *seats, uint32_t count, uint64_t *words) {
  bool news = false;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t word = __atomic_load_n(&((const struct cuda_area_head *)seats[i].in)->awaits, __ATOMIC_ACQUIRE);
    news |= word != words[i];
    words[i] = word;
  }
  return news;
}

int fake_ep_await_begin(struct device_ep *ep, const struct device_member *seats, uint32_t count,
                        struct device_awaiting *awaiting, uint32_t timeout_ms, const volatile bool *cancel,
                        uint64_t *op, uint64_t *epoch, char *why) {
  uint64_t deadline_ns = clock_deadline_ms(timeout_ms);
  *epoch = 0;
  if (!ep->links_awake)
    give_up(ep, "its links may sleep");
  write_awaits(seats, count, awaiting->word);
  while (!find_start(seats, count, awaiting->takes, op, epoch)) {
    if (__atomic_load_n(cancel, __ATOMIC_SEQ_CST))
      return fake_say(why, WEFT_ERR_CANCELED, "cancelled");
    if (read_awaits(seats, count, awaiting->peers) || clock_passed(deadline_ns))
      return fake_say(why, WEFT_ERR_TIMEOUT, "nobody told");
    fake_nap();
  }
  int rc = fake_ep_begin(ep, seats, count, *op, *epoch, why);
  *epoch = rc == 0 ? ep->activation.epoch[0] : *epoch;
  return rc == 0 ? 0 : WEFT_ERR_TIMEOUT;
}

// --- kernels ---

static bool is_gone(struct device_ep *ep, uint32_t seat) {
  pthread_mutex_lock(&ep->lock);
  bool gone = (ep->lost | ep->control.gone) >> seat & 1;
  pthread_mutex_unlock(&ep->lock);
  return gone;
}

static void lose(struct device_ep *ep, uint32_t seat) {
  pthread_mutex_lock(&ep->lock);
  ep->lost |= UINT64_C(1) << seat;
  __atomic_store_n(&ep->report.lost[seat], 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&ep->lock);
}

static struct cuda_slot_head *head_of(const struct device_ep *ep, void *area, uint64_t op) {
  return (struct cuda_slot_head *)((char *)area + sizeof(struct cuda_area_head) + op % CUDA_DEPTH * ep->slot);
}

static bool await_unit(struct device_ep *ep, const struct device_member *member, const struct cuda_unit *unit,
                       uint64_t op, uint64_t deadline_ns) {
  for (;;) {
    bool gone = is_gone(ep, member->seat); // before the unit: what the peer wrote before it went counts
    if (load_unit(unit).flag == (uint32_t)op + 1)
      return true;
    if (gone)
      return false;
    if (clock_passed(deadline_ns)) {
      lose(ep, member->seat);
      return false;
    }
    fake_nap();
  }
}

// The unit of a header that contains the field, and the field's word in it.
static struct cuda_unit *field_unit(const struct device_ep *ep, struct cuda_slot_head *head, uint32_t which,
                                    uint32_t *word) {
  uint32_t field = ep->options.experts_per_rank + which, each = CUDA_UNIT_COUNTS / 2;
  *word = field % each;
  return (struct cuda_unit *)((char *)head + ep->counts) + field / each;
}

// The unit and the word of the field that names the route.
static struct cuda_unit *route_unit(const struct device_ep *ep, struct cuda_slot_head *head, uint32_t *word) {
  return field_unit(ep, head, CUDA_FIELD_ROUTE, word);
}

static void store_field(const struct device_ep *ep, struct cuda_slot_head *head, uint32_t which, uint32_t value,
                        uint32_t flag) {
  uint32_t word;
  struct cuda_unit *at = field_unit(ep, head, which, &word), unit = load_unit(at);
  unit.word[word] = value;
  store_unit(at, unit.word[0], unit.word[1], unit.word[2], flag);
}

// Whether the peer uses the same route; a peer that does not is lost.
static bool goes_along(struct device_ep *ep, const struct device_member *member, struct cuda_slot_head *head,
                       uint64_t op, uint32_t route, uint64_t deadline_ns) {
  uint32_t word;
  if (!ep->options.throughput)
    return true;
  struct cuda_unit *unit = route_unit(ep, head, &word);
  if (!await_unit(ep, member, unit, op, deadline_ns))
    return false;
  if (load_unit(unit).word[word] == route)
    return true;
  lose(ep, member->seat);
  return false;
}

// A wait for a member's rows, or for its credit.
struct stream_wait {
  struct device_ep *ep;
  uint32_t seat;
  uint64_t deadline_ns;
};

static bool is_over(void *arg) {
  const struct stream_wait *wait = arg;
  bool late = clock_passed(wait->deadline_ns);
  if (late)
    lose(wait->ep, wait->seat);
  return late || is_gone(wait->ep, wait->seat);
}

// Sends the rows of a dispatch to a member, or receives them from it. False: the member is lost.
static bool move_rows(struct device_ep *ep, const struct device_member *member, uint64_t op, bool sends) {
  struct stream_wait wait = {ep, member->seat, clock_ns() + ep->options.timeout_ns};
  const struct fake_stream stream = {.flow = &ep->flow,
                                     .in = (char *)member->in + ep->stream,
                                     .out = (char *)member->out + ep->stream,
                                     .is_over = is_over,
                                     .arg = &wait};
  bool wrong = false;
  bool here =
      sends ? fake_stream_send(&stream, ep->options.rank, op) : fake_stream_receive(&stream, member->rank, op, &wrong);
  if (wrong)
    give_up(ep, "a row is another than it should be");
  return here;
}

// Waits for all members at once, as kernels do.
static void hear(struct device_ep *ep, const struct view *view, uint64_t op, uint32_t route,
                 struct device_record *record) {
  uint64_t deadline_ns = clock_ns() + ep->options.timeout_ns;
  for (uint32_t m = 0; m < view->count; m++) {
    const struct device_member *member = &view->members[m];
    if (member->rank == ep->options.rank)
      continue;
    struct cuda_slot_head *head = member->seat == DEVICE_NO_SEAT ? NULL : head_of(ep, member->in, op);
    if (!head || !await_unit(ep, member, &head->count, op, deadline_ns) ||
        !await_unit(ep, member, &head->mark, op, deadline_ns) ||
        !goes_along(ep, member, head, op, route, deadline_ns)) {
      record->lost |= UINT64_C(1) << m;
      continue;
    }
    struct cuda_unit count = load_unit(&head->count), mark = load_unit(&head->mark);
    bool rows = ep->options.throughput && (count.word[0] >> CUDA_HEAD_KIND & 3) == 1;
    if (rows && !move_rows(ep, member, op, false)) {
      record->lost |= UINT64_C(1) << m;
      continue;
    }
    ep_activation_receive(&ep->activation, count.word[2]);
    if (((uint64_t)mark.word[1] << 32 | mark.word[0]) < record->mark)
      record->mark = (uint64_t)mark.word[1] << 32 | mark.word[0];
    if ((count.word[0] >> CUDA_HEAD_KIND & 3) != record->kind)
      record->other_kinds |= UINT64_C(1) << m;
  }
}

static void decide(struct device_ep *ep, uint64_t op) {
  struct view *next = &ep->live[(op + 2) % 4];
  *next = ep->live[(op + 1) % 4];
  uint64_t decided = ep_activation_close(&ep->activation);
  if (decided == 0 || !find_view(ep, decided, next))
    return;
  notify_joiners(ep, &ep->live[(op + 1) % 4], next, op + 2);
  uint64_t n = ep->report.activations;
  store_word(&ep->report.activation[n % DEVICE_ACTIVATIONS].op, op + 2);
  store_word(&ep->report.activation[n % DEVICE_ACTIVATIONS].epoch, next->epoch);
  store_word(&ep->report.activations, n + 1);
}

static uint32_t number_of(const char *variable) {
  const char *value = getenv(variable);
  return value ? (uint32_t)atoi(value) : 0;
}

// A launch that fills the route records the members. A launch that keeps the route finds out whether a rank has joined
// since.
static void follow_route(struct device_ep *ep, const struct fake_launch *launch, const struct view *view,
                         struct device_record *record) {
  struct device_route *route = launch->route;
  if (!route)
    return;
  pthread_mutex_lock(&route->lock);
  for (uint32_t m = 0; launch->keeps && m < view->count; m++) {
    bool had = false;
    for (uint32_t i = 0; i < route->members; i++)
      had |= route->seats[i] == view->members[m].seat;
    if (!had || route->filled == 0)
      record->kind |= DEVICE_CONFLICT;
  }
  if (!launch->keeps) {
    route->filled = record->op + 1;
    route->members = view->count;
    for (uint32_t m = 0; m < view->count; m++)
      route->seats[m] = (uint8_t)view->members[m].seat;
    route->counts = (struct device_route_counts){.op = record->op,
                                                 .epoch = view->epoch,
                                                 .num_rows = record->num_rows,
                                                 .num_ranks = record->num_ranks,
                                                 .num_lost = (uint32_t)__builtin_popcountll(record->lost)};
  }
  pthread_mutex_unlock(&route->lock);
  (void)ep;
}

static uint32_t kept_route(const struct fake_launch *launch) {
  uint32_t filled = 0;
  if (!launch->keeps)
    return 0;
  pthread_mutex_lock(&launch->route->lock);
  filled = (uint32_t)launch->route->filled;
  pthread_mutex_unlock(&launch->route->lock);
  return filled;
}

static void send_half(struct device_ep *ep, const struct fake_launch *launch) {
  const struct device_dispatch *args = &launch->dispatch;
  uint32_t route = kept_route(launch);
  uint64_t op = ep->sent++;
  const struct view view = ep->live[op % 4];
  pthread_mutex_lock(&ep->lock);
  struct device_control control = ep->control;
  ep->progress.ended = ep->combined;
  if (!getenv("FAKE_LAGS")) // with FAKE_LAGS no area is ever unused
    ep->progress.left = ep->combined;
  ep->progress.begun = op + 1;
  if (args->replays)
    store_word(&ep->report.replayed, op + 1);
  pthread_mutex_unlock(&ep->lock);
  struct device_record record = {.op = op, .epoch = view.epoch, .mark = control.mark};
  record.num_ranks = has_self(ep, &view) ? view.count : 0;
  record.num_rows = record.needed_rows = number_of("FAKE_ROWS");
  record.selections = args->num_tokens * ep->options.topk;
  record.missing = number_of("FAKE_MISSING");
  record.tokens = args->num_tokens;
  for (uint32_t m = 0; m < view.count && record.num_ranks > 0; m++) {
    if (!is_peer(ep, &view.members[m]) || is_gone(ep, view.members[m].seat))
      continue;
    struct cuda_slot_head *head = head_of(ep, view.members[m].out, op);
    struct cuda_unit *counts = (struct cuda_unit *)((char *)head + ep->counts);
    for (uint32_t unit = 0; unit < ep->count_units; unit++)
      store_unit(counts + unit, 0, 0, 0, (uint32_t)op + 1);
    if (ep->options.throughput) {
      store_field(ep, head, CUDA_FIELD_ROUTE, route, (uint32_t)op + 1);
      store_field(ep, head, CUDA_FIELD_FORM, fake_stream_form(&ep->flow), (uint32_t)op + 1);
    }
    store_unit(&head->mark, (uint32_t)control.mark, (uint32_t)(control.mark >> 32), 0, (uint32_t)op + 1);
    store_unit(&head->count, args->kind << CUDA_HEAD_KIND, (uint32_t)view.epoch, (uint32_t)control.ready,
               (uint32_t)op + 1);
  }
  for (uint32_t m = 0; m < view.count && record.num_ranks > 0 && ep->options.throughput && args->kind == 1; m++)
    if (is_peer(ep, &view.members[m]) && !is_gone(ep, view.members[m].seat))
      move_rows(ep, &view.members[m], op, true); // after all members have their headers
  ep->ready[op % 2] = control.ready;
  pthread_mutex_lock(&ep->lock);
  ep->record[op % RECORDS] = record;
  pthread_mutex_unlock(&ep->lock);
}

static void receive_half(struct device_ep *ep, const struct fake_launch *launch) {
  uint64_t op = ep->received;
  const struct view view = ep->live[op % 4];
  pthread_mutex_lock(&ep->lock);
  struct device_record record = ep->record[op % RECORDS];
  pthread_mutex_unlock(&ep->lock);
  record.kind = launch->dispatch.kind;
  ep_activation_receive(&ep->activation, ep->ready[op % 2]);
  if (record.num_ranks > 0)
    hear(ep, &view, op, kept_route(launch), &record);
  follow_route(ep, launch, &view, &record);
  for (uint32_t m = 0; m < record.num_ranks; m++)
    record.wait_ns[m] = m == 1 ? number_of("FAKE_WAIT_NS") : 0;
  pthread_mutex_lock(&ep->lock);
  decide(ep, op);
  ep->record[op % RECORDS] = record;
  ep->received = ep->progress.received = op + 1;
  pthread_mutex_unlock(&ep->lock);
}

static void run_dispatch(const struct fake_launch *launch) {
  if (launch->dispatch.halves & DEVICE_SEND)
    send_half(launch->ep, launch);
  if (launch->dispatch.halves & DEVICE_RECV)
    receive_half(launch->ep, launch);
}

static void run_combine(const struct fake_launch *launch) {
  launch->ep->combined++;
}

static void run_nothing(const struct fake_launch *launch) {
  (void)launch;
}

int fake_ep_dispatch(struct device_ep *ep, const struct device_dispatch *args, void *stream, char *why) {
  if (args->halves != (DEVICE_SEND | DEVICE_RECV))
    return fake_say(why, WEFT_ERR_UNSUPPORTED, "the fake has no halves");
  struct fake_launch launch = {.kernel = run_dispatch, .ep = ep, .dispatch = *args};
  if (stream != (void *)1 && !fake_capture(stream, &launch)) // a captured launch does not run
    fake_launch(ep->device, &launch);
  return 0;
}

int fake_ep_combine(struct device_ep *ep, const struct device_combine *args, void *stream, char *why) {
  bool ends = args->halves & DEVICE_RECV && !args->keeps;
  struct fake_launch launch = {.kernel = ends ? run_combine : run_nothing, .ep = ep};
  (void)why;
  if (stream != (void *)1 && !fake_capture(stream, &launch))
    fake_launch(ep->device, &launch);
  return 0;
}

int fake_ep_read_masks(struct device_ep *ep, int32_t *ranks, uint32_t count, uint64_t masked, bool replays,
                       void *stream, char *why) {
  (void)stream, (void)why;
  pthread_mutex_lock(&ep->lock);
  const struct view *view = &ep->live[ep->sent % 4];
  uint64_t seats = replays ? ep->control.masked : masked;
  for (uint32_t i = 0; i < count; i++)
    ranks[i] = 0;
  for (uint32_t m = 0; m < view->count; m++)
    if (view->members[m].seat != DEVICE_NO_SEAT && (uint32_t)view->members[m].rank < count)
      ranks[view->members[m].rank] = seats >> view->members[m].seat & 1;
  pthread_mutex_unlock(&ep->lock);
  return 0;
}

int fake_ep_finish(struct device_ep *ep, void *stream, char *why) {
  (void)stream;
  if (getenv("FAKE_NO_END"))
    return fake_say(why, WEFT_ERR_SYSTEM, "the fake ends nothing");
  fake_launch(ep->device, &(struct fake_launch){.kernel = run_combine, .ep = ep});
  return 0;
}

int fake_ep_record(struct device_ep *ep, uint64_t op, struct device_record *record, char *why) {
  pthread_mutex_lock(&ep->lock);
  *record = ep->record[op % RECORDS];
  pthread_mutex_unlock(&ep->lock);
  return record->op == op && record->kind != 0 ? 0 : fake_say(why, WEFT_ERR_NOT_FOUND, "no such operation");
}

// Reports that no rows are missing.
int fake_ep_missing(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why) {
  (void)ep, (void)op, (void)why;
  memset(missing, 0, num_tokens * sizeof *missing);
  return 0;
}

// --- groups for throughput ---

int fake_flow_clear(struct device_ep *ep, const struct device_window *in, char *why) {
  if (getenv("FAKE_NO_CLEAR"))
    return fake_say(why, WEFT_ERR_NOMEM, "the fake clears no window");
  if (!in->memory)
    return fake_say(why, WEFT_ERR_INVALID, "no window");
  memset((char *)in->memory + ep->stream, 0, sizeof(struct cuda_flow_head));
  return 0;
}

int fake_flow_dispatch(struct device_ep *ep, const struct device_flow_dispatch *args, void *stream, char *why) {
  uint32_t most = number_of("FAKE_PROCESSORS");
  if (most > 0 && args->d.processors != most)
    return fake_say(why, WEFT_ERR_INVALID, "other processors than the test said");
  struct fake_launch launch = {
      .kernel = run_dispatch, .ep = ep, .dispatch = args->d, .route = args->route, .keeps = args->keeps};
  uint32_t topk = args->d.topk ? args->d.topk : ep->options.topk;
  if (args->route && !args->keeps && args->d.topk_idx)
    fake_route_keep(args->route, args->d.topk_idx, args->d.narrow, args->d.num_tokens * topk);
  if (stream != (void *)1 && !fake_capture(stream, &launch))
    fake_launch(ep->device, &launch);
  return 0;
}

int fake_flow_combine(struct device_ep *ep, const struct device_flow_combine *args, void *stream, char *why) {
  const struct device_flow_dispatch begins = {
      .d = {.halves = DEVICE_SEND | DEVICE_RECV, .kind = 1, .replays = args->replays, .processors = args->c.processors},
      .place = args->place,
      .route = args->route,
      .keeps = true};
  if (args->unweighted && args->c.topk_weights)
    return fake_say(why, WEFT_ERR_INVALID, "weights of a combine that has none");
  int rc = args->begins ? fake_flow_dispatch(ep, &begins, stream, why) : 0;
  return rc == 0 ? fake_ep_combine(ep, &args->c, stream, why) : rc;
}
