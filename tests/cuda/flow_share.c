// Rows that cross to another host once (cuda/relay/flow_share.c): a source and three readers on one host, without GPUs.
// One thread plays in random order the kernels at both ends, the transports and the relays: it writes rows, collects,
// moves and delivers batches, counts them late, and compares every byte of each row that arrives.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "cuda/relay/batch.h"
#include "cuda/relay/relay.h"
#include "cuda/support/stream.h"
#include "weft/err.h"

enum { READERS = 3, FLIGHTS = 8, BATCH = 24 << 10, MOVES = 16, HIDDEN = 512 };
enum { LIST = (TOKENS + CUDA_CHANNELS - 1) / CUDA_CHANNELS, TURNS = 40000000 };
enum { VALUES = 2 * HIDDEN };

struct flight {
  _Alignas(16) char bytes[BATCH];
  size_t size;
  uint64_t stamp;
  struct device_move list[MOVES];
  uint32_t left;
};

// A reader, and the source's link to it.
struct link {
  char *in, *out;             // the source's
  char *their_in, *their_out; // the reader's
  struct device_relay *relay, *theirs;
  struct flight flights[FLIGHTS];
  uint64_t posted, landed, counted;
  bool gone;
  uint64_t op; // that the reader is in
  bool passes;
  uint32_t read[CUDA_CHANNELS]; // rows of it
  uint32_t over;                // channels
  uint32_t sent[CUDA_CHANNELS]; // by the source, of its own operation
};

struct world {
  uint64_t seed, random, ops;
  struct stream stream;
  uint64_t stamp;
  struct link links[READERS];
  bool moves, shares, passes;
  uint64_t routes; // operations after the first, of these ones in turn, go by a kept route; 0: none
  uint64_t op;     // of the source
  uint32_t next[CUDA_CHANNELS];
  uint32_t over;
  uint64_t rows, named;
};

static uint64_t draw(struct world *world, uint64_t below) {
  return random_next(&world->random) % below;
}

// --- operations ---

static uint32_t token_of(uint32_t channel, uint32_t nth) {
  return nth * CUDA_CHANNELS + channel;
}

// Whether the reader gets the token.
static bool gets(const struct world *world, uint64_t op, uint32_t token, uint32_t reader) {
  return token < TOKENS && random_mix(world->seed ^ random_mix(op * TOKENS + token) ^ reader * 77) % 4 < 2;
}

// The position of its row in a channel, or of all of them (`nth` LIST).
static uint32_t row_of(const struct world *world, uint64_t op, uint32_t channel, uint32_t nth, uint32_t reader) {
  uint32_t rows = 0;
  for (uint32_t i = 0; i < nth; i++)
    rows += gets(world, op, token_of(channel, i), reader);
  return rows;
}

static char byte_of(const struct world *world, uint64_t op, uint32_t token, uint32_t at) {
  return (char)(random_mix(world->seed + op * 31 + token * 7919 + at / 8) >> at % 8 * 8);
}

static char foot_of(const struct world *world, uint64_t op, uint32_t token, uint32_t reader, uint32_t at) {
  return (char)(random_mix(world->seed + op * 37 + token * 4441 + reader) >> at % 57);
}

static bool is_kept(const struct world *world, uint64_t op) {
  return world->routes > 0 && op % world->routes > 0;
}

// By a kept route only the first unit of the routing is sent, which names the token.
static uint32_t foot_bytes(const struct world *world, uint64_t op) {
  return is_kept(world, op) ? sizeof(struct cuda_unit) : cuda_routing_bytes(TOPK);
}

static void send_headers(const struct world *world, uint64_t op) {
  for (uint32_t i = 0; i < READERS; i++) {
    stream_send(&world->stream, world->links[i].out, op, CUDA_FIELD_ROUTE, is_kept(world, op));
    stream_send(&world->stream, world->links[i].out, op, CUDA_FIELD_FORM, cuda_flow_form(CUDA_BF16, TOPK, VALUES, 0));
  }
}

