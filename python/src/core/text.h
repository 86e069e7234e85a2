// Strings between Python and C.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <optional>
#include <string>

namespace nb = nanobind;

// Strings of C end at a NUL, so a NUL inside is refused. `name` is the argument's name in the sentence.
inline std::string c_text(const std::string &text, const char *name) {
  if (text.find('\0') != std::string::npos)
    throw nb::value_error((std::string(name) + " has a NUL in it").c_str());
  return text;
}

// A str as UTF-8.
inline std::string must_be_text(nb::handle source, const char *name) {
  if (!PyUnicode_Check(source.ptr()))
    throw nb::type_error((std::string(name) + ": a str is wanted").c_str());
  Py_ssize_t size = 0;
  const char *utf8 = PyUnicode_AsUTF8AndSize(source.ptr(), &size);
  if (!utf8) {
    PyErr_Clear();
    throw nb::value_error((std::string(name) + " has a surrogate in it, which UTF-8 has not").c_str());
  }
  return c_text(std::string(utf8, (size_t)size), name);
}

// A str or None, which is NULL in C, and lives as long as this.
class MaybeText {
public:
  MaybeText(nb::handle source, const char *name) {
    if (!source.is_none())
      text_ = must_be_text(source, name);
  }
  const char *get() const { return text_ ? text_->c_str() : nullptr; }

private:
  std::optional<std::string> text_;
};

// Text from outside, which need not be UTF-8.
inline nb::object loose_text(const char *bytes, size_t size) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)size, "surrogateescape"));
}
inline nb::object loose_text(const char *text) {
  return loose_text(text, strlen(text));
}

// The reverse: bytes unchanged, or a str as UTF-8, whose surrogates become the bytes that they stand for.
inline std::string loose_bytes(nb::handle source, const char *name) {
  nb::object bytes;
  if (PyUnicode_Check(source.ptr()))
    bytes = nb::steal(PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape"));
  else
    bytes = nb::steal(PyBytes_FromObject(source.ptr()));
  if (!bytes.is_valid()) {
    PyErr_Clear();
    throw nb::type_error((std::string(name) + ": a str or bytes is wanted").c_str());
  }
  return std::string(PyBytes_AsString(bytes.ptr()), (size_t)PyBytes_Size(bytes.ptr()));
}

// An iterable, whose entries are named `what` in errors.
inline nb::object entries_of(nb::handle source, const char *name, const char *what) {
  PyObject *entries = PyObject_GetIter(source.ptr());
  if (!entries && !PyErr_ExceptionMatches(PyExc_TypeError))
    throw nb::python_error();
  if (!entries) {
    PyErr_Clear();
    throw nb::type_error((std::string(name) + ": a list of " + what + " is wanted").c_str());
  }
  return nb::steal(entries);
}

// A text that a C function writes; the first call gets its size.
template <class F> std::string sized_text(F call) {
  size_t size = 0;
  std::string text;
  int rc = call((char *)nullptr, (size_t)0, &size);
  while (rc >= 0 && size > text.size()) {
    text.resize(size + 64); // counters grow meanwhile
    rc = call(&text[0], text.size(), &size);
    if (rc == WEFT_ERR_ROOM)
      rc = 0;
    else
      break;
  }
  check(rc);
  text.resize(strnlen(text.c_str(), text.size()));
  return text;
}
