// The extension weft._weft: the calls of libweft for the package weft, which gives them their names and types.
#include <exception>
#include <nanobind/nanobind.h>
#include <typeinfo>

#include "agent/agent.h"
#include "core/buffer.h"
#include "core/gate.h"
#include "core/gil.h"
#include "core/owners.h"
#include "core/wait.h"
#include "ep/rank.h"
#include "store/store.h"

// [(name, code, scope, text)] of all errors.
static nb::list error_table() {
  nb::list table;
#define ROW(name, value, scope, exit_status, text)                                                                     \
  table.append(nb::make_tuple(#name, value, (int)WEFT_SCOPE_##scope, text));
  WEFT_ERR_MAP(ROW)
#undef ROW
  return table;
}

NB_MODULE(_weft, m) {
  fork_count();
  nb::set_leak_warnings(false); // objects that daemon threads hold when the process ends are no error
  nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
    if (!thrown)
      stay_for_ever(); // pthread_exit() in code of Python that a call has run
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_cast &) { // an entry of a list or a tuple
      PyErr_SetString(PyExc_TypeError, "a value of another type is wanted: see the text of the call");
    }
  });
  m.def("version", &weft_version);
  m.def("error_table", &error_table, nb::sig("def error_table() -> list[tuple[str, int, int, str]]"));
  m.def("set_main_thread", &set_main_thread, nb::arg("ident"));
  m.def("end_openings", &end_openings);
  bind_buffer(m);
  bind_owners(m);
  bind_store(m);
  bind_watch(m);
  bind_server(m);
  bind_agent(m);
  bind_rank(m);
}