// --- in the place of kernels ---

static void write_row(const struct world *world, uint32_t reader, uint32_t channel, uint32_t token, uint64_t position) {
  char *to = stream_place(&world->stream, world->links[reader].out, channel, position);
  for (uint32_t i = 0; i < VALUES; i++)
    to[i] = byte_of(world, world->op, token, i);
  for (uint32_t i = 0; i < foot_bytes(world, world->op); i++)
    to[VALUES + i] = foot_of(world, world->op, token, reader, i);
  memcpy(to + VALUES + 4, &token, sizeof token);
}

static bool has_room(const struct world *world, const struct link *link, uint32_t channel) {
  uint64_t base = world->op * world->stream.flow.list, credit = stream_words(&world->stream, link->in, channel)->credit;
  if (link->gone)
    return true;
  return credit >= base && credit + world->stream.flow.rows.places > base + link->sent[channel];
}

// The next token of a channel, to all that get it, if there is room for all of these rows.
static void send_some(struct world *world) {
  uint32_t channel = (uint32_t)draw(world, CUDA_CHANNELS), nth = world->next[channel], token = token_of(channel, nth);
  uint64_t base = world->op * world->stream.flow.list;
  if (nth > LIST)
    return;
  for (uint32_t i = 0; i < READERS; i++)
    if ((nth == LIST || gets(world, world->op, token, i)) && !has_room(world, &world->links[i], channel))
      return;
  world->next[channel]++;
  for (uint32_t i = 0; i < READERS; i++) {
    struct link *link = &world->links[i];
    if (link->gone || (nth < LIST && !gets(world, world->op, token, i)))
      continue;
    if (nth < LIST)
      write_row(world, i, channel, token, base + link->sent[channel]++);
    cuda_store_word(&stream_words(&world->stream, link->out, channel)->tail,
                    (base + link->sent[channel]) * 2 + (nth == LIST));
  }
  world->over += nth == LIST;
}

// The source is in its next operation when the last one is sent, and has been begun by all.
static void begin_next(struct world *world) {
  if (world->over < CUDA_CHANNELS || world->op + 1 == world->ops)
    return;
  for (uint32_t i = 0; i < READERS; i++)
    if (!world->links[i].gone && world->links[i].op < world->op)
      return;
  world->op++;
  world->over = 0;
  memset(world->next, 0, sizeof world->next);
  for (uint32_t i = 0; i < READERS; i++)
    memset(world->links[i].sent, 0, sizeof world->links[i].sent);
  send_headers(world, world->op);
}

static void check_row(const struct world *world, uint32_t reader, uint32_t channel, uint32_t row) {
  const struct link *link = &world->links[reader];
  uint32_t nth = 0;
  for (uint32_t left = row + 1; left > 0; nth++)
    left -= gets(world, link->op, token_of(channel, nth), reader);
  uint32_t token = token_of(channel, nth - 1), found;
  const char *from = stream_place(&world->stream, link->their_in, channel, link->op * world->stream.flow.list + row);
  memcpy(&found, from + VALUES + 4, sizeof found);
  assert_int_equal(found, token);
  for (uint32_t i = 0; i < VALUES; i++)
    if (from[i] != byte_of(world, link->op, token, i))
      fail_msg("operation %llu, token %u, reader %u: byte %u is another", (unsigned long long)link->op, token, reader,
               i);
  for (uint32_t i = 8; i < foot_bytes(world, link->op); i++)
    assert_int_equal(from[VALUES + i], foot_of(world, link->op, token, reader, i));
}

static void end_operation(struct world *world, struct link *link) {
  for (uint32_t c = 0; c < CUDA_CHANNELS; c++)
    cuda_store_word(&stream_words(&world->stream, link->their_out, c)->credit,
                    (link->op + 1) * world->stream.flow.list);
  memset(link->read, 0, sizeof link->read);
  link->over = 0;
  link->op++;
  link->passes = world->passes && draw(world, 4) == 0;
}

