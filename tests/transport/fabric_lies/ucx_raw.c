// fabric_lies_raw: a peer that speaks UCX itself to a worker of the transport ucx, and does what Weft never does.
#include "lies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "base/random.h"

enum { MESSAGE = 7, WRITE, READ, ANSWER, HELLO, WELCOME, ROUNDS = 3000, HEADER = 56 }; // of the active messages

struct raw {
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_ep_h ep;
};

static ucs_status_t drop(void *arg, const void *header, size_t header_size, void *data, size_t size,
                         const ucp_am_recv_param_t *param) {
  (void)arg, (void)header, (void)header_size, (void)data, (void)size, (void)param;
  return UCS_OK;
}

static void raw_open(struct raw *raw, struct blob *address) {
  enum { IDENTITY = 8 };
  ucp_config_t *config;
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA | UCP_FEATURE_AM};
  ucp_worker_params_t worker = {.field_mask = 0};
  ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                        .address = (const ucp_address_t *)(blob_body(address) + IDENTITY),
                        .err_mode = UCP_ERR_HANDLING_MODE_PEER};
  lies_check(ucp_config_read(NULL, NULL, &config) == UCS_OK, "no configuration");
  ucp_config_modify(config, "TLS", "tcp");
  lies_check(ucp_init(&params, config, &raw->context) == UCS_OK, "no UCX");
  ucp_config_release(config);
  lies_check(ucp_worker_create(raw->context, &worker, &raw->worker) == UCS_OK, "no worker");
  for (unsigned id = 0; id <= WELCOME; id++) { // UCX 1.13 faults where an answer finds no handler
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = id, .cb = drop};
    lies_check(ucp_worker_set_am_recv_handler(raw->worker, &handler) == UCS_OK, "no handler");
  }
  lies_check(ucp_ep_create(raw->worker, &ep, &raw->ep) == UCS_OK, "no endpoint");
}

static void drive(struct raw *raw, struct side *victim, int times) {
  for (int i = 0; i < times; i++) {
    ucp_worker_progress(raw->worker);
    lies_drive(victim, NULL, 1);
  }
}

static void sent(void *request, ucs_status_t status, void *arg) {
  (void)status;
  free(arg);
  ucp_request_free(request);
}

static void say(struct raw *raw, unsigned id, uint32_t flags, const void *header, size_t header_size, const void *data,
                size_t size) {
  unsigned char *copy = malloc(header_size + size + 1);
  memcpy(copy, header, header_size);
  if (size > 0)
    memcpy(copy + header_size, data, size);
  ucp_request_param_t param = {.op_attr_mask =
                                   UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                               .flags = flags,
                               .cb.send = sent,
                               .user_data = copy};
  ucs_status_ptr_t request = ucp_am_send_nbx(raw->ep, id, copy, header_size, copy + header_size, size, &param);
  if (!UCS_PTR_IS_PTR(request))
    free(copy);
}

static void expect_lawful_service(struct side *victim) {
  struct side honest;
  struct blob address, key;
  struct transport_remote *remote = NULL;
  side_open(&honest, false);
  side_address(victim, &address);
  side_key(victim->lent, &key);
  struct transport_peer *peer = side_connect(&honest, &address);
  lies_check(peer && lies_transport->import(peer, key.bytes, key.size, &remote) == 0, weft_last_error());
  lies_check(lies_move(&honest, victim, remote, WEFT_TRANSFER_WRITE, (uintptr_t)victim->arena + LENT_AT, 64) == 0,
             weft_last_error());
  side_close(&honest);
}

