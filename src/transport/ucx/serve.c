// Accesses that the target serves: the target's side. The initiator's is access.c.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "transport/ucx/access.h"
#include "transport/ucx/ucx.h"

enum {
  MOST_REGIONS = 1 << 20,
  MAX_ANSWERS = 128, // with data, on their way; a READ beyond is answered with BUSY and sent again
};

// On its way; UCX may refer to it until it has sent it.
struct ucx_answer {
  struct ucx_answer *next, *all;
  struct ucx_worker *worker;
  struct ucx_reply head;
  uint32_t session; // whose it is, for ucx_owed()
  bool large;       // it has UCX_SERVED bytes
  unsigned char bytes[];
};

int ucx_serve_region(struct ucx_worker *worker, struct ucx_region *region) {
  uint32_t index = 0;
  while (index < worker->num_served && worker->served[index])
    index++;
  if (index == worker->num_served) {
    uint32_t count = worker->num_served ? worker->num_served * 2 : 64;
    struct ucx_region **served = index >= MOST_REGIONS ? NULL : realloc(worker->served, count * sizeof *served);
    if (!served)
      return fail(WEFT_ERR_NOMEM, "no memory for %u regions", count);
    memset(served + index, 0, (count - index) * sizeof *served);
    worker->served = served;
    worker->num_served = count;
  }
  worker->served[index] = region;
  region->key = random_id();
  region->index = index;
  return 0;
}

void ucx_serve_forget(struct ucx_worker *worker, struct ucx_region *region) {
  worker->served[region->index] = NULL;
}

static void answer_sent(void *request, ucs_status_t status, void *arg) {
  struct ucx_answer *answer = arg;
  (void)status;
  struct ucx_owed *owed = ucx_owed(answer->worker, answer->session);
  owed->all--;
  owed->large -= answer->large;
  answer->worker->large_owed -= answer->large;
  answer->next = answer->worker->answers[answer->large];
  answer->worker->answers[answer->large] = answer;
  if (request)
    ucp_request_free(request);
}

// No initiator has more than UCX_ASKED operations under way, and as many answers that UCX has not reported as sent. An
// initiator to which more are owed does not receive its answers, and gets no more. Of the answers with data, one
// initiator may use as many as are left for all others together, so that the others always have some.
static bool may_owe(struct ucx_worker *worker, uint32_t session, bool large) {
  const struct ucx_owed *owed = ucx_owed(worker, session);
  return owed->all < UCX_MOST_OWED && (!large || owed->large < MAX_ANSWERS - worker->large_owed);
}

static struct ucx_answer *free_answer(struct ucx_worker *worker, bool large) {
  struct ucx_answer *answer = worker->answers[large];
  if (answer) {
    worker->answers[large] = answer->next;
    return answer;
  }
  answer = malloc(sizeof *answer + (large ? UCX_SERVED : 0));
  if (!answer)
    return NULL;
  answer->worker = worker;
  answer->large = large;
  answer->all = worker->all_answers;
  worker->all_answers = answer;
  return answer;
}

// They are kept for the next; there are as many small ones as peers ever had operations under way at once.
static struct ucx_answer *take_answer(struct ucx_worker *worker, uint32_t session, bool large) {
  struct ucx_answer *answer = may_owe(worker, session, large) ? free_answer(worker, large) : NULL;
  if (!answer)
    return NULL;
  struct ucx_owed *owed = ucx_owed(worker, session);
  owed->all++;
  owed->large += large;
  worker->large_owed += large;
  answer->session = session;
  return answer;
}

