// Options: parses words and sizes, and checks before anything is opened whether the options go together.
#include "p2p/p2p.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "page/page.h"
#include "transport/transport.h"

const char *const p2p_mode_names[] = {
    [P2P_LOCAL] = "local", [P2P_TARGET] = "target", [P2P_INITIATOR] = "initiator", NULL};
const char *const p2p_memory_names[] = {
    [P2P_MEMORY_HOST] = "host", [P2P_MEMORY_USER] = "user",     [P2P_MEMORY_CUDA] = "cuda",
    [P2P_MEMORY_FILE] = "file", [P2P_MEMORY_OBJECT] = "object", NULL};
const char *const p2p_op_names[] = {
    [P2P_OP_ALL] = "all", [P2P_OP_WRITE] = "write", [P2P_OP_READ] = "read", [P2P_OP_NOTIFY] = "notify", NULL};

bool p2p_is_storage(enum p2p_memory memory) {
  return memory == P2P_MEMORY_FILE || memory == P2P_MEMORY_OBJECT;
}

// --- transports ---

// Whether the transport of that name serves such memory. Storage transports have the name of their kind of memory.
static bool serves(const char *name, enum p2p_memory memory) {
  if (p2p_is_storage(memory))
    return strcmp(name, p2p_memory_names[memory]) == 0;
  return strcmp(name, "file") != 0 && strcmp(name, "object") != 0;
}

static int refuse(const char *name, size_t length, enum p2p_memory memory) {
  struct text right = {0};
  bool known = false;
  for (const char *const *each = transport_names(); *each; each++) {
    known |= strlen(*each) == length && strncmp(*each, name, length) == 0;
    if (serves(*each, memory))
      text_add(&right, "%s%s", right.size > 0 ? ", " : "", *each);
  }
  const char *list = right.data ? right.data : "";
  int rc =
      known ? fail(WEFT_ERR_INVALID, "--transport: %.*s does not reach %s; want %s", (int)length, name,
                   memory == P2P_MEMORY_FILE     ? "files"
                   : memory == P2P_MEMORY_OBJECT ? "objects"
                                                 : "another process",
                   list)
            : fail(WEFT_ERR_INVALID, "--transport: there is no transport \"%.*s\"; want %s", (int)length, name, list);
  text_free(&right);
  return rc;
}

// Only the processes that open a transport find out whether it works, since network libraries must not be loaded before
// a fork. A transport with faults (fault:NAME) is for tests.
static int check_transports(const char *names, enum p2p_memory memory) {
  while (names && *names) {
    size_t length = strcspn(names, ",");
    bool right = strncmp(names, "fault:", 6) == 0;
    for (const char *const *each = transport_names(); *each && !right; each++)
      right = strlen(*each) == length && strncmp(*each, names, length) == 0 && serves(*each, memory);
    if (!right)
      return refuse(names, length, memory);
    names += length + (names[length] == ',');
  }
  return 0;
}

// --- storage ---

static int check_storage(const struct p2p_config *config) {
  const char *kind = p2p_memory_names[config->memory];
  if (!config->path)
    return fail(WEFT_ERR_INVALID, "--memory %s is given without --path: want --path %s", kind,
                config->memory == P2P_MEMORY_FILE ? "FILE" : "BUCKET/KEY");
  if (config->mode != P2P_LOCAL)
    return fail(WEFT_ERR_INVALID,
                "--memory %s and --mode %s contradict each other: storage has no other side, so it "
                "is measured without --mode",
                kind, p2p_mode_names[config->mode]);
  if (config->op == P2P_OP_NOTIFY)
    return fail(WEFT_ERR_INVALID, "--memory %s and --op notify contradict each other: storage cannot be notified",
                kind);
  if (config->bidirectional)
    return fail(WEFT_ERR_INVALID,
                "--memory %s and --bidirectional contradict each other: storage does not start transfers itself", kind);
  return 0;
}

// Checks at the beginning whether the files can be written at the end.
static int check_files(const struct p2p_config *config) {
  if ((config->html || config->prometheus) && config->mode == P2P_TARGET)
    return fail(WEFT_ERR_INVALID, "--%s and --mode target contradict each other: the initiator has the results",
                config->html ? "html" : "prometheus");
  return page_check_files(config->html, config->prometheus);
}

int p2p_check(const struct p2p_config *config) {
  int unwritable = check_files(config);
  if (unwritable != 0)
    return unwritable;
  if (p2p_is_storage(config->memory)) {
    int rc = check_storage(config);
    if (rc != 0)
      return rc;
  } else if (config->path || config->overwrite) {
    return fail(WEFT_ERR_INVALID, "--%s is given, but --memory is %s: want --memory file or object",
                config->path ? "path" : "overwrite", p2p_memory_names[config->memory]);
  }
  if (config->target_gpu != P2P_GPU_OTHER && (config->memory != P2P_MEMORY_CUDA || config->mode != P2P_LOCAL))
    return fail(WEFT_ERR_INVALID, "--target-gpu-id is for --cuda in --mode local: a separate target uses --gpu-id");
  return check_transports(config->transport, config->memory);
}

// --- sizes ---

enum { MAX_SHIFT = 40 };

// K, M, G or T, optionally followed by B or iB; all are powers of 1024.
static bool parse_unit(const char *unit, size_t size, int *shift) {
  static const char letters[] = "KMGT";
  *shift = 0;
  if (size == 0 || (size == 1 && (*unit == 'B' || *unit == 'b')))
    return true;
  const char *letter = strchr(letters, *unit >= 'a' ? *unit - 'a' + 'A' : *unit);
  bool rest = size == 1 || (size == 2 && strncasecmp(unit + 1, "B", 1) == 0) ||
              (size == 3 && strncasecmp(unit + 1, "iB", 2) == 0);
  if (!letter || !*letter || !rest)
    return false;
  *shift = 10 * (int)(letter - letters + 1);
  return true;
}

static bool parse_one(const char *text, size_t size, uint64_t *bytes) {
  size_t digits = strspn(text, "0123456789");
  int shift;
  digits = digits < size ? digits : size;
  if (digits == 0 || digits > 15 || !parse_unit(text + digits, size - digits, &shift))
    return false;
  *bytes = strtoull(text, NULL, 10) << shift;
  return *bytes > 0 && *bytes >> shift == strtoull(text, NULL, 10) && *bytes <= UINT64_C(1) << MAX_SHIFT;
}

int p2p_sizes_parse(const char *text, struct p2p_sizes *sizes) {
  *sizes = (struct p2p_sizes){0};
  for (const char *at = text;; at++) {
    size_t size = strcspn(at, ",");
    if (sizes->count == P2P_MAX_SIZES)
      return fail(WEFT_ERR_INVALID, "more than %d sizes", P2P_MAX_SIZES);
    uint64_t *bytes = &sizes->bytes[sizes->count++];
    if (!parse_one(at, size, bytes))
      return fail(WEFT_ERR_INVALID,
                  "\"%.*s\" is not a size: want 1 to 1TB, as a number followed by B, KB, MB, GB or TB (powers of "
                  "1024); separate several sizes by commas",
                  (int)(size < 40 ? size : 40), at);
    if (*bytes > sizes->largest)
      sizes->largest = *bytes;
    at += size;
    if (!*at)
      return 0;
  }
}

const char *p2p_size_text(uint64_t bytes, char *out, size_t cap) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    unit++;
  }
  snprintf(out, cap, "%" PRIu64 " %s", bytes, units[unit]);
  return out;
}