// UCX's own accesses to memory name any address.
static void puts_anywhere(void) {
  struct side victim;
  struct raw raw;
  struct blob address;
  static unsigned char lie[64];
  void *packed;
  size_t size;
  ucp_mem_h memory;
  ucp_rkey_h rkey;
  ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                              .address = lie,
                              .length = sizeof lie};
  ucp_request_param_t param = {.op_attr_mask = 0};
  side_open(&victim, false);
  side_address(&victim, &address);
  raw_open(&raw, &address);
  memset(lie, LIE, sizeof lie);
  lies_check(ucp_mem_map(raw.context, &map, &memory) == UCS_OK, "no memory");
  lies_check(ucp_rkey_pack(raw.context, memory, &packed, &size) == UCS_OK, "no key");
  lies_check(ucp_ep_rkey_unpack(raw.ep, packed, &rkey) == UCS_OK, "no key");
  ucp_put_nbx(raw.ep, lie, sizeof lie, (uintptr_t)victim.arena + 128, rkey, &param);
  drive(&raw, &victim, ROUNDS);
  side_check(&victim, "UCX wrote to memory that nobody lent");
  expect_lawful_service(&victim);
  side_close(&victim);
}

// Headers of any size and content, with data that does not fit them, small and by UCX's rendezvous, without an endpoint
// for the answer and with one.
static void strange_messages(void) {
  enum { LARGE = 600000 };
  struct side victim;
  struct raw raw;
  struct blob address;
  unsigned char header[80];
  static unsigned char data[LARGE];
  side_open(&victim, false);
  side_address(&victim, &address);
  raw_open(&raw, &address);
  for (int i = 0; i < 2000; i++) {
    lies_step((uint64_t)i);
    random_bytes(header, sizeof header);
    if (i % 3 == 0) // a length that agrees
      memcpy(header + 24, &(uint64_t){i % 7 * 100}, 8);
    size_t header_size = i % 4 == 0 ? 40 : i % 4 == 1 ? HEADER : i % 4 == 2 ? 16 + (size_t)i % 3 * 8 : (size_t)i % 80;
    uint32_t flags = i % 2 ? UCP_AM_SEND_FLAG_REPLY : 0;
    size_t size = i % 100 == 99 ? LARGE : (size_t)(i % 7) * 100;
    // And numbers that nobody takes, of the 16 bits that they have.
    unsigned id = i % 10 == 9 ? (unsigned)i * 7919 % 65536 : (unsigned)(MESSAGE + i % 6);
    say(&raw, id, flags | (size < LARGE ? UCP_AM_SEND_FLAG_EAGER : 0), header, header_size, data, size);
    drive(&raw, &victim, 3);
  }
  drive(&raw, &victim, ROUNDS);
  side_check(&victim, "a strange message wrote");
  expect_lawful_service(&victim);
  side_close(&victim);
}

// One connection takes one place, whoever it says it is.
static void hellos_without_end(void) {
  enum { HELLOS = 20000 };
  struct side victim;
  struct raw raw;
  struct blob address;
  side_open(&victim, false);
  side_address(&victim, &address);
  raw_open(&raw, &address);
  for (int i = 0; i < HELLOS; i++) {
    uint64_t hello[2] = {random_id(), random_id()};
    say(&raw, HELLO, UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY, hello, sizeof hello, NULL, 0);
    drive(&raw, &victim, 1);
  }
  drive(&raw, &victim, ROUNDS);
  expect_lawful_service(&victim);
  side_close(&victim);
}

// A number stands in its worker's address, which all of its peers have: who gives another's gets a place of his own,
// and takes none from that other when he gives one more.
static void anothers_number(void) {
  struct side victim, honest;
  struct raw raw;
  struct blob address, own, key;
  struct transport_remote *remote = NULL;
  side_open(&victim, false);
  side_open(&honest, false);
  side_address(&victim, &address);
  side_address(&honest, &own);
  side_key(victim.lent, &key);
  raw_open(&raw, &address);
  struct transport_peer *peer = side_connect(&honest, &address);
  lies_check(peer && lies_transport->import(peer, key.bytes, key.size, &remote) == 0, weft_last_error());
  uint64_t there = (uintptr_t)victim.arena + LENT_AT;
  for (uint64_t round = 0; round < 3; round++) {
    lies_step(round);
    lies_check(lies_move(&honest, &victim, remote, WEFT_TRANSFER_WRITE, there, 64) == 0, "an honest peer is cut off");
    for (int i = 0; i < 2; i++) {
      uint64_t hello[2] = {i == 0 ? blob_number(&own, 0, 8) : random_id(), random_id()};
      say(&raw, HELLO, UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY, hello, sizeof hello, NULL, 0);
      drive(&raw, &victim, ROUNDS);
    }
  }
  side_close(&honest);
  side_close(&victim);
}

