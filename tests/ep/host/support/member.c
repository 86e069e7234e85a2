// A rank of random_throughput.c: its buffers, its calls, and the order of the checks.
#include "ep/host/support/member.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"

enum { PATIENCE_MS = 120000, APART = 6, MOST_ALIGNMENT = 16 };

bool member_fail(struct member *m, const char *format, ...) {
  if (m->error[0])
    return false;
  int used =
      snprintf(m->error, sizeof m->error, "rank %d, operation %llu (kind %d, layout %d, type %d, top-k %u): ", m->rank,
               (unsigned long long)m->number, m->op.kind, m->own.layout, m->op.dtype, m->op.topk);
  va_list args;
  va_start(args, format);
  vsnprintf(m->error + used, sizeof m->error - (size_t)used, format, args);
  va_end(args);
  return false;
}

// --- memory ---

static uint32_t most_tokens(const struct drawn_group *group) {
  return (group->num_founders + group->num_joiners) * group->tokens;
}

// Rows of all parts together, in any layout: PER_EXPERT takes the most but for the alignment of PACKED.
static uint32_t most_rows(const struct drawn_group *group) {
  return group->experts * (most_tokens(group) + MOST_ALIGNMENT);
}

// Words of a row's scales, at most.
static size_t most_words(const struct drawn_group *group) {
  return group->hidden / 32 + 1;
}

static size_t scale_words(const struct member *m) {
  return (m->room + (size_t)m->group->experts * 2 * APART) * most_words(m->group);
}

static void rows_open(struct member_rows *rows, const struct member *m) {
  size_t selections = (size_t)m->room * m->group->topk;
  rows->counts = calloc(m->group->experts, sizeof *rows->counts);
  rows->expert_end = calloc(m->group->experts, sizeof *rows->expert_end);
  rows->src_rank = calloc(m->room, sizeof *rows->src_rank);
  rows->src_token = calloc(m->room, sizeof *rows->src_token);
  rows->local_expert = calloc(selections, sizeof *rows->local_expert);
}

static void rows_close(struct member_rows *rows) {
  free(rows->counts);
  free(rows->expert_end);
  free(rows->src_rank);
  free(rows->src_token);
  free(rows->local_expert);
}

static void rows_keep(struct member_rows *kept, const struct member *m) {
  const struct member_rows *rows = &m->rows;
  kept->layout = rows->layout;
  kept->rows = rows->rows;
  kept->num_rows = rows->num_rows;
  memcpy(kept->counts, rows->counts, m->group->experts * sizeof *kept->counts);
  memcpy(kept->expert_end, rows->expert_end, m->group->experts * sizeof *kept->expert_end);
  memcpy(kept->src_rank, rows->src_rank, m->room * sizeof *kept->src_rank);
  memcpy(kept->src_token, rows->src_token, m->room * sizeof *kept->src_token);
}

static void allocate(struct member *m) {
  const struct drawn_group *group = m->group;
  size_t values = (size_t)group->tokens * group->hidden, selections = (size_t)group->tokens * group->topk;
  m->room = most_rows(group);
  m->received = malloc((size_t)m->room * group->hidden * 2);
  m->scales = malloc(scale_words(m) * sizeof *m->scales);
  m->y = malloc((size_t)m->room * group->hidden * sizeof *m->y);
  m->out = malloc(values * sizeof *m->out);
  m->first_out = malloc(values * sizeof *m->first_out);
  for (int i = 0; i < 2; i++)
    m->bias[i] = malloc(values * sizeof *m->bias[i]);
  m->recv_weights = malloc((size_t)m->room * group->topk * sizeof *m->recv_weights);
  m->row_weights = malloc((size_t)m->room * group->topk * sizeof *m->row_weights);
  m->right_weights = malloc(selections * sizeof *m->right_weights);
  m->out_weights = malloc(selections * sizeof *m->out_weights);
  m->slot = malloc((size_t)m->room * group->topk * sizeof *m->slot);
  m->range = malloc((size_t)group->experts * DRAWN_CAPACITY * sizeof *m->range);
  rows_open(&m->rows, m);
  rows_open(&m->route.rows, m);
  for (int r = 0; r < DRAWN_CAPACITY; r++) {
    m->made[r].x = malloc(values * sizeof *m->made[r].x);
    m->made[r].topk_idx = malloc(selections * sizeof *m->made[r].topk_idx);
    m->made[r].weights = malloc(selections * sizeof *m->made[r].weights);
    m->made[r].payload = malloc(values * 2);
    m->made[r].payload_scales = malloc(group->tokens * most_words(group) * sizeof *m->made[r].payload_scales);
  }
}

