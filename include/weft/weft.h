/**
 * @file weft.h
 * @brief All of libweft: errors, store, elastic expert parallelism, transfers.
 *
 * Include this header, or one of those that it includes. It declares only the version itself. **Threads.** Both
 * functions are [any].
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
 * - *Errors.* A function that can fail returns an int. If the int is negative, it is an `enum weft_err` and the call
 *   has failed: it has written no outputs except those that its text names, and weft_last_error() returns a sentence
 *   that explains the failure. Otherwise the int is 0, or 1 if the text gives 1 a meaning, such as "not yet" or "there
 *   is one". A function that returns another type cannot fail. If an argument is NULL that must not be NULL, the call
 *   returns INVALID, provided that the function can fail.
 * - *Structs.* A struct that begins with `size` is initialised with its *_INIT macro. Languages without macros call its
 *   *_init() function, from any thread. In options 0 or NULL means the default. Later versions add fields only at the
 *   end. A program that was built with older headers continues to work: the fields that it does not have count as 0. A
 *   program that was built with newer headers works as long as the fields that this library does not know are 0;
 *   otherwise the call is refused with VERSION, and the sentence names the byte. Outputs are written as far as the
 *   caller's size reaches. Bits of `flags` that are not defined, and fields named `reserved`, have to be 0 (INVALID).
 * - *Counts.* A call that writes a list takes the room as `cap`, writes the first `cap` entries, and sets `*count` to
 *   the number of entries that exist. More entries than `cap` are no error. An output that is not a list (a blob, a
 *   text) is written as a whole or not at all. `*size` is then the number of bytes that it needs, also if the call
 *   fails with ROOM because `cap` is too small. With `cap` 0 the call only reports the size, and that is no error.
 * - *Ownership.* The caller owns buffers, the library owns handles. Texts of functions say what the caller has to free
 *   or close.
 * - *Threads.* [any]: any thread may call the function at any time. [owner]: one thread at a time may call it for each
 *   handle; [transfer] and [list] mean the same for each transfer, and for each list. [callback]: the library calls the
 *   function, on the thread that its text names. No other call may use a handle while it is being closed, or later.
 * - *Signals.* The library's threads block every signal, so that signals reach the program's own threads. The library
 *   installs no signal handler, and none of its calls raises SIGPIPE.
 * - *Time.* The ending of a time's name is its unit (_ms, _us, _ns, _s). A call that waits has a deadline. As an
 *   argument, `timeout_ms` 0 checks once without waiting, and WEFT_WAIT_FOREVER waits without a deadline; in options 0
 *   means the default.
 * - *Fork.* In a forked child that has not called exec() the library's threads do not exist. Calls with handles that
 *   were opened before the fork return CLOSED there; closing or freeing such a handle only frees memory.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stdint.h>
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

/** Version of these headers as one number, major * 1,000,000 + minor * 1,000 + patch: later versions are larger. */
#define WEFT_VERSION_NUMBER (WEFT_VERSION_MAJOR * 1000000 + WEFT_VERSION_MINOR * 1000 + WEFT_VERSION_PATCH)

/** Version of the library in use, e.g. "0.1.0"; the macros above are the version of the headers. The text stays valid.
 *  [any] */
WEFT_API const char *weft_version(void);

/** Version of the library in use as a number, computed like WEFT_VERSION_NUMBER. [any] */
WEFT_API uint32_t weft_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