static void say_answers(struct raw *raw, struct side *victim) {
  static unsigned char lie[64];
  memset(lie, LIE, sizeof lie);
  for (uint64_t generation = 0; generation < 4; generation++) {
    for (uint64_t index = 0; index < 8; index++) {
      uint64_t cookie = generation << 32 | index;
      say(raw, ANSWER, UCP_AM_SEND_FLAG_EAGER, (uint64_t[2]){cookie, 0}, 16, lie, sizeof lie);
      for (uint64_t tag = 0; tag < 4; tag++)
        say(raw, ANSWER, UCP_AM_SEND_FLAG_EAGER, (uint64_t[3]){cookie, tag, 0}, 24, lie, sizeof lie);
      drive(raw, victim, 20);
    }
  }
  drive(raw, victim, ROUNDS);
}

// A read from an honest peer is under way, which is slow; somebody else answers in its place.
static void another_answers(void) {
  struct side victim, honest;
  struct raw raw;
  struct blob address, key;
  struct transport_remote *remote = NULL;
  side_open(&victim, false);
  side_open(&honest, false);
  side_address(&victim, &address);
  raw_open(&raw, &address);
  side_address(&honest, &address);
  side_key(honest.lent, &key);
  struct transport_peer *peer = side_connect(&victim, &address);
  lies_check(peer && lies_transport->import(peer, key.bytes, key.size, &remote) == 0, weft_last_error());
  uint64_t there = (uintptr_t)honest.arena + LENT_AT;
  lies_check(lies_move(&victim, &honest, remote, WEFT_TRANSFER_READ, there, 64) == 0, "an honest peer does not serve");
  struct transport_piece piece = {.local = victim.lent,
                                  .remote = remote,
                                  .local_address = (uintptr_t)victim.arena + LENT_AT,
                                  .remote_address = there,
                                  .length = 64};
  struct transport_request request = {.peer = peer, .op = WEFT_TRANSFER_READ, .pieces = &piece, .num_pieces = 1};
  lies_check(lies_transport->prepare(&request) == 0 && lies_transport->post(&request) == 0, weft_last_error());
  say_answers(&raw, &victim);
  lies_check(atomic_load(&request.state) == TRANSPORT_IN_FLIGHT, "another's answer ended a read");
  while (atomic_load(&request.state) == TRANSPORT_IN_FLIGHT)
    lies_drive(&victim, &honest, 1);
  lies_check(atomic_load(&request.state) == 0, "the read failed by another's answers");
  for (size_t i = 0; i < 64; i++)
    lies_check(victim.arena[LENT_AT + i] == LOAN, "another's answer is taken for what was read");
  lies_transport->unprepare(&request);
  side_close(&honest);
  side_close(&victim);
}

static const struct lies_scenario scenarios[] = {
    {"puts_anywhere", puts_anywhere},           {"strange_messages", strange_messages},
    {"hellos_without_end", hellos_without_end}, {"anothers_number", anothers_number},
    {"another_answers", another_answers},
};

int main(int argc, char **argv) {
  static const char *const settings[] = {"TLS=tcp", NULL};
  lies_settings = argc > 1 ? (const char *const *)argv + 1 : settings;
  if (transport_find("ucx", &lies_transport) != 0) {
    printf("skipped: %s\n", weft_last_error());
    return 77;
  }
  return lies_main(argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
