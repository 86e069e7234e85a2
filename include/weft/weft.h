/**
 * @file weft.h
 * @brief All of libweft: errors, store, elastic expert parallelism, transfers.
 */
/**
 * @mainpage Weft
 *
 * libweft moves the traffic of Mixture-of-Experts models between ranks that join, leave and die. A program includes
 * weft/weft.h, or one of its parts:
 *
 * | header | contents |
 * |---|---|
 * | ep.h | elastic expert parallelism: groups of ranks, dispatch and combine |
 * | agent.h | transfers: registered memory, peers, one-sided reads and writes, notifications |
 * | store.h | the key-value store on which groups meet: leases, transactions, watches |
 * | err.h | error codes, which every function returns, and their texts |
 *
 * Each function says which thread may call it: [any] any thread at any time; [owner] one thread at a time for each
 * handle; [callback] the library calls it, from the thread that the text names.
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

/** Version of the library in use, e.g. "0.1.0". [any] */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
