// The buffers that an operation is received into, checked once for many operations.
#pragma once

#include <vector>

#include "ep/rank.h"

// One array of a receive.
struct ReceiveArray {
  const char *name;
  nb::object source; // the Python object
  Buffer buffer;     // its memory at the last look-up
  void **address;    // in the arguments of the receive
};

struct Receive {
  Receive() = default;
  Receive(const Receive &) = delete;
  weft_ep_recv_args args = WEFT_EP_RECV_ARGS_INIT;
  std::vector<ReceiveArray> arrays; // `fixed` ones, then expert_total and wait_ns, which a call may replace
  size_t fixed = 0;
  int dtype = 0;
  bool cuda = false, in_place = false;
  uint32_t row_bytes = 0, scale_items = 0; // of the rows that it has room for
  uint32_t max_topk = UINT32_MAX;          // for which local_expert, weights and slot have room
  uint64_t rows = 0;                       // in all parts together
  uint32_t capacity = 0, experts = 0, hidden = 0;
  int calls = 0; // calls in progress that receive into it or renew it; read and written with the GIL
};

// A call that receives into it: the arrays must not change until it ends.
class Receiving {
public:
  explicit Receiving(Receive &into) : into_(into) { into_.calls++; }
  ~Receiving() { into_.calls--; }
  Receiving(const Receiving &) = delete;

private:
  Receive &into_;
};

// The bytes of a row of `dtype`, and the number of 4-byte values of its scales. 0 for OPAQUE: the call gives them.
uint32_t row_bytes_of(int dtype, uint32_t hidden);
uint32_t scale_items_of(int dtype, uint32_t hidden);

// The required form of an array.
struct Wanted {
  const char *name;
  uint32_t item;     // bytes of an element
  bool real;         // f32 (else an integer, or bf16 and fp8 in the types of a framework)
  uint64_t elements; // at least
  bool written;
};

// Whether its elements are integers, or the bits of a type that frameworks may lack: of 1 or 2 bytes.
bool is_whole(const Buffer &array);
// Looks up the memory of `source`, which has to be contiguous. Raises TypeError or InvalidError.
Buffer array_of(nb::handle source, const Wanted &wanted, bool cuda);
// The same, and keeps the array in `kept`; returns its address, NULL for None.
void *take_array(nb::handle source, const Wanted &wanted, bool cuda, std::vector<Buffer> &kept);
void check_array(const Buffer &array, const Wanted &wanted, bool cuda);

// The Receive in `_handle` of an object that Rank.receive() of the package made. Raises TypeError.
nb::object receive_of(nb::handle source);
