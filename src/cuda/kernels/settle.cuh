// What a block does when not everybody was heard, or somebody runs in a newer view: rare, and then all blocks have to
// come to the same view and the same members, for each computes the places of all rows by itself.
//
// Heard or lost: a block that gave a member up tells so and waits until every block has told. If any has heard the
// member, all its routing has arrived, and this block reads it again. Those who heard everybody, and nothing newer,
// tell so with one add that they do not wait for: that is all that the usual operation pays. It is a relaxed one, for a
// release would wait for the thread's stores to peers, and all others for the thread: what it vouches for is in this
// device's memory already, where the thread has read it, and whoever reads it again looks for the same flags.
//
// A newer view (ep/core/activation.h, adopt): the newest that anybody runs in. As all blocks have heard the same, all
// see that there is one; the speaker looks for it and tells the others what to do.
//
// Its first member behind a slow link may come with it, after this kernel has read that all links are fast. The host
// writes `strict` before the view's epoch; the speaker acquires the epoch and releases its verdict (a fence, then the
// exchange), each block's first thread acquires the verdict, reads the word again, and a barrier hands it to the warps
// that place rows. Those that send meanwhile read it once for each packet, and send to members of the view before.
#ifndef CUDA_KERNELS_SETTLE_CUH
#define CUDA_KERNELS_SETTLE_CUH

#include "cuda/kernels/activate.cuh"

enum verdict {
  VERDICT_NONE,
  VERDICT_ADOPT,  // run in the published view; its slot stands above the low byte
  VERDICT_STAY,   // this rank is not in it: go on without those who are, and end with this operation
  VERDICT_REFUSE, // it has not come from the store: let go of those who run in it
};

// Where a block's receiving half stands. In shared memory.
struct standing {
  const cuda_view *view; // what the operation runs in
  uint32_t live;         // its index among the live views
  uint32_t round;
  bool adopted;
  uint32_t out; // published view without this rank, from the next operation on; NOT_PUBLISHED: none
};

// Whether any block has heard the member. [one thread for each member]
static __device__ __noinline__ bool agree_on(const cuda_dispatch_args &args, cuda_votes &votes, uint32_t round,
                                             uint32_t m, bool heard, uint32_t blocks) {
  auto &vote = votes.member[round][m];
  ptx::add_release(heard ? &vote.heard : &vote.given_up, 1);
  long_patience patience;
  for (;;) {
    uint32_t all = round == 0 ? ptx::load_acquire(&votes.all) : 0, yes = ptx::load_acquire(&vote.heard);
    if (all + yes + ptx::load_acquire(&vote.given_up) >= blocks || patience.over(args.state))
      return all + yes > 0;
  }
}

// The speaker's decision about the view of `epoch`, which may be slow to come: all peers are told that it is awaited.
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
    if (waited > limit / SIGNS) {
      ptx::set_bits(&state->signs.awaited, ~0ull);
      step_of_round(state);
    }
  }
  return (state->published[slot].self == CUDA_NOT_A_MEMBER ? VERDICT_STAY : VERDICT_ADOPT) | slot << 8;
}

static __device__ __noinline__ uint32_t await_verdict(const cuda_dispatch_args &args, cuda_votes &votes, uint32_t round,
                                                      uint64_t epoch) {
  if (is_speaker()) {
    uint32_t verdict = judge(args, epoch);
    ptx::fence_system();
    atomicExch(&votes.verdict[round], verdict);
    return verdict;
  }
  long_patience patience;
  uint32_t verdict;
  while ((verdict = ptx::load_acquire(&votes.verdict[round])) == VERDICT_NONE)
    if (patience.over(args.state))
      return VERDICT_REFUSE;
  return verdict;
}

// Whether this rank has told the peer that it counts it from a later operation on, and has sent that one: then the peer
// passes over us in this one, and we pass over it.
__device__ __forceinline__ bool has_passed_over(const cuda_state *state, const scene &scene, uint32_t seat,
                                                uint64_t op) {
  uint64_t told = ptx::load_volatile(&state->told[seat]); // + 1
  return told > op + 1 && told <= scene.counters.sent;
}

// Headers without rows, to members that the operation had not counted when it was sent. [one thread]
static __device__ __noinline__ void send_empty(const cuda_dispatch_args &args, const scene &scene,
                                               const cuda_view &before, const cuda_view &view, uint64_t op) {
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    const cuda_member &member = view.members[m];
    if (member.seat >= DEVICE_SEATS || find_seat(before, member.seat) ||
        has_passed_over(args.state, scene, member.seat, op))
      continue;
    tell_start(args.state, member, op, view.epoch);
    ptx::fence_system();
    cuda_slot_head *head = (cuda_slot_head *)slot_of(args.layout, member.out, op);
    uint64_t mark = scene.control.mark;
    cuda_unit *counts = (cuda_unit *)((char *)head + args.layout.counts);
    for (uint32_t unit = 0; unit < args.layout.count_units; unit++)
      ptx::store_unit(counts + unit, make_uint4(0, 0, 0, (uint32_t)op + 1));
    ptx::store_unit(&head->mark, make_uint4((uint32_t)mark, (uint32_t)(mark >> 32), 0, (uint32_t)op + 1));
    ptx::store_unit(&head->count, make_uint4(KIND_DISPATCH << CUDA_HEAD_KIND, (uint32_t)view.epoch,
                                             (uint32_t)scene.control.ready, (uint32_t)op + 1));
  }
}

