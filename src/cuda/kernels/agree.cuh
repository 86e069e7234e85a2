// What a block does when a header did not arrive, or when a member runs in a newer view. This is rare. All blocks then
// have to agree on the same view and the same members, because each computes the places of all rows by itself.
//
// Arrived or lost: a block that has given a member up votes for that, and waits until every block has voted. If any
// block has the member's header, all its routing has arrived, and this block reads it again. A block that has all
// headers, none of a newer view, votes with one add and does not wait for it: this is the only cost of a usual
// operation. The add is relaxed: a release would wait for the thread's stores to peers, and the other threads would
// wait for this one. The headers are in this device's memory already, where the thread has read them, and a block that
// reads them again checks the same flags.
//
// A newer view (ep/core/activation.h, adopt) is the newest view that any member runs in. All blocks have received the
// same headers, so all see that there is one. The lead block looks for it and publishes its decision to the other
// blocks.
//
// A newer view may contain the first member behind a slow link, after this kernel has read that all links are fast. The
// host writes `strict` before the view's epoch. The lead block acquires the epoch and releases its verdict (a fence,
// then the exchange). The first thread of each block acquires the verdict and reads `strict` again, and a barrier
// passes it to the warps that place rows. Warps that send meanwhile read it once for each packet, and send to members
// of the previous view.
#ifndef CUDA_KERNELS_AGREE_CUH
#define CUDA_KERNELS_AGREE_CUH

#include "cuda/kernels/activate.cuh"

enum verdict {
  VERDICT_NONE,
  VERDICT_ADOPT, // run in the published view; the bits above the low byte are its slot
  // this rank is not in the newer view: continue without the members of that view, and end with this operation
  VERDICT_STAY,
  VERDICT_REFUSE, // the view has not arrived from the store: give up the members that run in it
};

// The agreement of the blocks, as the receiving half of one block knows it. In shared memory.
struct agreement {
  const cuda_view *view; // view in which the operation runs
  uint32_t live;         // index of the view among the live views
  uint32_t round;
  bool adopted;
  uint32_t out; // published view without this rank, from the next operation on; NOT_PUBLISHED: none
};

// Whether any block has received the member's header. [one thread for each member]
static __device__ __noinline__ bool agree_on(const cuda_dispatch_args &args, cuda_votes &votes, uint32_t round,
                                             uint32_t m, bool received, uint32_t blocks) {
  auto &vote = votes.member[round][m];
  ptx::add_release(received ? &vote.received : &vote.given_up, 1);
  block_wait_limit wait_limit;
  for (;;) {
    uint32_t all = round == 0 ? ptx::load_acquire(&votes.all) : 0, yes = ptx::load_acquire(&vote.received);
    if (all + yes + ptx::load_acquire(&vote.given_up) >= blocks || wait_limit.over(args.state))
      return all + yes > 0;
  }
}

// The lead block's decision about the view of `epoch`. The view may be slow to come, so all peers get heartbeats.
// [one thread]
static __device__ __noinline__ uint32_t judge(const cuda_dispatch_args &args, uint64_t epoch) {
  cuda_state *state = args.state;
  uint32_t slot;
  uint32_t begin = ticks();
  while ((slot = find_published(state, epoch)) == NOT_PUBLISHED) {
    __nanosleep(1000);
    uint32_t limit = limit_ticks(state), waited = ticks() - begin;
    if (waited > limit)
      return VERDICT_REFUSE;
    if (waited > limit / HEARTBEATS) {
      ptx::set_bits(&state->heartbeats.awaited, ~0ull);
      step_of_round(state);
    }
  }
  return (state->published[slot].self == CUDA_NOT_A_MEMBER ? VERDICT_STAY : VERDICT_ADOPT) | slot << 8;
}

static __device__ __noinline__ uint32_t await_verdict(const cuda_dispatch_args &args, cuda_votes &votes, uint32_t round,
                                                      uint64_t epoch) {
  if (is_lead_block()) {
    uint32_t verdict = judge(args, epoch);
    ptx::fence_system();
    atomicExch(&votes.verdict[round], verdict);
    return verdict;
  }
  block_wait_limit wait_limit;
  uint32_t verdict;
  while ((verdict = ptx::load_acquire(&votes.verdict[round])) == VERDICT_NONE)
    if (wait_limit.over(args.state))
      return VERDICT_REFUSE;
  return verdict;
}

// Whether this rank has published to the peer a first operation that is later than this one, and has sent that
// operation. Then the peer does not count this rank in this operation, and this rank does not count the peer.
__device__ __forceinline__ bool has_passed_over(const cuda_state *state, const snapshot &snapshot, uint32_t seat,
                                                uint64_t op) {
  uint64_t start = ptx::load_volatile(&state->start_sent[seat]); // + 1
  return start > op + 1 && start <= snapshot.counters.sent;
}

