/**
 * @file store.h
 * @brief A small, strongly consistent key-value store: leases, transactions, watches.
 *
 * The model and the wire protocol are those of etcd v3 (its JSON gateway). Three kinds are reached through
 * the same calls: a real etcd cluster and the embedded server of `weft serve` (both over HTTP), and a store
 * inside this process (for one-process groups and tests).
 *
 * Keys are byte strings; revisions are etcd revisions: one counter for the whole store, +1 for each
 * modifying request. Handles are safe for any number of threads. Every call ends by its time limit.
 */
#ifndef WEFT_STORE_H
#define WEFT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/err.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_store weft_store_t;               /**< a client, or the in-process store */
typedef struct weft_store_server weft_store_server_t; /**< an embedded server */
typedef struct weft_store_watch weft_store_watch_t;   /**< an open watch */

/** How to reach a store. Zero (after WEFT_STORE_OPTIONS_INIT) means the default of each field. */
struct weft_store_options {
  size_t size;                 /**< sizeof(struct weft_store_options) */
  const char *endpoints;       /**< comma-separated "http[s]://host:port"; tried in order, next on failure */
  const char *ca_file;         /**< PEM bundle that signs the server's certificate; default: with a token, none: the
                                    certificate has to be the one that the token makes; else the system's */
  const char *cert_file;       /**< client certificate (PEM), with key_file */
  const char *key_file;        /**< client key (PEM) */
  const char *user;            /**< etcd user; asks /v3/auth/authenticate for a token, again when it expires */
  const char *password;        /**< etcd password */
  const char *token;           /**< token of an embedded server. It goes over TLS only: https:// shows it after the
                                    server's certificate was accepted; http:// to a loopback address does not send it
                                    at all, for any user of the host may listen there; http:// to others is INVALID */
  uint32_t connect_timeout_ms; /**< per endpoint, its TLS handshake included; default: with several, 2,000, so that one
                                    which does not answer is passed over; with one, request_timeout_ms */
  uint32_t request_timeout_ms; /**< whole call, every endpoint tried; default 5,000 */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_STORE_OPTIONS_INIT WEFT_SIZED(struct weft_store_options)

/** One key and its state. The memory belongs to the list or event that it came in. */
struct weft_store_kv {
  const char *key;         /**< key_len bytes, and a NUL behind them */
  const void *value;       /**< value_len bytes, and a NUL behind them */
  size_t key_len;          /**< bytes of key */
  size_t value_len;        /**< bytes of value */
  int64_t create_revision; /**< revision of the put that created the key */
  int64_t mod_revision;    /**< revision of its last put */
  int64_t version;         /**< puts since creation, from 1 */
  int64_t lease;           /**< lease that it hangs on, 0 for none */
};

/** Result of a range: kvs sorted by key. Free with weft_store_list_free(). */
struct weft_store_list {
  struct weft_store_kv *kvs; /**< [count], sorted by key */
  size_t count;              /**< entries of kvs */
  size_t total;              /**< keys in the range, whatever the limit */
  bool more;                 /**< the limit left some out */
  int64_t revision;          /**< store revision at which the answer holds */
  void *priv;                /**< the library's own; leave it as it is */
};

/** What a comparison looks at. */
enum weft_store_target {                     /**< what a comparison looks at */
                         WEFT_STORE_CREATE,  /**< create_revision; 0 when the key is absent */
                         WEFT_STORE_MOD,     /**< mod_revision; 0 when absent */
                         WEFT_STORE_VERSION, /**< version; 0 when absent */
                         WEFT_STORE_VALUE,   /**< value; a comparison of an absent key's value fails */
};

/** How the value in the store relates to the one of the comparison. */
enum weft_store_relation { WEFT_STORE_EQUAL, WEFT_STORE_GREATER, WEFT_STORE_LESS, WEFT_STORE_NOT_EQUAL };

/** One condition of a transaction. */
struct weft_store_compare {
  const char *key;                   /**< NUL-terminated */
  enum weft_store_target target;     /**< what it looks at */
  enum weft_store_relation relation; /**< how it has to relate */
  int64_t number;                    /**< for CREATE, MOD, VERSION */
  const void *value;                 /**< for VALUE */
  size_t value_len;                  /**< bytes of value */
};

/** Kind of an operation of a transaction. */
enum weft_store_op_kind { WEFT_STORE_PUT, WEFT_STORE_DELETE, WEFT_STORE_RANGE };

/** One operation of a transaction's branch. A branch may put a key at most once, and not delete it too (as etcd has
 *  it). */
struct weft_store_op {
  enum weft_store_op_kind kind; /**< what the operation does */
  const char *key;              /**< NUL-terminated */
  bool prefix;                  /**< DELETE, RANGE: every key that starts with `key` ("" = all) */
  uint32_t limit;               /**< RANGE: at most so many, 0 = all */
  const void *value;            /**< PUT */
  size_t value_len;             /**< bytes of value */
  int64_t lease;                /**< PUT: lease to hang the key on, 0 for none */
};

/** A transaction: its conditions, and the operations of both branches. */
struct weft_store_txn {
  const struct weft_store_compare *compares; /**< all must hold for the success branch to run */
  size_t num_compares;                       /**< number of compares */
  const struct weft_store_op *success;       /**< operations to run when all comparisons hold */
  size_t num_success;                        /**< number of them */
  const struct weft_store_op *failure;       /**< operations to run when one does not */
  size_t num_failure;                        /**< number of them */
};

/** Result of a transaction. Free with weft_store_txn_result_free(). */
struct weft_store_txn_result {
  bool succeeded;                 /**< which branch ran */
  int64_t revision;               /**< store revision after it */
  size_t num_responses;           /**< operations of the branch that ran */
  struct weft_store_list *ranges; /**< [num_responses]: the RANGE operations' answers, empty for others */
  size_t *deleted;                /**< [num_responses]: keys that a DELETE removed, 0 for others */
};

/** Opens a client to `options->endpoints`. Makes no request: an unreachable store shows at the first call. */
WEFT_API int weft_store_open(weft_store_t **store, const struct weft_store_options *options);

/** Opens a store that lives in this process and ends with weft_store_close(). */
WEFT_API int weft_store_open_local(weft_store_t **store);

/** Closes; ends its watches first. NULL is legal. Not from a watch callback. */
WEFT_API void weft_store_close(weft_store_t *store);

/** The endpoint in use, e.g. "http://127.0.0.1:2379"; "local" for a store of this process. [any] */
WEFT_API const char *weft_store_name(const weft_store_t *store);

/** Asks for the server's version, e.g. "3.4.23" or "weft 0.1.0", NUL-terminated into out[cap]. */
WEFT_API int weft_store_version(weft_store_t *store, char *out, size_t cap);

/** Reads `key`, or every key with this prefix; `limit` 0 = all. An absent key is an empty list, an error
 *  is an error. `revision` 0 = now. */
WEFT_API int weft_store_range(weft_store_t *store, const char *key, bool prefix, uint32_t limit,
                              struct weft_store_list *out);
/** Frees the memory of a list, not the struct itself. [any] */
WEFT_API void weft_store_list_free(struct weft_store_list *list);

/** Puts; `*revision` (may be NULL) is the store's revision after it. NOT_FOUND: no such lease. */
WEFT_API int weft_store_put(weft_store_t *store, const char *key, const void *value, size_t value_len, int64_t lease,
                            int64_t *revision);

/** Deletes a key or a prefix; `*deleted` (may be NULL) counts. Deleting nothing is no error. */
WEFT_API int weft_store_delete(weft_store_t *store, const char *key, bool prefix, size_t *deleted);

/** Runs a transaction. A comparison that fails is no error: see `out->succeeded`. After TIMEOUT or
 *  UNREACHABLE it may or may not have run: read before trying again. */
WEFT_API int weft_store_txn(weft_store_t *store, const struct weft_store_txn *txn, struct weft_store_txn_result *out);
/** Frees the memory of a result, not the struct itself. [any] */
WEFT_API void weft_store_txn_result_free(struct weft_store_txn_result *result);

/** Grants a lease of `ttl_s` seconds (at least 1; a server may grant more); `*granted_s` may be NULL. */
WEFT_API int weft_store_lease_grant(weft_store_t *store, int64_t ttl_s, int64_t *lease, int64_t *granted_s);

/** Renews once. NOT_FOUND: it has expired, with every key on it. `*ttl_s` may be NULL. */
WEFT_API int weft_store_lease_keepalive(weft_store_t *store, int64_t lease, int64_t *ttl_s);

/** Seconds left. NOT_FOUND when expired. */
WEFT_API int weft_store_lease_ttl(weft_store_t *store, int64_t lease, int64_t *ttl_s);

/** Ends a lease and deletes its keys. NOT_FOUND when there is none. */
WEFT_API int weft_store_lease_revoke(weft_store_t *store, int64_t lease);

/** Kind of an event of a watch. */
enum weft_store_event_kind {
  WEFT_STORE_EVENT_PUT,     /**< kv holds the new state */
  WEFT_STORE_EVENT_DELETE,  /**< kv.key and kv.mod_revision (of the deletion) are set */
  WEFT_STORE_EVENT_LOST,    /**< the stream is cut; the watch reconnects by itself and misses nothing */
  WEFT_STORE_EVENT_RESUMED, /**< it is back (also once at the start, when first established) */
  WEFT_STORE_EVENT_RESET,   /**< it is back, but the store is not what it was (restarted empty, or compacted
                                 past the watch's revision): read everything again. A store that was
                                 restarted empty and has reached the watch's revision again is not told
                                 from the old one, where it names its cluster as before: after RESUMED,
                                 ask for a lease that only the old one has */
};

/** One event of a watch. */
struct weft_store_event {
  enum weft_store_event_kind kind; /**< what happened */
  struct weft_store_kv kv;         /**< PUT and DELETE */
  int64_t revision;                /**< store revision of the event */
};

/** Receives events in revision order. [callback] on the store's own thread: return soon, and call no
 *  blocking weft_store function from it. */
typedef void (*weft_store_watch_fn)(void *arg, const struct weft_store_event *event);

/**
 * Watches every key with `prefix` from revision `from` on (inclusive; 0 = from now, after this call's
 * return). To miss nothing: range, then watch from its `revision + 1`.
 */
WEFT_API int weft_store_watch_open(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn,
                                   void *arg, weft_store_watch_t **watch);

/** Ends a watch: no callback runs after its return. NULL is legal. Not from a watch callback. */
WEFT_API void weft_store_watch_close(weft_store_watch_t *watch);

/**
 * How to run an embedded server. It speaks HTTPS, and whoever has its token may do everything with every key: read,
 * write and delete what others put, and end their leases. Nobody else may do anything but ask for its version.
 *
 * Its certificate is one that the token makes: clients with the token need no more (struct weft_store_options). With
 * `cert_file` and `key_file` it is that one, and clients give the CA that signed it.
 */
struct weft_store_server_options {
  size_t size;           /**< sizeof(struct weft_store_server_options) */
  const char *address;   /**< numeric address to bind; default "127.0.0.1" */
  uint16_t port;         /**< 0 = any free one */
  const char *token;     /**< clients must send "Authorization: Bearer TOKEN" (etcd's bare "TOKEN" too). Printable ASCII
                              without blanks, at most 4,095 bytes. NULL: a random one, see weft_store_server_token() */
  bool insecure;         /**< no token and no TLS: every process that reaches the address may do everything. With a
                              loopback address only; without a token and a certificate */
  const char *cert_file; /**< the server's certificate, or a chain of them (PEM), with key_file */
  const char *key_file;  /**< its key (PEM) */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_STORE_SERVER_OPTIONS_INIT WEFT_SIZED(struct weft_store_server_options)

/** Starts a server on threads of its own. BUSY: port in use; INVALID: `insecure` and an address that other hosts reach,
 *  or files that are no certificate and its key; UNSUPPORTED: libmicrohttpd is not there, or has no TLS. */
WEFT_API int weft_store_server_start(weft_store_server_t **server, const struct weft_store_server_options *options);

/** Its URL, e.g. "https://127.0.0.1:40123". */
WEFT_API const char *weft_store_server_url(const weft_store_server_t *server);

/** Its token, given or made; "" when it is insecure. Whoever knows it rules the store: hand it over by a descriptor or
 * a file of mode 0600, not by an argument. Valid until weft_store_server_stop(). [any] */
WEFT_API const char *weft_store_server_token(const weft_store_server_t *server);

/** Stops: cuts every connection, drops all keys. NULL is legal. */
WEFT_API void weft_store_server_stop(weft_store_server_t *server);

#ifdef __cplusplus
}
#endif
#endif