static void release(struct member *m) {
  void *memory[] = {m->received, m->scales,       m->y,           m->out,           m->first_out,   m->bias[0],
                    m->bias[1],  m->recv_weights, m->row_weights, m->right_weights, m->out_weights, m->slot,
                    m->range};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
    free(memory[i]);
  rows_close(&m->rows);
  rows_close(&m->route.rows);
  for (int r = 0; r < DRAWN_CAPACITY; r++) {
    free(m->made[r].x);
    free(m->made[r].topk_idx);
    free(m->made[r].weights);
    free(m->made[r].payload);
    free(m->made[r].payload_scales);
  }
}

// With WEFT_TEST_HOSTS=N ranks are on N hosts, as far as they know.
static const char *host_of(int32_t rank, char host[32]) {
  const char *hosts = getenv("WEFT_TEST_HOSTS");
  if (!hosts)
    return NULL;
  snprintf(host, 32, "host%lu", (unsigned long)rank % strtoul(hosts, NULL, 10));
  return host;
}

// Of a rank's route, and of what fills it.
static uint32_t route_alignment(int32_t rank) {
  return 1 + (uint32_t)rank;
}

bool member_open(struct member *m, const struct drawn_group *group, int32_t rank, bool founds) {
  *m = (struct member){.group = group, .rank = rank};
  allocate(m);
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = group->store;
  options.prefix = "/weft/test/";
  options.rank = rank;
  options.founders = founds ? group->founders : NULL;
  options.num_founders = founds ? group->num_founders : 0;
  options.flags = founds ? 0 : WEFT_EP_OPTION_JOIN_ONLY;
  options.capacity = DRAWN_CAPACITY;
  options.max_tokens = group->tokens;
  options.hidden = group->hidden;
  options.topk = group->topk;
  options.experts_per_rank = group->experts;
  options.dtype = group->dtype;
  options.combine_dtype = group->combine_dtype;
  options.op_timeout_ms = PATIENCE_MS / 2;
  char host[32];
  options.host_id = host_of(rank, host);
  options.mode = group->mode;
  options.window_bytes = group->window_bytes;
  if (weft_ep_open(&m->ep, &options, PATIENCE_MS) != 0)
    return member_fail(m, "open: %s", weft_last_error());
  struct weft_ep_route_options route = WEFT_EP_ROUTE_OPTIONS_INIT;
  route.alignment = route_alignment(rank);
  if (group->features & DRAWN_FILL && weft_ep_route_create(m->ep, &route, &m->route.handle) != 0)
    return member_fail(m, "route_create: %s", weft_last_error());
  if (weft_ep_activate(m->ep, PATIENCE_MS) != 0)
    return member_fail(m, "activate: %s", weft_last_error());
  weft_ep_view(m->ep, &m->epoch, NULL, 0, NULL);
  return true;
}

void member_close(struct member *m) {
  weft_ep_close(m->ep);
  weft_ep_route_free(m->route.handle);
  release(m);
}

// --- an operation ---

static bool was_there(const struct member *m, int32_t rank) {
  for (uint32_t i = 0; i < m->num_last; i++)
    if (m->last_view[i] == rank)
      return true;
  return false;
}

static struct weft_ep_combine_args answer_args(struct member *m) {
  struct weft_ep_combine_args args = WEFT_EP_COMBINE_ARGS_INIT;
  args.y = m->y;
  args.out = m->out;
  args.dtype = m->op.combine_dtype;
  args.flags =
      (m->own.renormalizes ? WEFT_EP_COMBINE_RENORMALIZE : 0) | (m->op.unweighted ? WEFT_EP_COMBINE_UNWEIGHTED : 0);
  args.row_weights = m->own.gives_weights ? m->row_weights : NULL;
  args.out_weights = m->own.wants_weights ? m->out_weights : NULL;
  for (uint32_t i = 0; i < 2; i++)
    args.bias[i] = m->own.biased[i] ? m->bias[i] : NULL;
  return args;
}

// A route that a rank has joined since is good for nothing, and is refused before anything is sent.
static bool drop_route(struct member *m) {
  bool joined = false;
  for (uint32_t i = 0; i < m->num_view; i++)
    joined |= !was_there(m, m->view[i]);
  if (!joined || !m->route.filled)
    return true;
  m->route.filled = false;
  if (!(m->group->features & DRAWN_BACK))
    return true;
  uint64_t op;
  m->op = (struct drawn_op){.kind = DRAWN_GOES_BACK, .combine_dtype = m->group->combine_dtype};
  struct weft_ep_combine_args args = answer_args(m);
  int rc = weft_ep_combine_route(m->ep, m->route.handle, &args, NULL, &op);
  m->conflicts++;
  return rc == WEFT_ERR_CONFLICT ||
         member_fail(m, "a route that a rank joined since: %s, not CONFLICT: %s", weft_err_name(rc), weft_last_error());
}