// `region`: the region of the data, if there is data.
static void reply(struct ucx_worker *worker, ucp_ep_h ep, const struct ucx_ask *ask, int status,
                  const struct ucx_region *region, const void *data, size_t size) {
  struct ucx_answer *answer = take_answer(worker, ask->session, size > 0);
  if (!answer && size > 0) {
    size = 0;
    status = WEFT_ERR_BUSY;
    answer = take_answer(worker, ask->session, false);
  }
  if (!answer)
    return; // no memory: the initiator ends it by its deadline
  if (size > 0)
    status = ucx_copy(worker, region, answer->bytes, data, size);
  if (status != 0)
    size = 0;
  answer->head = (struct ucx_reply){.cookie = ask->cookie, .tag = ask->tag, .status = status};
  ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
      .flags = UCP_AM_SEND_FLAG_EAGER,
      .cb.send = answer_sent,
      .user_data = answer,
  };
  void *request = ucp_am_send_nbx(ep, UCX_ANSWER, &answer->head, sizeof answer->head, answer->bytes, size, &param);
  if (!UCS_PTR_IS_PTR(request))
    answer_sent(NULL, UCS_OK, answer);
}

// Reads an access. False: Weft sends no such message, or it cannot be answered. A session without a valid pass is
// replaced by UCX_NO_SESSION, so that its answers count as a stranger's.
static bool take_ask(struct ucx_worker *worker, const void *header, size_t size, const ucp_am_recv_param_t *param,
                     struct ucx_ask *ask) {
  if (size != sizeof *ask || !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ||
      param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
    return false;
  memcpy(ask, header, sizeof *ask);
  if (!ucx_pass_is_good(worker, ask->session, ask->pass))
    ask->session = UCX_NO_SESSION;
  worker->flow.events++;
  return true;
}

// The region of the key, if the key is valid and the access is allowed for these bytes. An initiator that was fenced,
// or has no pass, gets that status before any other, so it does not learn whether a key is valid.
static const struct ucx_region *find(const struct ucx_worker *worker, const struct ucx_ask *ask, bool write,
                                     int *status) {
  *status = WEFT_ERR_PEER_LOST;
  if (ask->session == UCX_NO_SESSION)
    return NULL;
  const struct ucx_region *region = ask->region < worker->num_served ? worker->served[ask->region] : NULL;
  *status = WEFT_ERR_NOT_FOUND;
  if (!region || region->key != ask->key)
    return NULL;
  const struct transport_memory *memory = &region->flow.base.memory;
  uint64_t start = (uintptr_t)memory->address;
  *status = WEFT_ERR_INVALID;
  if (ask->address < start || ask->address - start > memory->length ||
      ask->length > memory->length - (ask->address - start) || (write && memory->read_only))
    return NULL;
  *status = 0;
  return region;
}

ucs_status_t ucx_on_write(void *arg, const void *header, size_t header_size, void *data, size_t size,
                          const ucp_am_recv_param_t *param) {
  struct ucx_worker *worker = arg;
  struct ucx_ask ask;
  int status = WEFT_ERR_PROTOCOL;
  if (!take_ask(worker, header, header_size, param, &ask))
    return UCS_OK;
  const struct ucx_region *region = size == ask.length ? find(worker, &ask, true, &status) : NULL;
  if (region)
    status = ucx_copy(worker, region, (void *)(uintptr_t)ask.address, data, size);
  reply(worker, param->reply_ep, &ask, status, NULL, NULL, 0);
  return UCS_OK;
}

ucs_status_t ucx_on_read(void *arg, const void *header, size_t header_size, void *data, size_t size,
                         const ucp_am_recv_param_t *param) {
  struct ucx_worker *worker = arg;
  struct ucx_ask ask;
  int status = WEFT_ERR_LIMIT;
  (void)data, (void)size;
  if (!take_ask(worker, header, header_size, param, &ask))
    return UCS_OK;
  const struct ucx_region *region = ask.length <= UCX_SERVED ? find(worker, &ask, false, &status) : NULL;
  reply(worker, param->reply_ep, &ask, status, region, (const void *)(uintptr_t)ask.address, region ? ask.length : 0);
  return UCS_OK;
}

void ucx_serve_close(struct ucx_worker *worker) {
  for (struct ucx_answer *answer = worker->all_answers, *next; answer; answer = next) {
    next = answer->all;
    free(answer);
  }
  free(worker->served);
}