// Some rows of a channel. A rank that passes an operation over gives credit for all of it.
static void receive_some(struct world *world, uint32_t reader) {
  struct link *link = &world->links[reader];
  uint32_t channel = (uint32_t)draw(world, CUDA_CHANNELS), *read = &link->read[channel];
  uint64_t base = link->op * world->stream.flow.list,
           tail = cuda_load_word(&stream_words(&world->stream, link->their_in, channel)->tail);
  if (link->gone || link->op > world->op || link->op == world->ops)
    return;
  if (link->passes) {
    if (draw(world, 100) == 0)
      end_operation(world, link);
    return;
  }
  if (*read == UINT32_MAX || tail < base * 2 || tail > (base + world->stream.flow.list) * 2)
    return;
  for (; base + *read < tail / 2; world->rows++)
    check_row(world, reader, channel, (*read)++);
  cuda_store_word(&stream_words(&world->stream, link->their_out, channel)->credit, base + *read);
  if (tail % 2 == 0)
    return;
  assert_int_equal(*read, row_of(world, link->op, channel, LIST, reader));
  *read = UINT32_MAX;
  if (++link->over == CUDA_CHANNELS)
    end_operation(world, link);
}

// --- in the place of the net threads ---

// Stamps up to this one have been counted.
static uint64_t counted_of(const struct link *link) {
  if (link->gone || link->counted == link->posted)
    return UINT64_MAX;
  return link->flights[link->counted % FLIGHTS].stamp - 1;
}

static void collect(struct world *world, uint32_t index) {
  struct link *link = &world->links[index];
  struct flight *flight = &link->flights[link->posted % FLIGHTS];
  struct device_carrier carriers[READERS];
  uint64_t counted[DEVICE_SEATS];
  if (link->gone || link->posted - link->counted == FLIGHTS)
    return;
  memset(counted, 0xFF, sizeof counted);
  struct device_sharing sharing = {
      .stamp = world->stamp + 1, .seat = index + 1, .carriers = carriers, .counted = counted};
  for (uint32_t i = 0; i < READERS; i++) {
    counted[i + 1] = counted_of(&world->links[i]);
    if (!world->links[i].gone && world->shares)
      carriers[sharing.count++] = (struct device_carrier){world->links[i].relay, i + 500, counted[i + 1]};
  }
  struct device_moves moves = {
      .list = flight->list, .room = MOVES, .most = BATCH, .number = link->posted + 1, .landed = link->counted};
  flight->size = cuda_relay_collect(link->relay, flight->bytes, 2048 + draw(world, BATCH - 2048),
                                    world->moves ? &moves : NULL, &sharing);
  flight->left = moves.count;
  flight->stamp = sharing.stamp;
  world->named += sharing.named_bytes / VALUES;
  world->stamp += flight->size > 0;
  link->posted += flight->size > 0;
}

static void move_some(struct world *world, struct link *link) {
  struct flight *flight = &link->flights[draw(world, FLIGHTS)];
  if (flight->left == 0)
    return;
  struct device_move *move = &flight->list[draw(world, flight->left)];
  memcpy(link->their_in + move->offset, link->out + move->offset, move->bytes);
  *move = flight->list[--flight->left];
}

static const char *find_window(void *arg, uint64_t window) {
  struct world *world = arg;
  return window >= 500 && window < 500 + READERS ? world->links[window - 500].their_in : NULL;
}

static bool holds(void *arg) {
  (void)arg;
  return true;
}

static void land(struct world *world, struct link *link) {
  char why[DEVICE_WHY] = "";
  const struct device_neighbours neighbours = {world, find_window, holds};
  const struct flight *flight = &link->flights[link->landed % FLIGHTS];
  if (link->landed == link->posted || flight->left > 0 || link->gone)
    return;
  if (cuda_relay_deliver(link->theirs, flight->bytes, flight->size, &neighbours, why) != 0)
    fail_msg("%s", why);
  link->landed++;
}