static bool begin(struct member *m) {
  weft_ep_view(m->ep, NULL, m->view, DRAWN_CAPACITY, &m->num_view);
  m->number = weft_ep_next_op(m->ep);
  if (m->num_last > 0 && !drop_route(m))
    return false;
  memcpy(m->last_view, m->view, sizeof m->view);
  m->num_last = m->num_view;
  m->op = drawn_op_draw(m->group, m->number);
  m->own = drawn_own_draw(m->group, m->number, m->rank);
  bool by_route = m->op.kind == DRAWN_KEEPS || m->op.kind == DRAWN_GOES_BACK;
  if (by_route && !m->route.filled) {
    m->op.kind = DRAWN_FILLS;
    by_route = false;
  }
  if (m->op.kind == DRAWN_FILLS && m->own.layout == WEFT_EP_PACKED)
    m->own.alignment = route_alignment(m->rank);
  m->op.masks &= m->op.kind == DRAWN_PLAIN || m->op.kind == DRAWN_KEEPS;
  m->op.topk = by_route ? m->route.topk : m->op.topk;
  m->routed_by = by_route ? m->route.op : m->number;
  m->num_routed = by_route ? m->route.num_view : m->num_view;
  memcpy(m->routed_view, by_route ? m->route.view : m->view, sizeof m->view);
  m->of_kind[m->op.kind]++;
  for (uint32_t i = 0; i < m->num_view && m->group->victim < 0; i++)
    if (weft_ep_mask_update(m->ep, m->view[i], m->op.masks && drawn_masks(m->group, m->number, m->rank, m->view[i])) !=
        0)
      return member_fail(m, "mask: %s", weft_last_error());
  member_make_sources(m);
  return true;
}

static void poison(struct member *m) {
  const struct drawn_group *group = m->group;
  size_t values = (size_t)group->tokens * group->hidden;
  memset(m->received, 0xFF, (size_t)m->room * group->hidden * 2);
  memset(m->scales, 0xFF, scale_words(m) * sizeof *m->scales);
  memset(m->y, 0xFF, (size_t)m->room * group->hidden * sizeof *m->y);
  memset(m->out, 0xFF, values * sizeof *m->out);
  memset(m->out_weights, 0xFF, (size_t)group->tokens * group->topk * sizeof *m->out_weights);
  memset(m->rows.counts, 0x7F, group->experts * sizeof *m->rows.counts);
  memset(m->rows.src_rank, 0x7F, m->room * sizeof *m->rows.src_rank);
  memset(m->rows.src_token, 0x7F, m->room * sizeof *m->rows.src_token);
  memset(m->slot, 0x7F, (size_t)m->room * group->topk * sizeof *m->slot);
}

static void place_scales(struct member *m) {
  struct weft_ep_recv_args *recv = &m->recv;
  if (!m->own.by_column)
    return;
  recv->scale_row_stride = 1;
  recv->scale_block_stride = recv->rows + APART;
  if (m->own.layout == WEFT_EP_PER_EXPERT)
    recv->scale_expert_stride = most_words(m->group) * (recv->rows + APART);
}

static void prepare_receive(struct member *m) {
  const struct drawn_own *own = &m->own;
  bool per_expert = own->layout == WEFT_EP_PER_EXPERT, packed = own->layout == WEFT_EP_PACKED;
  bool by_rank = own->layout == WEFT_EP_RANK_MAJOR;
  m->recv = (struct weft_ep_recv_args)WEFT_EP_RECV_ARGS_INIT;
  m->recv.layout = own->layout;
  m->recv.rows = per_expert ? most_tokens(m->group) : m->room;
  m->recv.x = m->received;
  m->recv.scales = m->scales;
  m->recv.counts = m->rows.counts;
  m->recv.src_rank = m->rows.src_rank;
  m->recv.src_token = m->rows.src_token;
  m->recv.local_expert = by_rank ? m->rows.local_expert : NULL;
  m->recv.weights = m->own.layout == WEFT_EP_PER_EXPERT ? NULL : m->recv_weights;
  m->recv.range = own->lists ? m->range : NULL;
  m->recv.slot = own->lists && packed ? m->slot : NULL;
  m->recv.expert_end = packed ? m->rows.expert_end : NULL;
  m->recv.alignment = own->alignment;
  m->recv.flags =
      (own->zero_padding ? WEFT_EP_RECV_ZERO_PADDING : 0) | (own->keeps_places ? WEFT_EP_RECV_KEEP_PLACES : 0);
  place_scales(m);
  m->rows.layout = own->layout;
  m->rows.rows = m->recv.rows;
}

