// The buffers that an operation is received into, checked once for many operations.
#pragma once

#include <vector>

#include "ep/rank.h"

// One array of a receive.
struct ReceiveArray {
  const char *name;
  nb::object source; // as Python gave it
  Buffer buffer;     // where it lay when it was looked at last
  void **address;    // in the arguments of the receive
};

struct Receive {
  Receive() = default;
  Receive(const Receive &) = delete;
  weft_ep_recv_args args = WEFT_EP_RECV_ARGS_INIT;
  std::vector<ReceiveArray> arrays; // the first `fixed` stay; then expert_total and wait_ns, which a call may replace
  size_t fixed = 0;
  int dtype = 0;
  bool cuda = false, in_place = false;
  uint32_t row_bytes = 0, scale_items = 0; // of the rows that it has room for
  uint32_t max_topk = UINT32_MAX;          // that local_expert, weights and slot have room for
  uint64_t rows = 0;                       // in all parts together
  uint32_t capacity = 0, experts = 0, hidden = 0;
  int calls = 0; // under way, that receive into it; read and written with the GIL
};

// A call that receives into it: until its end the arrays stay what they are.
class Receiving {
public:
  explicit Receiving(Receive &into) : into_(into) { into_.calls++; }
  ~Receiving() { into_.calls--; }
  Receiving(const Receiving &) = delete;

private:
  Receive &into_;
};

// The bytes of a row of `dtype`, and the numbers of 4 bytes of its scales. 0 for OPAQUE: the call says them.
uint32_t row_bytes_of(int dtype, uint32_t hidden);
uint32_t scale_items_of(int dtype, uint32_t hidden);

// What an array has to be.
struct Wanted {
  const char *name;
  uint32_t item;     // bytes of an element
  bool real;         // f32 (else an integer, or bf16 and fp8 as what a framework calls them)
  uint64_t elements; // at least
  bool written;
};

// Whether its elements are what takes an integer, or bits of a type that frameworks may lack: of 1 or 2 bytes.
bool is_whole(const Buffer &array);
// Looks at `source`, whose elements lie one after the other. Raises TypeError or InvalidError.
Buffer array_of(nb::handle source, const Wanted &wanted, bool cuda);
// The same, kept in `kept`; its address, NULL for None.
void *take_array(nb::handle source, const Wanted &wanted, bool cuda, std::vector<Buffer> &kept);
void check_array(const Buffer &array, const Wanted &wanted, bool cuda);

// The Receive of what Rank.receive() of the package made, which has it in `_handle`. Raises TypeError.
nb::object receive_of(nb::handle source);