// Gives up those who run in a newer view than this operation's. [one thread for each member]
__device__ __forceinline__ void let_go(const cuda_dispatch_args &args, const cuda_view &view, hearing &hearing,
                                       uint32_t m, uint64_t op, bool lost) {
  const cuda_member &member = view.members[m];
  if (!takes_part(hearing, member))
    return;
  uint4 count = ptx::load_unit(&((const cuda_slot_head *)slot_of(args.layout, member.in, op))->count);
  if (count.w != (uint32_t)op + 1 || count.y <= (uint32_t)view.epoch)
    return;
  atomicOr((unsigned long long *)&hearing.given_up, 1ull << member.seat);
  if (lost && is_speaker())
    lose(args.state, member.seat);
}

// Runs in the published view instead. [role]
static __device__ __noinline__ void adopt(const cuda_dispatch_args &args, scene &scene, standing &standing,
                                          hearing &hearing, uint32_t slot, uint64_t op, const role &role) {
  const cuda_view &published = args.state->published[slot], &before = *standing.view;
  uint32_t made = standing.adopted ? standing.live : (scene.counters.newest + 1) % CUDA_LIVE;
  cuda_view &live = scene.live[made];
  // A second one in the same operation takes the place of the first: what it needs of that is in the registers then.
  uint32_t m = role.thread();
  cuda_member member;
  uint32_t count = published.count;
  if (m < count) {
    member = published.members[m];
    const cuda_member *same = member.seat < DEVICE_SEATS ? find_seat(before, member.seat) : nullptr;
    member.since = same ? same->since : op;
    if (!same && member.seat < DEVICE_SEATS && has_passed_over(args.state, scene, member.seat, op))
      atomicOr((unsigned long long *)&hearing.given_up, 1ull << member.seat);
  }
  role.sync();
  if (is_speaker() && m == 0) {
    cuda_view &sent = view_of(scene, op);
    forgive(args.state, before, published);
    send_empty(args, scene, sent, published, op);
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
    standing.view = &live;
    standing.live = made;
    standing.adopted = true;
    scene.control.strict |= ptx::load_volatile(&args.state->control.strict);
  }
  role.sync();
}

enum settled {
  SETTLED,
  HEAR,       // once more
  HEAR_AGAIN, // likewise, without a vote: what others have heard
};

// `again`: the block has heard so. [role]
static __device__ __noinline__ settled settle(const cuda_dispatch_args &args, scene &scene, standing &standing,
                                              hearing &hearing, uint64_t op, const role &role, bool again) {
  cuda_votes &votes = args.state->votes[op % CUDA_LIVE];
  const cuda_view &view = *standing.view;
  uint32_t m = role.thread(), round = standing.round;
  if (!again) {
    bool votes_on = m < view.count && takes_part(hearing, view.members[m]);
    bool mine = votes_on && !(hearing.failed >> m & 1);
    bool theirs = votes_on && agree_on(args, votes, round, m, mine, role.blocks);
    role.sync();
    if (votes_on && !theirs)
      atomicOr((unsigned long long *)&hearing.given_up, 1ull << view.members[m].seat);
    if (role.sync_or(votes_on && !(mine && theirs))) // also without the marks of those who came in part
      return HEAR_AGAIN;
  }
  uint32_t newest = summary(hearing, view.count).newest;
  role.sync();
  if (newest <= (uint32_t)view.epoch)
    return SETTLED;
  __shared__ uint32_t verdict;
  if (m == 0)
    verdict = round + 1 < CUDA_ROUNDS ? await_verdict(args, votes, round, newest) : (uint32_t)VERDICT_REFUSE;
  role.sync();
  uint32_t found = verdict;
  if (m == 0) {
    standing.round = round + 1;
    if ((found & 0xFF) == VERDICT_STAY)
      standing.out = found >> 8;
  }
  if ((found & 0xFF) == VERDICT_ADOPT) {
    adopt(args, scene, standing, hearing, found >> 8, op, role);
    return HEAR;
  }
  if (m < view.count)
    let_go(args, view, hearing, m, op, (found & 0xFF) == VERDICT_REFUSE);
  role.sync();
  return HEAR_AGAIN; // without them, as they have been heard and marked
}

#endif