static void prepare_dispatch(struct member *m, struct weft_ep_dispatch_args *args) {
  const struct member_source *own = &m->made[m->rank];
  *args = (struct weft_ep_dispatch_args)WEFT_EP_DISPATCH_ARGS_INIT;
  args->x = own->x;
  args->topk = m->op.topk;
  args->dtype = m->op.dtype;
  for (uint32_t i = 0; i < m->num_sources; i++)
    if (m->sources[i].rank == m->rank)
      args->num_tokens = m->sources[i].num_tokens;
  if (m->op.dtype == WEFT_EP_OPAQUE) {
    args->x = own->payload;
    args->scales = m->op.scale_bytes ? own->payload_scales : NULL;
    args->row_bytes = m->op.row_bytes;
    args->scale_bytes = m->op.scale_bytes;
  }
  if (m->op.kind == DRAWN_FILLS || m->op.kind == DRAWN_KEEPS)
    args->route = m->route.handle;
  if (m->op.kind == DRAWN_KEEPS)
    return;
  args->topk_idx = own->topk_idx;
  args->topk_weights = own->weights;
}

// Both halves: in one call, or in two where the operation fits into a window.
static int send_and_receive(struct member *m, const struct weft_ep_dispatch_args *args,
                            const struct weft_ep_recv_args *recv, uint64_t *op) {
  int rc = m->own.apart ? weft_ep_dispatch_send(m->ep, args, op) : WEFT_ERR_LIMIT;
  if (rc == 0)
    return weft_ep_dispatch_recv(m->ep, *op, recv, &m->info);
  bool fits_not = rc == WEFT_ERR_LIMIT && (!m->own.apart || m->group->mode == WEFT_EP_THROUGHPUT);
  return fits_not ? weft_ep_dispatch(m->ep, args, recv, &m->info, op) : rc;
}

static bool dispatch(struct member *m) {
  struct weft_ep_dispatch_args args;
  prepare_receive(m);
  prepare_dispatch(m, &args);
  poison(m);
  struct weft_ep_recv_args recv = m->recv;
  recv.rows = m->own.short_of_room ? 1 : recv.rows;
  if (m->own.short_of_room)
    recv.scale_row_stride = recv.scale_block_stride = recv.scale_expert_stride = 0;
  m->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  m->info.lost = m->lost;
  m->info.lost_cap = DRAWN_CAPACITY;
  uint64_t op;
  int rc = send_and_receive(m, &args, &recv, &op);
  if (rc == WEFT_ERR_ROOM && m->own.short_of_room) {
    uint32_t needed = m->info.rows_needed;
    m->crowded++;
    rc = weft_ep_dispatch_recv(m->ep, op, &m->recv, &m->info);
    if (rc == 0 && m->info.rows_needed != needed)
      return member_fail(m, "%u rows were needed, and then %u", needed, m->info.rows_needed);
  } else if (m->own.short_of_room) {
    m->recv = recv;
    m->rows.rows = recv.rows;
  }
  if (rc != 0)
    return member_fail(m, "dispatch: %s: %s", weft_err_name(rc), weft_last_error());
  bool lost = m->info.num_lost > 0 && (m->info.num_lost > 1 || m->lost[0] != m->group->victim);
  if (op != m->number || lost)
    return member_fail(m, "it ran as %llu, and lost %u ranks, rank %d among them", (unsigned long long)op,
                       m->info.num_lost, m->info.num_lost > 0 ? m->lost[0] : -1);
  m->rows.num_rows = m->info.num_rows;
  return true;
}

static bool has_places(const struct member *m, int32_t rank) {
  uint32_t parts = m->rows.layout == WEFT_EP_RANK_MAJOR ? 1 : m->group->experts;
  for (uint32_t p = 0; p < parts; p++)
    if ((uint32_t)m->range[(size_t)p * DRAWN_CAPACITY + (uint32_t)rank] > 0)
      return true;
  return false;
}

static void note_route(struct member *m, bool whole) {
  m->route.whole = whole;
  m->route.lacks_victim = m->info.num_lost > 0 && !has_places(m, m->group->victim);
  m->route.filled = true;
  m->route.op = m->number;
  m->route.topk = m->op.topk;
  m->route.num_view = m->num_view;
  memcpy(m->route.view, m->view, sizeof m->view);
  rows_keep(&m->route.rows, m);
}

