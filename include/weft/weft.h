/**
 * @file weft.h
 * @brief All of libweft: errors, store, elastic expert parallelism, transfers.
 *
 * Include this header, or one of those that it includes. Its own part is the version. **Threads.** Both functions are
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
 * - *Errors.* A function that can fail returns an int, negative where it has failed: an `enum weft_err`. Then it has
 *   written no output but those that its text names, and weft_last_error() has the sentence. Otherwise the int is 0, or
 *   1 where the text says what that means: of what a function asks for, "not yet" or "there is one". A function that
 *   returns something else cannot fail. An argument that must not be NULL and is gives INVALID, if the function can
 *   fail.
 * - *Structs.* One that begins with `size` is initialised with its *_INIT macro, or by its *_init() function from a
 *   language that has no macros; any thread may call that. In options 0 or NULL means the default. Later versions add
 * fields at the end only: a program that was built with older headers goes on working, the fields that it does not have
 * count as 0. A program that was built with newer headers works as long as the fields that this library does not know
 * are 0; else the call is refused with VERSION, and the sentence names the byte. Outputs are written as far as the
 * caller's size goes. Bits of `flags` that are not defined, and fields named `reserved`, have to be 0 (INVALID).
 * - *Counts.* A call that writes a list takes the room as `cap` and writes the number of entries that there are to
 *   `*count`, also when that is more: then the first `cap` entries are written. That is no error. What is no list (a
 *   blob, a text) is written whole or not at all. `*size` is the bytes that it takes, also where the call fails with
 *   ROOM, because `cap` is too small; `cap` 0 asks for them, and is no error.
 * - *Ownership.* Buffers are the caller's, handles are the library's. What the caller has to free or close says so.
 * - *Threads.* [any]: any thread may call it at any time. [owner]: one thread at a time for each handle; [transfer]
 *   and [list]: for each transfer, and for each list. [callback]: the library calls it, on the thread that the text
 *   names. No other call may use a handle while it is closed, or later.
 * - *Signals.* Threads of the library have every signal blocked: signals are the program's. The library installs no
 *   handler, and no call of it raises SIGPIPE.
 * - *Time.* Times are in the unit that their name ends in (_ms, _us, _ns, _s). A call that waits has a deadline. As an
 *   argument `timeout_ms` 0 looks once and does not wait, and WEFT_WAIT_FOREVER waits without a deadline; in options 0
 *   means the default.
 * - *Fork.* In a child that was forked and has not called exec() the library's threads do not exist. Handles that were
 *   opened before answer CLOSED there, and closing or freeing them frees memory and nothing else.
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

/** Version of the library in use, e.g. "0.1.0"; the macros above are that of the headers. Valid for ever. [any] */
WEFT_API const char *weft_version(void);

/** The same as a number that is made like WEFT_VERSION_NUMBER. [any] */
WEFT_API uint32_t weft_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
