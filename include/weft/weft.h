/**
 * @file weft.h
 * @brief All of libweft: errors, store, elastic expert parallelism, transfers.
 *
 * Include this header, or one of those that it includes. Its own part is the version. **Threads.** weft_version() is
 * [any].
 */
/**
 * @mainpage Weft
 *
 * libweft moves the traffic of Mixture-of-Experts models between ranks that join, leave and die. A program includes
 * weft/weft.h, or one of its parts:
 *
 * | header | contents | a whole program |
 * |---|---|---|
 * | ep.h | elastic expert parallelism: groups of ranks, dispatch and combine | examples/ep_rank |
 * | agent.h | transfers: registered memory, peers, one-sided reads and writes, notifications | examples/transfer |
 * | store.h | the key-value store on which groups agree: leases, transactions, watches | examples/store_client |
 * | err.h | error codes, which every function returns, and their texts | |
 *
 * These rules hold for all functions; the head of each header adds its own.
 *
 * - *Errors.* A function returns 0 or a negative `enum weft_err` and then writes no output; weft_last_error() has the
 *   sentence. An argument that must not be NULL and is gives INVALID, if the function returns an error at all.
 * - *Structs.* One that begins with `size` is initialised with its *_INIT macro. In options 0 or NULL means the
 *   default.
 * - *Ownership.* Buffers are the caller's, handles are the library's. What the caller has to free or close says so.
 * - *Threads.* [any]: any thread may call it at any time. [owner]: one thread at a time for each handle. [callback]:
 *   the library calls it, on the thread that the text names. No other call may use a handle while it is closed, or
 *   later.
 * - *Signals.* Threads of the library have every signal blocked: signals are the program's. The library installs no
 *   handler, and no call of it raises SIGPIPE.
 * - *Time.* Times are in the unit that their name ends in (_ms, _us, _ns, _s). A call that waits has a deadline. A
 *   `timeout_ms` of 0 does not wait.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <weft/agent.h>
#include <weft/ep.h>
#include <weft/err.h>
#include <weft/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Major version of these headers. */
#define WEFT_VERSION_MAJOR 0
/** Minor version of these headers. */
#define WEFT_VERSION_MINOR 1
/** Patch version of these headers. */
#define WEFT_VERSION_PATCH 0

/** Version of the library in use, e.g. "0.1.0"; the macros above are that of the headers. Valid for ever. [any] */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
