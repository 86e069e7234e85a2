/**
 * @file err.h
 * @brief Error codes of libweft: one table gives the code, its name, scope, exit status and text.
 *
 * Every function of libweft that can fail returns an int. If the call has failed, the int is negative: an
 * `enum weft_err`. Otherwise it is 0, or 1 if the text of the function gives 1 a meaning, such as "not yet" or "there
 * is one". A call that has failed has written no outputs except those that its text names, such as the size that
 * belongs to ROOM. A failure also leaves a sentence for the calling thread: what was wrong, where, and what would be
 * right (weft_last_error()). If an `open`, `create` or `start` fails, there is no handle to close.
 *
 * ROOM means that the caller's buffer is too small; LIMIT means that a limit of this library or of the system is
 * reached.
 *
 * The smallest example:
 *
 *     int err = weft_store_open(&store, &options);
 *     if (err)
 *       fprintf(stderr, "%s: %s\n", weft_strerror(err), weft_last_error());
 *
 * **Threads.** Every function here is [any]: any thread may call it at any time, and it does not block.
 */
#ifndef WEFT_ERR_H
#define WEFT_ERR_H

#include <stddef.h>
#include <stdint.h>

/**
 * The *_INIT macros of structs that start with `size` are made with this: all is zero except the size. The result can
 * initialise a struct or be assigned to one. In C++ the function has internal linkage: two libraries of one process
 * that were built with different headers each have their own.
 */
#ifdef __cplusplus
namespace {
template <typename T> inline T weft_sized() {
  T value = T();
  value.size = sizeof value;
  return value;
}
} // namespace
#define WEFT_SIZED(type) (weft_sized<type>())
#else
#define WEFT_SIZED(type) ((type){.size = sizeof(type)})
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
/** Marks the functions that libweft exports. */
#define WEFT_API
#endif

/** As an argument `timeout_ms`: no deadline. */
#define WEFT_WAIT_FOREVER UINT32_MAX

/** The scope of a failure, which tells a caller what it can do. */
enum weft_scope {
  WEFT_SCOPE_NONE = 0,      /**< not a failure */
  WEFT_SCOPE_REQUEST = 1,   /**< this call: correct it, or try again */
  WEFT_SCOPE_PEER = 2,      /**< one peer: mask it and go on */
  WEFT_SCOPE_TRANSPORT = 3, /**< a path or a service: select another, or wait */
  WEFT_SCOPE_SELF = 4,      /**< this rank: leave, then join again as a new incarnation */
};

/**
 * The error table: X(name, value, scope, exit status of the tool, text).
 * Values are part of the ABI: never renumber, only append.
 */
#define WEFT_ERR_MAP(X)                                                                                                \
  X(INVALID, -1, REQUEST, 2, "invalid argument")                                                                       \
  X(NOMEM, -2, SELF, 3, "out of memory")                                                                               \
  X(SYSTEM, -3, SELF, 3, "operating system error")                                                                     \
  X(UNSUPPORTED, -4, REQUEST, 3, "not supported here")                                                                 \
  X(TIMEOUT, -5, REQUEST, 124, "deadline passed")                                                                      \
  X(PEER_LOST, -6, PEER, 5, "peer lost")                                                                               \
  X(FENCED, -7, SELF, 5, "this rank is outside the view")                                                              \
  X(NOT_CONNECTED, -8, REQUEST, 1, "not connected")                                                                    \
  X(BUSY, -9, REQUEST, 3, "in use")                                                                                    \
  X(EXISTS, -10, REQUEST, 1, "already exists")                                                                         \
  X(NOT_FOUND, -11, REQUEST, 1, "not found")                                                                           \
  X(CONFLICT, -12, REQUEST, 1, "changed by somebody else")                                                             \
  X(UNREACHABLE, -13, TRANSPORT, 3, "unreachable")                                                                     \
  X(AUTH, -14, TRANSPORT, 3, "not authorised")                                                                         \
  X(PROTOCOL, -15, TRANSPORT, 1, "malformed message")                                                                  \
  X(VERSION, -16, TRANSPORT, 3, "incompatible version or configuration")                                               \
  X(CANCELED, -17, REQUEST, 1, "cancelled")                                                                            \
  X(CLOSED, -18, REQUEST, 1, "closed")                                                                                 \
  X(DATA, -19, REQUEST, 4, "wrong data")                                                                               \
  X(LIMIT, -20, REQUEST, 3, "a limit is reached")                                                                      \
  X(COMPACTED, -21, TRANSPORT, 1, "the requested revision is gone")                                                    \
  X(ROOM, -22, REQUEST, 3, "the caller's buffer is too small")

/** Error codes: `WEFT_OK` or one of `WEFT_ERR_MAP`, e.g. `WEFT_ERR_TIMEOUT`. The texts of functions omit the prefix
 *  `WEFT_ERR_`. */
enum weft_err {
  WEFT_OK = 0, /**< success */
/** Makes one enumerator of a row of WEFT_ERR_MAP; defined only here. */
#define WEFT_ERR_ENUM(name, value, scope, exit_status, text) WEFT_ERR_##name = value,
  WEFT_ERR_MAP(WEFT_ERR_ENUM)
#undef WEFT_ERR_ENUM
};

/** Short text of a code, e.g. "deadline passed"; "success" for 0, "unknown error" for any other number. The text stays
 *  valid. [any] */
WEFT_API const char *weft_strerror(int err);

/** Name of a code without its prefix, e.g. "TIMEOUT"; "OK" for 0, "UNKNOWN" for any other number. The text stays valid.
 *  [any] */
WEFT_API const char *weft_err_name(int err);

/** Scope of a code; NONE for 0 and for a number that is no code. [any] */
WEFT_API enum weft_scope weft_err_scope(int err);

/** Exit status of the tool `weft` for a code: 0 success, 1 failure (also for a number that is no code), 2 wrong usage,
 *  3 a problem of the host or the environment, 4 wrong data, 5 a lost peer, 124 a deadline that passed. Cannot fail.
 *  [any] */
WEFT_API int weft_err_exit_status(int err);

/** Describes the calling thread's last failure in at most 1,023 bytes; "" if the thread has had none. Use it only after
 *  a call has failed: after a call that succeeded the sentence may be of an earlier failure, or of one inside the
 *  library from which it recovered. Valid until the thread's next libweft call. [any] */
WEFT_API const char *weft_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