static int combine_once(struct member *m, const struct weft_ep_combine_args *args, bool first) {
  uint64_t op = m->number;
  if (first && m->op.kind == DRAWN_GOES_BACK) {
    int rc = weft_ep_combine_route(m->ep, m->route.handle, args, &m->result, &op);
    return rc == 0 && op != m->number ? WEFT_ERR_DATA : rc;
  }
  int rc = m->own.apart ? weft_ep_combine_send(m->ep, op, args) : WEFT_ERR_LIMIT;
  if (rc == 0)
    return weft_ep_combine_recv(m->ep, op, args, &m->result);
  bool fits_not = rc == WEFT_ERR_LIMIT && (!m->own.apart || m->group->mode == WEFT_EP_THROUGHPUT);
  return fits_not ? weft_ep_combine(m->ep, op, args, &m->result) : rc;
}

// Combines as often as was drawn: each time the same must come.
static bool combine(struct member *m) {
  size_t bytes = (size_t)m->group->tokens * m->group->hidden * sizeof *m->out;
  struct pattern pattern = m->group->pattern;
  for (uint32_t i = 0; i < 2; i++)
    if (m->own.biased[i])
      pattern_bias(&pattern, m->number, m->rank, i, m->group->tokens, m->bias[i]);
  for (uint32_t i = 0; i < m->op.combines; i++) {
    struct weft_ep_combine_args args = answer_args(m);
    args.flags |= i + 1 < m->op.combines ? WEFT_EP_COMBINE_KEEP : 0;
    m->result = (struct weft_ep_result)WEFT_EP_RESULT_INIT;
    m->result.missing = m->missing;
    m->result.missing_cap = MEMBER_MISSING;
    memset(m->out, 0xFF, bytes);
    int rc = combine_once(m, &args, i == 0);
    if (rc != 0)
      return member_fail(m, "combine %u: %s: %s", i + 1, weft_err_name(rc), weft_last_error());
    if (m->result.num_lost > (m->group->victim >= 0))
      return member_fail(m, "combine %u lost %u ranks", i + 1, m->result.num_lost);
    if (i > 0 && m->info.num_lost + m->result.num_lost == 0 && memcmp(m->out, m->first_out, bytes) != 0)
      return member_fail(m, "combine %u brought something else", i + 1);
    memcpy(m->first_out, m->out, bytes);
  }
  return true;
}

// Announces a half of an operation, runs it, and measures its time.
static bool timed(struct member *m, bool combines, bool (*half)(struct member *m)) {
  if (m->before)
    m->before(m, combines);
  uint64_t begin_ns = clock_ns();
  bool ok = half(m);
  m->half_ns[combines] = clock_ns() - begin_ns;
  return ok;
}

// Whether every rank began the operation in the view that this one saw. Where a rank has died, some may begin the view
// without it an operation later than others: no rank judges the first dispatch of such a view, nor what goes by its
// route.
static bool began_alike(struct member *m) {
  bool settled = m->epoch == m->info.epoch || m->group->victim < 0;
  m->epoch = m->info.epoch;
  return m->info.num_ranks == m->num_view && settled;
}

// A combine by a route does not report its view: it may have run in a newer one, in which the lost rank is no member.
static bool has_new_view(const struct member *m) {
  uint32_t num_view = 0;
  weft_ep_view(m->ep, NULL, NULL, 0, &num_view);
  return m->group->victim >= 0 && num_view != m->num_view;
}

bool member_operate(struct member *m) {
  if (!begin(m))
    return false;
  bool by_route = m->op.kind == DRAWN_KEEPS || m->op.kind == DRAWN_GOES_BACK, whole = !by_route || m->route.whole;
  if (m->op.kind == DRAWN_GOES_BACK) {
    poison(m);
    m->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  } else {
    if (!timed(m, false, dispatch))
      return false;
    whole &= began_alike(m);
    if (whole && !member_judge_dispatch(m))
      return false;
  }
  if (m->op.kind == DRAWN_UNANSWERED) {
    m->judged += whole;
    return weft_ep_finish(m->ep, m->number) == 0 || member_fail(m, "finish: %s", weft_last_error());
  }
  if (m->op.kind == DRAWN_FILLS)
    note_route(m, whole);
  if (whole)
    member_answer(m, m->op.kind == DRAWN_GOES_BACK ? &m->route.rows : &m->rows);
  if (!timed(m, true, combine))
    return false;
  if (m->op.kind == DRAWN_GOES_BACK)
    whole &= !has_new_view(m);
  m->judged += whole;
  m->unjudged += !whole;
  return !whole || member_judge_combine(m);
}