// Sends headers without rows to members that were not in the operation's view when the operation was sent. `ready` and
// `mark` are those of this rank's other headers. [one thread]
static __device__ __noinline__ void send_empty(const cuda_dispatch_args &args, const snapshot &snapshot, uint32_t ready,
                                               uint64_t mark, const cuda_view &before, const cuda_view &view,
                                               uint64_t op) {
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    const cuda_member &member = view.members[m];
    if (member.seat >= DEVICE_SEATS || find_seat(before, member.seat) ||
        has_passed_over(args.state, snapshot, member.seat, op))
      continue;
    publish_start(args.state, member, op, view.epoch);
    ptx::fence_system();
    cuda_slot_head *head = (cuda_slot_head *)slot_of(args.layout, member.out, op);
    cuda_unit *counts = (cuda_unit *)((char *)head + args.layout.counts);
    for (uint32_t unit = 0; unit < args.layout.count_units; unit++)
      ptx::store_unit(counts + unit, make_uint4(0, 0, 0, (uint32_t)op + 1));
    ptx::store_unit(&head->mark, make_uint4((uint32_t)mark, (uint32_t)(mark >> 32), 0, (uint32_t)op + 1));
    ptx::store_unit(&head->count,
                    make_uint4(KIND_DISPATCH << CUDA_HEAD_KIND, (uint32_t)view.epoch, ready, (uint32_t)op + 1));
  }
}

// Gives up the members that run in a newer view than this operation's. [one thread for each member]
__device__ __forceinline__ void give_up_newer(const cuda_dispatch_args &args, const cuda_view &view, headers &headers,
                                              uint32_t m, uint64_t op, bool lost) {
  const cuda_member &member = view.members[m];
  if (!takes_part(headers, member))
    return;
  uint4 count = ptx::load_unit(&((const cuda_slot_head *)slot_of(args.layout, member.in, op))->count);
  if (count.w != (uint32_t)op + 1 || count.y <= (uint32_t)view.epoch)
    return;
  atomicOr((unsigned long long *)&headers.given_up, 1ull << member.seat);
  if (lost && is_lead_block())
    mark_lost(args.state, member.seat);
}

// Makes the operation run in the published view. [role]
static __device__ __noinline__ void adopt(const cuda_dispatch_args &args, snapshot &snapshot, agreement &agreement,
                                          headers &headers, uint32_t slot, uint64_t op, const role &role) {
  const cuda_view &published = args.state->published[slot], &before = *agreement.view;
  uint32_t made = agreement.adopted ? agreement.live : (snapshot.counters.newest + 1) % CUDA_LIVE;
  cuda_view &live = snapshot.live[made];
  // A second newer view in the same operation overwrites the first one; the data needed from the first is in registers
  // by then.
  uint32_t m = role.thread();
  cuda_member member;
  uint32_t count = published.count;
  if (m < count) {
    member = published.members[m];
    const cuda_member *same = member.seat < DEVICE_SEATS ? find_seat(before, member.seat) : nullptr;
    member.since = same ? same->since : op;
    if (!same && member.seat < DEVICE_SEATS && has_passed_over(args.state, snapshot, member.seat, op))
      atomicOr((unsigned long long *)&headers.given_up, 1ull << member.seat);
  }
  role.sync();
  if (is_lead_block() && m == 0) {
    cuda_view &sent = view_of(snapshot, op);
    clear_lost(args.state, before, published);
    send_empty(args, snapshot, headers.count[before.self].z, headers.mark[before.self], sent, published, op);
  }
  role.sync();
  if (m < count)
    live.members[m] = member;
  if (m == 0) {
    live.epoch = published.epoch;
    live.count = count;
    live.by_count = published.by_count;
    live.seats = published.seats;
    live.self = published.self;
    agreement.view = &live;
    agreement.live = made;
    agreement.adopted = true;
    snapshot.control.strict |= ptx::load_volatile(&args.state->control.strict);
  }
  role.sync();
}

enum agree_result {
  AGREED,
  RECEIVE,       // receive the headers once more
  RECEIVE_AGAIN, // the same, without a vote: other blocks have the headers
};

// `again`: this block has received the headers after a vote. [role]
static __device__ __noinline__ agree_result agree(const cuda_dispatch_args &args, snapshot &snapshot,
                                                  agreement &agreement, headers &headers, uint64_t op, const role &role,
                                                  bool again) {
  cuda_votes &votes = args.state->votes[op % CUDA_LIVE];
  const cuda_view &view = *agreement.view;
  uint32_t m = role.thread(), round = agreement.round;
  if (!again) {
    bool votes_on = m < view.count && takes_part(headers, view.members[m]);
    bool mine = votes_on && !(headers.failed >> m & 1);
    bool theirs = votes_on && agree_on(args, votes, round, m, mine, role.blocks);
    role.sync();
    if (votes_on && !theirs)
      atomicOr((unsigned long long *)&headers.given_up, 1ull << view.members[m].seat);
    if (role.sync_or(votes_on && !(mine && theirs))) // so that incomplete headers leave no marks
      return RECEIVE_AGAIN;
  }
  uint32_t newest = summary(headers, view.count).newest;
  role.sync();
  if (newest <= (uint32_t)view.epoch)
    return AGREED;
  __shared__ uint32_t verdict;
  if (m == 0)
    verdict = round + 1 < CUDA_ROUNDS ? await_verdict(args, votes, round, newest) : (uint32_t)VERDICT_REFUSE;
  role.sync();
  uint32_t found = verdict;
  if (m == 0) {
    agreement.round = round + 1;
    if ((found & 0xFF) == VERDICT_STAY)
      agreement.out = found >> 8;
  }
  if ((found & 0xFF) == VERDICT_ADOPT) {
    adopt(args, snapshot, agreement, headers, found >> 8, op, role);
    return RECEIVE;
  }
  if (m < view.count)
    give_up_newer(args, view, headers, m, op, (found & 0xFF) == VERDICT_REFUSE);
  role.sync();
  return RECEIVE_AGAIN; // without those members: their headers and marks were received
}

#endif
