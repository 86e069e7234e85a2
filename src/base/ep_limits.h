// The limits of groups of elastic expert parallelism in this library. Programs ask for them with weft_ep_get_limits().
#ifndef BASE_EP_LIMITS_H
#define BASE_EP_LIMITS_H

enum {
  EP_MAX_TOKENS = 1024,             // tokens per rank and operation, for latency
  EP_MAX_TOKENS_THROUGHPUT = 32768, // the same for throughput
  EP_MAX_PIECES = 1023,             // pieces of an operation's rows to one peer
  EP_MIN_PROCESSORS = 8,            // least number of GPU processors of a kernel for throughput
  EP_PROCESSORS = 24,               // their number if the call does not set it
  EP_MAX_HIDDEN = 16384,            // hidden, a multiple of WEFT_EP_BLOCK
  EP_MAX_TOPK = 16,                 // experts that a token selects
  EP_MAX_EXPERTS = 256,             // experts per rank
  EP_MAX_SCALES = 512,              // bytes of a row's scales, on CUDA memory: enough for EP_MAX_HIDDEN
  EP_MAX_CAPACITY = 4096,           // rank indices of a group
  EP_MAX_ALIGNMENT = 256,           // rows to whose multiples the part of an expert is aligned (PACKED)
  EP_DEPTH = 2,                     // operations that may be open at once
  EP_MAX_COMBINES = 4096,           // combines of one operation
};

#endif
