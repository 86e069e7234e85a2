// Ranks of a group exchange tokens: each dispatches its tokens to experts, the experts compute, and the combine brings
// the weighted sums back. Each rank checks every value that it gets.
//
// With one argument the program starts a store and all ranks, each as a process. With three arguments it runs one rank.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

enum { TIMEOUT_MS = 30000, OPERATIONS = 8, TOKENS = 16, HIDDEN = 256, TOPK = 2, EXPERTS = 2, MAX_RANKS = 16 };

// Buffers of one rank, used by all operations. `rows` is the number of rows for each expert.
struct buffers {
  uint16_t x[TOKENS][HIDDEN], out[TOKENS][HIDDEN];
  int64_t topk_idx[TOKENS][TOPK];
  float topk_weights[TOKENS][TOPK];
  int32_t counts[EXPERTS];
  uint16_t received[EXPERTS][MAX_RANKS * TOKENS][HIDDEN], outputs[EXPERTS][MAX_RANKS * TOKENS][HIDDEN];
};

// Address and token of the store, which the first process sends to the others.
struct rendezvous {
  char url[256];
  char token[256];
};

static const char usage[] =
    "usage: ep_rank RANKS\n"
    "       ep_rank RANKS RANK URL\n"
    "Starts a store and RANKS processes (1 to 16), or is the rank with index RANK and uses the store at URL\n"
    "(etcd, or `weft serve` with its token in WEFT_TOKEN).\n"
    "Exit status: 0 all sums right, 2 wrong usage, 4 wrong sums, 5 a rank lost; others: weft_err_exit_status().\n";

// Reports a failed call of the library, with the library's sentence.
static int report(const char *what, int err) {
  if (err)
    fprintf(stderr, "ep_rank: %s: %s: %s\n", what, weft_strerror(err), weft_last_error());
  return err;
}

// Reports a failure that this program itself has found; weft_last_error() does not describe it.
static int complain(const char *what, int err) {
  fprintf(stderr, "ep_rank: %s: %s\n", what, weft_strerror(err));
  return err;
}

// bf16 is the upper half of an f32. All values here have few digits, so nothing is rounded.
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static float from_bf16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

static float input(int rank, uint64_t op, int token, int i) {
  return (float)(1 + ((uint64_t)rank + op + (uint64_t)token + (uint64_t)i) % 8);
}

// Expert e multiplies by a power of two, so that sums of two experts are exact in bf16.
static float factor(int64_t expert) {
  return (float)(1 << expert % 4);
}

static void fill(struct buffers *b, int rank, int ranks, uint64_t op) {
  for (int t = 0; t < TOKENS; t++) {
    for (int i = 0; i < HIDDEN; i++)
      b->x[t][i] = to_bf16(input(rank, op, t, i));
    for (int k = 0; k < TOPK; k++) {
      b->topk_idx[t][k] = (rank + t + k) % (ranks * EXPERTS);
      b->topk_weights[t][k] = 0.5f;
    }
  }
}

// The experts of this rank: those with global indices rank * EXPERTS and up.
static void compute(struct buffers *b, int rank) {
  for (int e = 0; e < EXPERTS; e++)
    for (int32_t row = 0; row < b->counts[e]; row++)
      for (int i = 0; i < HIDDEN; i++)
        b->outputs[e][row][i] = to_bf16(from_bf16(b->received[e][row][i]) * factor(rank * EXPERTS + e));
}

static int check(const struct buffers *b, int rank, uint64_t op) {
  for (int t = 0; t < TOKENS; t++) {
    for (int i = 0; i < HIDDEN; i++) {
      float sum = 0;
      for (int k = 0; k < TOPK; k++)
        sum += b->topk_weights[t][k] * factor(b->topk_idx[t][k]) * input(rank, op, t, i);
      if (from_bf16(b->out[t][i]) != sum) {
        fprintf(stderr, "ep_rank: rank %d, token %d, value %d: %g, not %g\n", rank, t, i,
                (double)from_bf16(b->out[t][i]), (double)sum);
        return WEFT_ERR_DATA;
      }
    }
  }
  return 0;
}

static int dispatch(weft_ep_t *ep, struct buffers *b, uint64_t *op) {
  struct weft_ep_dispatch_args tokens = WEFT_EP_DISPATCH_ARGS_INIT;
  tokens.x = b->x;
  tokens.num_tokens = TOKENS;
  tokens.topk_idx = &b->topk_idx[0][0];
  tokens.topk_weights = &b->topk_weights[0][0];
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.layout = WEFT_EP_PER_EXPERT;
  recv.rows = MAX_RANKS * TOKENS;
  recv.x = b->received;
  recv.counts = b->counts;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  int err = report("dispatch", weft_ep_dispatch(ep, &tokens, &recv, &info, op));
  return !err && info.num_lost > 0 ? complain("dispatch lost a rank", WEFT_ERR_PEER_LOST) : err;
}

static int combine(weft_ep_t *ep, struct buffers *b, uint64_t op) {
  struct weft_ep_combine_args args = WEFT_EP_COMBINE_ARGS_INIT;
  args.y = b->outputs;
  args.out = b->out;
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  int err = report("combine", weft_ep_combine(ep, op, &args, &result));
  return !err && result.num_missing > 0 ? complain("combine misses contributions", WEFT_ERR_PEER_LOST) : err;
}

