/**
 * @file store.h
 * @brief A client of a small, strongly consistent key-value store: keys, transactions, leases, watches.
 *
 * Through a store, ranks and agents agree on which of them exist and which view is active. A program may also keep its
 * own keys in it. The model and the wire protocol are those of etcd v3 (its JSON gateway). The same calls work with
 * three kinds of store: a real etcd cluster and the embedded server of `weft serve` or weft_store_server_start() (both
 * over HTTP), and a store inside this process, for tests and for groups of one process.
 *
 * Keys are strings without NUL bytes, values are byte strings. The store has one counter, its *revision*, which each
 * modifying request increments. A *lease* is a time limit that its owner renews; keys attached to it are deleted when
 * it ends. A *watch* reports each change of the keys with one prefix.
 *
 * The smallest example, without error handling; examples/store_client is a whole program:
 *
 *     struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
 *     weft_store_t *store;
 *     options.endpoints = "http://127.0.0.1:2379";
 *     weft_store_open(&store, &options);
 *     weft_store_put(store, "/demo/key", "value", 5, 0, NULL);
 *     weft_store_close(store);
 *
 * **Threads.** Any number of threads may use one store at the same time: every function here is [any], except where its
 * text says otherwise. No other call may use a handle while it is being closed, or afterwards. A watch calls its
 * function on a thread of the store. This thread serves all watches of that store one after the other.
 *
 * **Time.** Each request to a server blocks the caller until the answer comes, at most for
 * weft_store_options.request_timeout_ms. A store inside this process answers at once.
 *
 * **Later versions.** Structs that the library fills for the caller (weft_store_kv, weft_store_list,
 * weft_store_txn_result, weft_store_event) are allocated by the library and passed by pointer, so later versions can
 * add fields at their ends. Do not copy them by value, and do not create any yourself. Arrays that the caller makes
 * (the comparisons and operations of a transaction) come with the size of one entry; structs of options begin with
 * `size`.
 *
 * **Fork.** In a forked child every call with a handle of the parent returns CLOSED; the texts of the calls do not
 * repeat this. weft_store_close(), weft_store_watch_close() and weft_store_server_stop() free memory there, and do not
 * affect the connections, watches and servers of the parent.
 *
 * **Errors.** Every call may return INVALID (an argument is wrong), NOMEM, and LIMIT (too large, see the call). A call
 * that sends a request to a server may also return TIMEOUT (no answer in time), UNREACHABLE (no endpoint can be
 * reached, or the server is not able to answer), AUTH (the server refuses the token, the user or the certificate, or
 * its own certificate is not accepted), PROTOCOL (the answer is malformed, or larger than 16 MiB) and SYSTEM. The texts
 * of the calls name only further errors, and what an error means there.
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

typedef struct weft_store weft_store_t;               /**< a client of a server, or a store inside this process */
typedef struct weft_store_server weft_store_server_t; /**< an embedded server */
typedef struct weft_store_watch weft_store_watch_t;   /**< an open watch */

/**
 * How to reach a store. Initialise with WEFT_STORE_OPTIONS_INIT; a field that is 0 or NULL has its default. The library
 * copies all strings.
 */