// The news that a batch has landed.
static void count(struct link *link) {
  if (link->counted == link->landed)
    return;
  cuda_relay_landed(link->relay, link->flights[link->counted % FLIGHTS].stamp);
  link->counted++;
}

// Credits, the other way. The news go before them.
static void give_back(struct link *link) {
  static _Alignas(16) char bytes[BATCH];
  char why[DEVICE_WHY] = "";
  size_t size = link->gone ? 0 : cuda_relay_collect(link->theirs, bytes, sizeof bytes, NULL, NULL);
  while (!link->gone && link->counted < link->landed)
    count(link);
  if (size > 0)
    assert_int_equal(cuda_relay_deliver(link->relay, bytes, size, NULL, why), 0);
}

static void turn(struct world *world) {
  uint32_t index = (uint32_t)draw(world, READERS);
  struct link *link = &world->links[index];
  switch (draw(world, 12)) {
  case 0:
    collect(world, index);
    break;
  case 1:
  case 2:
    move_some(world, link);
    break;
  case 3:
    land(world, link);
    break;
  case 4:
    count(link);
    break;
  case 5:
    if (draw(world, 8) == 0)
      give_back(link);
    break;
  case 6:
    begin_next(world);
    break;
  case 7:
  case 8:
    receive_some(world, index);
    break;
  default:
    send_some(world);
  }
}

// --- a world ---

static void open_world(struct world *world, uint64_t seed, uint64_t ops) {
  *world = (struct world){.seed = random_mix(seed), .random = seed, .ops = ops};
  stream_make(&world->stream, HIDDEN, true);
  for (uint32_t i = 0; i < READERS; i++) {
    struct link *link = &world->links[i];
    link->relay = stream_relay(&world->stream, &link->in, &link->out);
    link->theirs = stream_relay(&world->stream, &link->their_in, &link->their_out);
  }
  send_headers(world, 0);
}

static void close_world(struct world *world) {
  for (uint32_t i = 0; i < READERS; i++) {
    struct link *link = &world->links[i];
    stream_end(link->relay, link->in, link->out);
    stream_end(link->theirs, link->their_in, link->their_out);
  }
}

static bool is_over(const struct world *world) {
  for (uint32_t i = 0; i < READERS; i++)
    if (!world->links[i].gone && world->links[i].op < world->ops)
      return false;
  return true;
}

// `dies`: one of the readers, in mid-operation.
static uint64_t live(struct world *world, bool dies) {
  uint64_t turns = 0, death = dies ? 20000 + draw(world, 100000) : UINT64_MAX;
  for (; !is_over(world); turns++) {
    if (turns == death)
      world->links[draw(world, READERS)].gone = true;
    if (turns > TURNS)
      fail_msg("seed %llu: the rows of operation %llu do not come", (unsigned long long)world->random,
               (unsigned long long)world->op);
    turn(world);
  }
  return turns;
}

static void rows_are_named_and_whole(void **state) {
  (void)state;
  static struct world world;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    open_world(&world, seed, 6);
    world.shares = true;
    world.moves = seed % 2;
    world.routes = seed > 4 ? 6 : 0; // five of six
    live(&world, false);
    print_message("seed %llu: %llu of %llu rows were named\n", (unsigned long long)seed,
                  (unsigned long long)world.named, (unsigned long long)world.rows);
    assert_true(world.named > world.rows / 5); // more than one operation of six could have
    close_world(&world);
  }
}

static void readers_that_pass_over_or_die_spoil_nothing(void **state) {
  (void)state;
  static struct world world;
  for (uint64_t seed = 11; seed <= 22; seed++) {
    open_world(&world, seed, 6);
    world.shares = true;
    world.moves = seed % 2;
    world.passes = seed / 2 % 2;
    world.routes = seed % 3;
    live(&world, seed / 4 % 2);
    assert_true(world.named > 0);
    close_world(&world);
  }
}

