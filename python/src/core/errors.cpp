// Failures of libweft as exceptions of Python: the classes are those of weft/errors.py.
#include "core/errors.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

void raise_failure(const Failure &failure) {
  // A sentence may contain text of callers and peers, and may be cut off within a character.
  nb::object sentence =
      nb::steal(PyUnicode_DecodeUTF8(failure.sentence.data(), (Py_ssize_t)failure.sentence.size(), "backslashreplace"));
  if (!sentence.is_valid())
    throw nb::python_error();
  nb::object op = failure.has_op ? nb::object(nb::int_(failure.op)) : nb::none();
  nb::object made =
      nb::module_::import_("weft.errors").attr("make_error")(failure.code, sentence, op, failure.rows_needed);
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

void raise_code(int code, const std::string &sentence) {
  Failure failure;
  failure.code = code;
  failure.sentence = sentence;
  raise_failure(failure);
}
