// The store: its handle, which agents and ranks keep open.
#pragma once

#include <memory>
#include <nanobind/nanobind.h>

#include "core/gate.h"
#include "core/gil.h"
#include <weft/weft.h>

namespace nb = nanobind;

struct StoreState : Gate {
  StoreState() : Gate("the store") {}
  ~StoreState() { weft_store_close(store); }
  weft_store_t *store = nullptr;
  bool local = false; // answers at once, on the caller's thread
};

// A client of a store. After close() it stays open for the agents, ranks and watches that were opened with it.
class Store {
public:
  explicit Store(std::shared_ptr<StoreState> state) : state(std::move(state)) {}
  ~Store() {
    WithoutGil release;
    state.reset();
  }
  std::shared_ptr<StoreState> state;
};

void bind_store(nb::module_ &m);
void bind_watch(nb::module_ &m);
void bind_server(nb::module_ &m);
