// The functions of the fake plug-in for copies between processes: a part of its table (fake_device.c).
#ifndef SUPPORT_FAKE_COPIES_H
#define SUPPORT_FAKE_COPIES_H

#include "device/device.h"

int fake_owner(const void *memory, int *index, char *why);
int fake_share(const void *memory, uint64_t size, bool window, struct device_share *share, char *why);
int fake_share_open(struct device *device, const struct device_share *share, int fd, void **memory, char *why);
void fake_share_close(struct device *device, const struct device_share *share, void *memory);
int fake_pin(void *memory, uint64_t size, char *why);
void fake_unpin(void *memory, uint64_t size);
int fake_copies_open(struct device *device, const struct device_copy *copies, uint32_t count,
                     struct device_copies **opened, char *why);
int fake_copies_run(struct device_copies *copies, void *stream, char *why);
int fake_copies_passed(struct device_copies *copies, bool *passed, char *why);
void fake_copies_close(struct device_copies *copies);
int fake_mark_open(struct device *device, void **mark, char *why);
void fake_mark_close(struct device *device, void *mark);
int fake_mark_set(struct device *device, void *mark, void *stream, char *why);
int fake_mark_elapsed(struct device *device, void *begin, void *end, uint64_t *ns, char *why);
int fake_stream_open(struct device *device, void **stream, char *why);
void fake_stream_close(struct device *device, void *stream);

#endif
