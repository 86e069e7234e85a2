// Owners of objects: whether other code can reach them.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_owners(nb::module_ &m);
