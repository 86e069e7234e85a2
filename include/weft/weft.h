/**
 * @file weft.h
 * @brief All of libweft: errors, store, elastic expert parallelism, transfers.
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

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

/** Version of the library in use, e.g. "0.1.0". [any] */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