struct weft_store_options {
  size_t size;           /**< sizeof(struct weft_store_options) */
  const char *endpoints; /**< required: 1 to 16 of "http[s]://host:port", comma-separated. A call first tries the
                              endpoint in use, and then the next one if that fails */
  const char *ca_file; /**< PEM file of the CAs that may sign the server's certificate. Default: with `token`, only the
                            certificate that is derived from the token is accepted; without `token`, the CAs of the
                            system are used */
  const char *cert_file; /**< client certificate (PEM), together with key_file; default: none */
  const char *key_file;  /**< client key (PEM); default: none */
  const char *user;      /**< etcd user, together with `password`, not with `token`; default: none. The client gets
                              etcd's token from /v3/auth/authenticate, and gets a new one when it has expired */
  const char *password;  /**< etcd password; default: none. Other hosts can read it on the way to an http:// endpoint:
                              weft_store_open() then writes a warning to standard error, once in a process, unless the
                              endpoint is at a loopback address */
  /** Token of an embedded server: printable ASCII without blanks, at most 4,095 bytes; default: none. The client sends
   *  it over TLS only, after it has accepted the server's certificate. To an http:// endpoint at a loopback address the
   *  client sends no token, because any user of the host may listen there; with another http:// endpoint
   *  weft_store_open() returns INVALID. */
  const char *token;
  uint32_t connect_timeout_ms; /**< to connect to one endpoint, TLS handshake included. Default: 2,000 with several
                                    endpoints, so that the client can skip an endpoint that does not answer;
                                    request_timeout_ms with one endpoint */
  uint32_t request_timeout_ms; /**< for a whole call with all endpoints; default 5,000 */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_STORE_OPTIONS_INIT WEFT_SIZED(struct weft_store_options)

/** Writes the same initial value, for languages without macros; `size` is the caller's sizeof. Cannot fail. [any] */
WEFT_API void weft_store_options_init(struct weft_store_options *options, size_t size);

/** One key and its state. Its memory belongs to the list or the event that points to it. */
struct weft_store_kv {
  const char *key;         /**< key_len bytes, and a NUL behind them */
  const void *value;       /**< value_len bytes, and a NUL behind them */
  size_t key_len;          /**< bytes of key */
  size_t value_len;        /**< bytes of value */
  int64_t create_revision; /**< revision of the put that created the key */
  int64_t mod_revision;    /**< revision of its last put */
  int64_t version;         /**< puts since its creation, counted from 1 */
  int64_t lease;           /**< lease that it is attached to, 0: none */
};

/** Result of a range. Free it with weft_store_list_free(). */
struct weft_store_list {
  struct weft_store_kv **kvs; /**< [count], sorted by key; none of them is NULL */
  size_t count;               /**< entries of kvs */
  size_t total;               /**< keys in the range, whatever the limit */
  int64_t revision;           /**< revision of the store to which the answer belongs */
  uint32_t more;              /**< 1: because of the limit some keys are missing; else 0 */
  uint32_t reserved;          /**< 0 */
};

/** The part of a key's state that a comparison uses. */
enum weft_store_target {
  WEFT_STORE_CREATE,  /**< create_revision; 0 when the key is absent */
  WEFT_STORE_MOD,     /**< mod_revision; 0 when the key is absent */
  WEFT_STORE_VERSION, /**< version; 0 when the key is absent */
  WEFT_STORE_VALUE,   /**< value, compared byte by byte; when the key is absent, the comparison fails */
};

/** The relation of the store's value to the given one that makes a comparison hold. */
enum weft_store_relation {
  WEFT_STORE_EQUAL,     /**< the store's is equal */
  WEFT_STORE_GREATER,   /**< the store's is greater */
  WEFT_STORE_LESS,      /**< the store's is less */
  WEFT_STORE_NOT_EQUAL, /**< the store's is different */
};

/** One condition of a transaction. */
struct weft_store_compare {
  const char *key;                   /**< NUL-terminated, not empty */
  enum weft_store_target target;     /**< the part of the key's state to compare */
  enum weft_store_relation relation; /**< the relation that has to hold */
  int64_t number;                    /**< for CREATE, MOD and VERSION */
  const void *value;                 /**< for VALUE */
  size_t value_len;                  /**< bytes of value */
};

/** Kind of an operation of a transaction. */
enum weft_store_op_kind {
  WEFT_STORE_PUT,    /**< create or overwrite a key */
  WEFT_STORE_DELETE, /**< delete a key, or all keys with a prefix */
  WEFT_STORE_RANGE,  /**< read a key, or all keys with a prefix */
};

/** Bits of weft_store_op.flags. */
enum weft_store_op_flag {
  WEFT_STORE_OP_PREFIX = 1, /**< DELETE, RANGE: every key that starts with `key` ("": all keys) */
};

/** One operation of a branch of a transaction. As in etcd, a branch may put a key only once, and may not both put and
 *  delete it (INVALID). */
struct weft_store_op {
  enum weft_store_op_kind kind; /**< what the operation does */
  uint32_t flags;               /**< of enum weft_store_op_flag; 0 for a PUT */
  const char *key;              /**< NUL-terminated; empty only as a prefix */
  const void *value;            /**< PUT: the new value; NULL: an empty one */
  size_t value_len;             /**< bytes of value */
  int64_t lease;                /**< PUT: lease to attach the key to, 0: none */
  uint32_t limit;               /**< RANGE: at most so many keys, 0: all */
  uint32_t reserved;            /**< 0 */
};

/** A transaction: its conditions, and the operations of its two branches. At most 128 of each. Initialise with
 *  WEFT_STORE_TXN_INIT. The library reads the memory of all pointers until weft_store_txn_commit() has returned. */
struct weft_store_txn {
  size_t size;                               /**< sizeof(struct weft_store_txn) */
  size_t each_compare;                       /**< sizeof(struct weft_store_compare), the distance between two
                                                  comparisons */
  size_t each_op;                            /**< sizeof(struct weft_store_op), the distance between two operations */
  const struct weft_store_compare *compares; /**< [num_compares] the success branch runs if all of them hold */
  size_t num_compares;                       /**< entries of compares; if there are none, the success branch runs */
  const struct weft_store_op *success;       /**< operations to run if all comparisons hold */
  size_t num_success;                        /**< number of them */
  const struct weft_store_op *failure;       /**< operations to run if a comparison does not hold */
  size_t num_failure;                        /**< number of them */
};
/** Initial value of a transaction without comparisons and operations: the three sizes, and 0. */
#ifdef __cplusplus
#define WEFT_STORE_TXN_INIT (weft_initial_store_txn())
#else
#define WEFT_STORE_TXN_INIT                                                                                            \
  ((struct weft_store_txn){.size = sizeof(struct weft_store_txn),                                                      \
                           .each_compare = sizeof(struct weft_store_compare),                                          \
                           .each_op = sizeof(struct weft_store_op)})
#endif

/** Writes the initial value of a transaction, for languages without macros; `size` is the caller's sizeof. each_compare
 *  and each_op become 0: a caller that has comparisons or operations sets them to its own sizes. Cannot fail. [any] */
WEFT_API void weft_store_txn_init(struct weft_store_txn *txn, size_t size);

/** Result of a transaction. Free it with weft_store_txn_result_free(). */
struct weft_store_txn_result {
  size_t num_responses;            /**< operations of the branch that ran */
  struct weft_store_list **ranges; /**< [num_responses]: the answers of RANGE operations, NULL for others. To keep an
                                        answer, set its entry to NULL and later free it with weft_store_list_free() */
  size_t *deleted;                 /**< [num_responses]: number of keys that a DELETE removed, 0 for others */
  int64_t revision;                /**< revision of the store after the transaction */
  uint32_t succeeded;              /**< 1: the success branch ran; 0: the other */
  uint32_t reserved;               /**< 0 */
};

/**
 * Opens a client of the server at `options->endpoints`. It sends no request and does not block: the first call with
 * `*store` reports an unreachable server. The caller closes `*store` with weft_store_close(). INVALID: an option is
 * malformed, a file cannot be read, or options exclude each other. VERSION: a field is set that this version of the
 * library does not know. [any]
 */
WEFT_API int weft_store_open(weft_store_t **store, const struct weft_store_options *options);

/** Opens an empty store inside this process, with a thread of its own. weft_store_close() ends it and deletes all its
 *  keys. LIMIT: no more threads. [any] */
WEFT_API int weft_store_open_local(weft_store_t **store);

/** Ends the watches of the store, waits for a watch function that is running, and frees the handle. The handles of the
 *  watches exist until weft_store_watch_close(). Keys and leases on a server remain. Cannot fail; NULL is legal. Do not
 *  call it from a watch function, or while another call uses the store. [owner] */
WEFT_API void weft_store_close(weft_store_t *store);

/** The endpoint in use, e.g. "http://127.0.0.1:2379"; "local" for a store inside this process. Valid until
 *  weft_store_close(). Does not block and cannot fail: "" for NULL. [any] */
WEFT_API const char *weft_store_name(const weft_store_t *store);

/** Writes the server's version, e.g. "3.4.23" or "weft 0.1.0", NUL-terminated into text[cap], as a whole or not at all.
 *  `*size` (may be NULL) is the number of bytes that it needs, including the NUL, also after ROOM: `cap` is too small,
 *  but not 0. With `cap` 0 the call only reports the size; `text` may be NULL then. [any] */
WEFT_API int weft_store_version(weft_store_t *store, char *text, size_t cap, size_t *size);

/**
 * Reads `key` or, with `prefix`, every key that starts with it ("": all keys), in their present state, at most `limit`
 * of them (0: all). If there is no such key, the list is empty; this is no error. The caller frees `*out` with
 * weft_store_list_free(). LIMIT: an embedded server or a store inside this process refuses an answer of more than 64
 * MiB. [any]
 */
WEFT_API int weft_store_range(weft_store_t *store, const char *key, bool prefix, uint32_t limit,
                              struct weft_store_list **out);
/** Frees a list and its keys, also after its store was closed. Cannot fail; NULL is legal. [any] */
WEFT_API void weft_store_list_free(struct weft_store_list *list);

/**
 * Puts `value_len` bytes of `value` under `key` and attaches the key to `lease` (0: to none, also if it was attached to
 * one before). `*revision` (may be NULL) is the revision of the store after the put. NOT_FOUND: there is no such lease.
 * LIMIT: key and value have more than 1.5 MiB, or the store is full. TIMEOUT, UNREACHABLE: the put may or may not have
 * happened, as with every modifying call; the library never sends such a request a second time. [any]
 */
WEFT_API int weft_store_put(weft_store_t *store, const char *key, const void *value, size_t value_len, int64_t lease,
                            int64_t *revision);

/** Deletes `key` or, with `prefix`, every key that starts with it ("": all keys). `*deleted` (may be NULL) is the
 *  number of deleted keys; deleting nothing is no error. TIMEOUT, UNREACHABLE: as with weft_store_put(). [any] */
WEFT_API int weft_store_delete(weft_store_t *store, const char *key, bool prefix, size_t *deleted);

/**
 * Runs a transaction: one of its branches, as a whole or not at all, at one revision. A comparison that does not hold
 * is no error: see `(*out)->succeeded`. The caller frees `*out` with weft_store_txn_result_free(). NOT_FOUND: a PUT
 * names a lease that does not exist. INVALID: see struct weft_store_op; or each_compare or each_op is not the size of
 * that struct in any version. VERSION: a field is set that this version of the library does not know. LIMIT: more than
 * 128 entries in a list, or more than 1.5 MiB of keys and values. TIMEOUT, UNREACHABLE: the transaction may or may not
 * have run: read the keys before you try again. [any]
 */
WEFT_API int weft_store_txn_commit(weft_store_t *store, const struct weft_store_txn *txn,
                                   struct weft_store_txn_result **out);
/** Frees a result and its lists, also after its store was closed. Cannot fail; NULL is legal. [any] */
WEFT_API void weft_store_txn_result_free(struct weft_store_txn_result *result);

/** Grants a lease of `ttl_s` seconds, at least 1. `*lease` is its id, never 0; `*granted_s` (may be NULL) is the
 *  granted time in seconds, which may be longer. The owner renews it with weft_store_lease_keepalive(); the library
 *  does not. INVALID: `ttl_s` is too small or too large. LIMIT: the embedded server holds 65,536 leases already.
 *  [any] */
WEFT_API int weft_store_lease_grant(weft_store_t *store, int64_t ttl_s, int64_t *lease, int64_t *granted_s);

/** Renews a lease once, to its full time: `*ttl_s` (may be NULL) seconds. NOT_FOUND: it has ended, and every key
 *  attached to it is deleted. [any] */
WEFT_API int weft_store_lease_keepalive(weft_store_t *store, int64_t lease, int64_t *ttl_s);

/** `*ttl_s` is how many seconds the lease has left. NOT_FOUND: it has ended. [any] */
WEFT_API int weft_store_lease_ttl(weft_store_t *store, int64_t lease, int64_t *ttl_s);

/** Ends a lease and deletes the keys attached to it. NOT_FOUND: there is no such lease. TIMEOUT, UNREACHABLE: as
 *  weft_store_put(). [any] */
WEFT_API int weft_store_lease_revoke(weft_store_t *store, int64_t lease);

/** Kind of an event of a watch. */
enum weft_store_event_kind {
  WEFT_STORE_EVENT_PUT,     /**< a key was put: kv is its new state */
  WEFT_STORE_EVENT_DELETE,  /**< a key was deleted: kv->key and kv->mod_revision (that of the deletion) are set */
  WEFT_STORE_EVENT_LOST,    /**< the connection is lost; the watch reconnects by itself and loses no event */
  WEFT_STORE_EVENT_RESUMED, /**< the watch is established: once after it was opened, and after each LOST */
  /** As RESUMED, but events may be missing: the store was restarted empty, it no longer has the revision that the watch
   *  had reached (compacted), or one message had more than 16 MiB. The watch continues with new changes: read
   *  everything again. A store that was restarted empty looks like the old one if it has the same cluster id and has
   *  reached the watch's revision again. To detect this, ask after RESUMED for a lease that only the old store had. */
  WEFT_STORE_EVENT_RESET,
};

/** One event of a watch. Its memory is valid until the watch function returns. */
struct weft_store_event {
  enum weft_store_event_kind kind; /**< what happened */
  uint32_t reserved;               /**< 0 */
  const struct weft_store_kv *kv;  /**< PUT and DELETE: the key; else NULL */
  int64_t revision;                /**< PUT and DELETE: revision of the change; else a revision that the store has
                                        reached */
};

/** Receives the events of a watch in the order of their revisions. `arg` is the argument of weft_store_watch_open().
 *  [callback] on a thread of the store: return soon, because the other watches of the store wait meanwhile. Do not call
 *  a function of this store that sends a request to the server or closes a handle. */
typedef void (*weft_store_watch_fn)(void *arg, const struct weft_store_event *event);

/**
 * Watches every key that starts with `prefix` ("": all keys) from revision `from` on, inclusive. 0: the watch reports
 * what changes after this call has returned. To miss nothing, read with weft_store_range() and watch from the list's
 * `revision + 1`. A later revision than that comes from another store: the watch begins with RESET, and continues with
 * new changes.
 *
 * The watch ends with its store or with weft_store_watch_close(). In both cases weft_store_watch_close() has to free
 * it. `fn` may be called before this call returns. With `from` 0 the call blocks until the watch is established, at
 * most for request_timeout_ms, and returns the reason if it is not (TIMEOUT, UNREACHABLE, AUTH, ...). With another
 * `from` the call does not wait for the server: the library tries to reach the store until the watch is closed, and
 * RESUMED or RESET reports that the watch is established. [any]
 */
WEFT_API int weft_store_watch_open(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn,
                                   void *arg, weft_store_watch_t **watch);

/** Ends a watch and frees its handle. Call it before its store is closed or afterwards, but not while it is being
 *  closed. It waits until a running call of the watch function has returned; afterwards none runs. Cannot fail; NULL is
 *  legal. Do not call it from the watch function of the same watch. [any] */
WEFT_API void weft_store_watch_close(weft_store_watch_t *watch);

/** Bits of weft_store_server_options.flags. */
enum weft_store_server_flag {
  WEFT_STORE_SERVER_INSECURE = 1, /**< no token and no TLS: every process that can connect to the address may do
                                       everything. Only for a loopback address, and without token, cert_file and
                                       key_file */
};

/**
 * How to run an embedded server. Initialise with WEFT_STORE_SERVER_OPTIONS_INIT; a field that is 0 or NULL has its
 * default. The library copies all strings.
 *
 * The server uses HTTPS. A client with its token may do everything: read, write and delete all keys, and end the leases
 * of other clients. Without the token a client can only get the server's version.
 *
 * By default the server's certificate is derived from the token, so clients with the token need no CA (struct
 * weft_store_options). With `cert_file` and `key_file` the server uses that certificate, and clients have to name the
 * CA that signed it.
 */
struct weft_store_server_options {
  size_t size;           /**< sizeof(struct weft_store_server_options) */
  const char *address;   /**< numeric address to bind to, a link-local one with its interface ("fe80::1%eth0"); default
                              "127.0.0.1" */
  const char *token;     /**< clients must send "Authorization: Bearer TOKEN" (etcd's bare "TOKEN" too). Printable ASCII
                              without blanks, at most 4,095 bytes. Default: a random token, see
                              weft_store_server_token() */
  const char *cert_file; /**< the server's certificate, or a chain of them (PEM), together with key_file */
  const char *key_file;  /**< its key (PEM) */
  uint32_t flags;        /**< of enum weft_store_server_flag */
  uint16_t port;         /**< 0: any free port, see weft_store_server_url() */
  uint16_t reserved;     /**< 0 */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_STORE_SERVER_OPTIONS_INIT WEFT_SIZED(struct weft_store_server_options)

/** Writes the same initial value, for languages without macros; `size` is the caller's sizeof. Cannot fail. [any] */
WEFT_API void weft_store_server_options_init(struct weft_store_server_options *options, size_t size);

/**
 * Starts a server with its own threads. The server keeps its keys in memory. The caller stops `*server` with
 * weft_store_server_stop(). BUSY: the port is in use. INVALID: INSECURE together with an address that other hosts can
 * reach, an address that this host does not have, a malformed token, or files that do not hold a certificate and its
 * key. VERSION: a field is set that this version of the library does not know. UNSUPPORTED: libmicrohttpd is missing,
 * or has no TLS. LIMIT: no more threads or descriptors. [any]
 */
WEFT_API int weft_store_server_start(weft_store_server_t **server, const struct weft_store_server_options *options);

/** The server's URL, e.g. "https://127.0.0.1:40123". Valid until weft_store_server_stop(). Cannot fail: "" for NULL.
 *  [any] */
WEFT_API const char *weft_store_server_url(const weft_store_server_t *server);

/** The server's token, from the options or random; "" if the server is insecure. The token gives all rights: pass it on
 *  through a descriptor or a file of mode 0600, not as an argument of a program. Valid until weft_store_server_stop().
 *  Cannot fail: "" for NULL. [any] */
WEFT_API const char *weft_store_server_token(const weft_store_server_t *server);

/** Stops the server and frees its handle: closes every connection, deletes all keys, and waits for the server's
 *  threads. Cannot fail; NULL is legal. No other call may use the server meanwhile. [owner] */
WEFT_API void weft_store_server_stop(weft_store_server_t *server);

#ifdef __cplusplus
}
namespace {
inline weft_store_txn weft_initial_store_txn() {
  weft_store_txn txn = weft_sized<weft_store_txn>();
  txn.each_compare = sizeof(weft_store_compare);
  txn.each_op = sizeof(weft_store_op);
  return txn;
}
} // namespace
#endif
#endif