// A batch with the words of a channel, which are right, behind one row that is named.
static int deliver_named(struct world *world, uint32_t offset, struct cuda_elsewhere where,
                         const struct device_neighbours *neighbours, char *why) {
  static _Alignas(16) char bytes[BATCH];
  struct cuda_batch batch = {.bytes = bytes, .size = sizeof bytes};
  struct cuda_flow_word words = {.tail = 2};
  memcpy(cuda_batch_room(&batch, RUN_ELSEWHERE, offset, sizeof where), &where, sizeof where);
  memcpy(cuda_batch_room(&batch, RUN_CHANNELS, world->stream.offset, sizeof words), &words, sizeof words);
  return cuda_relay_deliver(world->links[0].theirs, bytes, batch.used, neighbours, why);
}

static bool let_go(void *arg) {
  (void)arg;
  return false;
}

static void a_name_that_is_wrong_writes_nothing(void **state) {
  (void)state;
  static struct world world;
  char why[DEVICE_WHY] = "";
  open_world(&world, 41, 1);
  const struct device_neighbours neighbours = {&world, find_window, holds}, lost = {&world, find_window, let_go};
  const struct cuda_ring *ring = &world.stream.flow.rows;
  uint32_t rows = (uint32_t)(world.stream.offset + ring->at), end = rows + CUDA_CHANNELS * ring->places * ring->place;
  const struct cuda_elsewhere right = {.window = 501, .offset = rows + ring->place, .bytes = VALUES};
  char *in = world.links[0].their_in, *before = malloc(end);
  assert_non_null(before);
  memcpy(before, in, end);
  const struct {
    uint32_t offset;
    struct cuda_elsewhere where;
  } wrong[] = {
      {rows, {499, rows, VALUES}},              // a window that nobody has
      {rows, {501, rows - 16, VALUES}},         // what lies before the rows
      {rows, {501, end - VALUES + 16, VALUES}}, // and behind
      {rows, {501, rows + 8, VALUES}},
      {rows, {501, rows, VALUES + 8}},
      {rows, {501, rows, 0}},
      {rows, {501, rows, UINT32_MAX - 15}},
      {rows - 16, right},
      {end - VALUES + 16, right},
      {rows + 8, right},
      {UINT32_MAX - 15, right},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(deliver_named(&world, wrong[i].offset, wrong[i].where, &neighbours, why), WEFT_ERR_PROTOCOL);
    assert_non_null(strstr(why, "names a row in a window that is not known here"));
  }
  assert_int_equal(deliver_named(&world, rows, right, NULL, why), WEFT_ERR_PROTOCOL);
  assert_memory_equal(before, in, end);
  memset(world.links[1].their_in + right.offset, 'v', VALUES);
  assert_int_equal(deliver_named(&world, rows, right, &lost, why), WEFT_ERR_PEER_LOST);
  assert_int_equal(stream_words(&world.stream, in, 0)->tail, 0); // no kernel sees the row
  assert_int_equal(deliver_named(&world, rows, right, &neighbours, why), 0);
  assert_memory_equal(in + rows, world.links[1].their_in + right.offset, VALUES);
  assert_int_equal(stream_words(&world.stream, in, 0)->tail, 2);
  free(before);
  close_world(&world);
}

static void a_peer_that_shares_with_no_other_gets_all_rows(void **state) {
  (void)state;
  static struct world world;
  open_world(&world, 31, 3);
  live(&world, false);
  assert_int_equal(world.named, 0);
  close_world(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_named_and_whole),
      cmocka_unit_test(readers_that_pass_over_or_die_spoil_nothing),
      cmocka_unit_test(a_name_that_is_wrong_writes_nothing),
      cmocka_unit_test(a_peer_that_shares_with_no_other_gets_all_rows),
  };
  return cmocka_run_group_tests_name("cuda_flow_share", tests, NULL, NULL);
}
