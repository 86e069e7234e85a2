// The results of an operation of a group for throughput that the kernels for rows and answers have recorded.
#include "cuda/engine/engine.h"

// Finds operation `op` and copies its struct to ep->host->flow; NULL if the operation is not open.
static int find_open_op(struct device_ep *ep, uint64_t op, const struct cuda_open_op **open, char *why) {
  *open = NULL;
  for (int i = 0; i < EP_DEPTH; i++) {
    const struct cuda_open_op *its = &ep->streams.open_ops[i];
    int rc = cuda_get(ep, &ep->host->flow, its->op, sizeof ep->host->flow, "reading what an operation did", why);
    if (rc != 0)
      return rc;
    if (ep->host->flow.op == op && ep->host->flow.count > 0) {
      *open = its;
      return 0;
    }
  }
  return 0;
}

static uint64_t members_of(const struct cuda_flow_op *op, uint64_t seats) {
  uint64_t members = 0;
  for (; seats; seats &= seats - 1)
    members |= UINT64_C(1) << op->member[__builtin_ctzll(seats)];
  return members;
}

int cuda_flow_record(struct device_ep *ep, uint64_t op, struct device_record *record, char *why) {
  const struct cuda_flow_op *flow = &ep->host->flow;
  const struct cuda_open_op *open;
  int rc = find_open_op(ep, op, &open, why);
  if (rc != 0 || !open)
    return rc;
  record->lost |= members_of(flow, flow->lost);
  if ((record->kind & DEVICE_CONFLICT) || flow->pairs <= flow->max_rows)
    return 0;
  return cuda_why(
      why, WEFT_ERR_ROOM,
      "%u tokens arrived, more than max_rows, %u, of the group or of the operation's route: those beyond are lost",
      flow->pairs, flow->max_rows);
}

// A token's contributing members are those that got it, that take part, and whose contribution arrived.
int cuda_flow_missing(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why) {
  const struct cuda_flow_op *flow = &ep->host->flow;
  const struct cuda_open_op *open;
  int rc = find_open_op(ep, op, &open, why);
  if (rc == 0 && !open)
    rc =
        cuda_why(why, WEFT_ERR_NOT_FOUND, "operation %llu is too old: the newest two are kept", (unsigned long long)op);
  for (uint32_t first = 0; rc == 0 && first < num_tokens; first += EP_MAX_TOKENS) {
    uint32_t count = num_tokens - first < EP_MAX_TOKENS ? num_tokens - first : EP_MAX_TOKENS;
    rc =
        cuda_get(ep, ep->host->missing, open->missing + first, count * sizeof *missing, "reading what is missing", why);
    if (rc == 0)
      rc = cuda_get(ep, ep->host->went, open->seats + first, count * sizeof *missing, "reading where tokens went", why);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
      missing[first + i] = ~members_of(flow, ep->host->went[i] & flow->seats & ~ep->host->missing[i]);
  }
  return rc;
}