static int operate(weft_ep_t *ep, int rank, int ranks) {
  struct buffers *b = malloc(sizeof *b);
  if (!b)
    return complain("memory", WEFT_ERR_NOMEM);
  int err = 0;
  for (int i = 0; !err && i < OPERATIONS; i++) {
    uint64_t op;
    uint64_t next = weft_ep_next_op(ep);
    fill(b, rank, ranks, next);
    err = dispatch(ep, b, &op);
    if (err)
      break;
    compute(b, rank);
    err = combine(ep, b, op);
    if (!err)
      err = check(b, rank, next);
  }
  free(b);
  // No rank closes before all ranks have their sums.
  return err ? err : report("barrier", weft_ep_barrier(ep));
}

// Runs one rank: opens it, activates it together with the other founders, runs operations, and leaves.
static int run_rank(int rank, int ranks, const char *url, const char *token) {
  int32_t founders[MAX_RANKS];
  for (int i = 0; i < ranks; i++)
    founders[i] = i;
  struct weft_store_options reach = WEFT_STORE_OPTIONS_INIT;
  reach.endpoints = url;
  reach.token = token;
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.prefix = "/weft/examples/ep_rank/";
  options.rank = rank;
  options.founders = founders;
  options.num_founders = (uint32_t)ranks;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;

  weft_ep_t *ep = NULL;
  int err = report("store", weft_store_open(&options.store, &reach));
  if (!err)
    err = report("open", weft_ep_open(&ep, &options, TIMEOUT_MS));
  if (!err)
    err = report("activate", weft_ep_activate(ep, TIMEOUT_MS));
  if (!err)
    err = operate(ep, rank, ranks);
  weft_ep_close(ep);
  weft_store_close(options.store);
  if (!err)
    printf("rank %d: %d operations of %d tokens are right\n", rank, OPERATIONS, TOKENS);
  return err;
}

// A child waits for the store's address and token. They are not in its arguments, where other users could read the
// token.
static int run_child(int rank, int ranks, int in) {
  struct rendezvous at;
  if (read(in, &at, sizeof at) != sizeof at)
    return complain("no store", WEFT_ERR_UNREACHABLE);
  int err = run_rank(rank, ranks, at.url, at.token);
  fflush(stdout);
  return err;
}

// Starts the store and sends its address to the children, which wait at the other end of the pipe.
static int serve(weft_store_server_t **server, int ranks, int out) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  int err = report("server", weft_store_server_start(server, &options));
  if (err)
    return err;
  struct rendezvous at = {0};
  snprintf(at.url, sizeof at.url, "%s", weft_store_server_url(*server));
  snprintf(at.token, sizeof at.token, "%s", weft_store_server_token(*server));
  for (int rank = 0; rank < ranks; rank++)
    if (write(out, &at, sizeof at) != sizeof at) // shorter than PIPE_BUF, so a child reads it in one piece
      return complain("pipe", WEFT_ERR_SYSTEM);
  return 0;
}

// Whether a process has ended with the exit status of wrong sums.
static bool is_wrong(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == weft_err_exit_status(WEFT_ERR_DATA);
}

// Forks the ranks before this process has threads, then starts the store for them.
static int run_all(int ranks) {
  int ends[2], started = 0, err = 0;
  if (pipe(ends) != 0)
    return complain("pipe", WEFT_ERR_SYSTEM);
  for (; started < ranks; started++) {
    pid_t child = fork();
    if (child == 0) {
      close(ends[1]);
      _exit(weft_err_exit_status(run_child(started, ranks, ends[0])));
    }
    if (child < 0) {
      err = complain("fork", WEFT_ERR_SYSTEM);
      break;
    }
  }
  close(ends[0]);
  weft_store_server_t *server = NULL;
  if (!err)
    err = serve(&server, ranks, ends[1]);
  close(ends[1]); // children that still wait get the end of the file and give up
  for (int status; started > 0 && wait(&status) > 0; started--)
    if (status != 0 && (!err || is_wrong(status))) // wrong sums count more than that others miss their rank
      err = complain("a rank failed", is_wrong(status) ? WEFT_ERR_DATA : WEFT_ERR_PEER_LOST);
  weft_store_server_stop(server);
  if (!err)
    printf("passed: %d ranks\n", ranks);
  return err;
}

static bool parse(const char *text, int min, int max, int *value) {
  char *end;
  long number = strtol(text, &end, 10);
  *value = (int)number;
  return end != text && *end == '\0' && number >= min && number <= max;
}

int main(int argc, char **argv) {
  int ranks, rank;
  if (argc == 2 && parse(argv[1], 1, MAX_RANKS, &ranks))
    return weft_err_exit_status(run_all(ranks));
  if (argc == 4 && parse(argv[1], 1, MAX_RANKS, &ranks) && parse(argv[2], 0, ranks - 1, &rank))
    return weft_err_exit_status(run_rank(rank, ranks, argv[3], getenv("WEFT_TOKEN")));
  fputs(usage, stderr);
  return 2;
}
