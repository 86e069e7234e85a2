// Log lines on standard error: "weft[LEVEL] text". Level from WEFT_LOG (error, warn, info, debug); default warn.
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

// Writes one line without interleaving, even if other threads and processes share the descriptor.
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Overrides the environment.
void log_set_level(enum log_level level);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
