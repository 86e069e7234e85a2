// Owners of objects: whether an object has owners that it did not have before. Without such owners it can be reused.
#include "core/owners.h"

#include <vector>

namespace {

// A Python object, and its counts when it was noted.
struct Held {
  nb::object object;
  uint32_t references = 0;
  Py_ssize_t attributes = 0;
};

// A function that counts further owners, of shared memory or outside of Python, and its result when it was noted.
struct Counted {
  nb::object count, argument;
  long value = 0;
};

// The lower half: later versions of Python keep flags above it, and objects of Python have fewer references.
uint32_t references_to(const nb::object &object) {
  return (uint32_t)Py_REFCNT(object.ptr());
}

Py_ssize_t attributes_of(const nb::object &object) {
  nb::object attributes = nb::steal(PyObject_GenericGetDict(object.ptr(), nullptr));
  if (attributes.is_valid())
    return PyDict_Size(attributes.ptr());
  PyErr_Clear(); // its type has no attributes
  return 0;
}

long number_of(const nb::object &answer) {
  long value = PyLong_AsLong(answer.ptr());
  if (value == -1 && PyErr_Occurred())
    throw nb::python_error();
  return value;
}

class Owners {
public:
  Owners(nb::sequence objects, nb::sequence counts) : weak_(nb::module_::import_("weakref").attr("getweakrefcount")) {
    for (nb::handle object : objects)
      held_.push_back({nb::borrow(object)});
    for (nb::handle pair : counts) {
      if (!PySequence_Check(pair.ptr()) || nb::len(pair) != 2)
        throw nb::type_error("counts: pairs of a call and its argument are wanted");
      counted_.push_back({nb::object(pair[0]), nb::object(pair[1])});
    }
  }

  void note() {
    for (Held &one : held_)
      one.references = references_to(one.object), one.attributes = attributes_of(one.object);
    for (Counted &one : counted_)
      one.value = number_of(one.count(one.argument));
  }

  bool same() const {
    for (const Held &one : held_)
      if (references_to(one.object) != one.references)
        return false;
    for (const Counted &one : counted_)
      if (number_of(one.count(one.argument)) != one.value)
        return false;
    for (const Held &one : held_)
      if (attributes_of(one.object) != one.attributes || number_of(weak_(one.object)) != 0)
        return false;
    return true;
  }

private:
  nb::object weak_;
  std::vector<Held> held_;
  std::vector<Counted> counted_;
};

} // namespace

void bind_owners(nb::module_ &m) {
  nb::class_<Owners>(m, "Owners", "Owners of objects: an object without another owner may be used again.")
      .def(
          nb::init<nb::sequence, nb::sequence>(), nb::arg("objects"), nb::arg("counts") = nb::make_tuple(),
          nb::sig("def __init__(self, objects: collections.abc.Sequence[object], counts: "
                  "collections.abc.Sequence[tuple[collections.abc.Callable[[typing.Any], int], object]] = ()) -> None"),
          "objects: those to watch, which it keeps. counts: (call, argument) pairs; the call answers how\n"
          "many owners it knows that are no objects of Python.")
      .def("note", &Owners::note, "Notes who has the objects now: from then on they are all that may have them.")
      .def("same", &Owners::same,
           "Whether nobody has one of the objects who did not have it when that was noted: no name, no weak\n"
           "reference, nobody whom a count knows; and whether none has got an attribute.");
}
