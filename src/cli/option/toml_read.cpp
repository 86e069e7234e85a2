// The members at the top of a TOML file, by tomlplusplus, for C.
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <string>
#include <vector>

#include <weft/err.h> // outside of the block below: it has a template
extern "C" {
#include "base/fail.h"
}
#include "cli/option/toml.h"

namespace {

const char *name_of(toml::node_type type) {
  switch (type) {
  case toml::node_type::table:
    return "a table";
  case toml::node_type::array:
    return "a list";
  case toml::node_type::string:
    return "a string";
  case toml::node_type::integer:
    return "a whole number";
  case toml::node_type::floating_point:
    return "a number with a point";
  case toml::node_type::boolean:
    return "a boolean";
  default:
    return "a date or a time";
  }
}

struct found_member {
  std::string name, text;
  cli_toml_type type;
  const char *type_name;
  unsigned line;
};

found_member describe(std::string_view name, const toml::node &node) {
  found_member found{std::string(name), "", TOML_OTHER, name_of(node.type()), node.source().begin.line};
  if (auto integer = node.as_integer()) {
    found.type = TOML_INTEGER;
    found.text = std::to_string(integer->get());
  } else if (auto boolean = node.as_boolean()) {
    found.type = TOML_BOOLEAN;
    found.text = boolean->get() ? "true" : "false";
  } else if (auto string = node.as_string()) {
    found.type = TOML_TEXT;
    found.text = string->get();
  }
  return found;
}

} // namespace

extern "C" int cli_toml_read(const char *path, const char *text,
                             int (*member)(void *arg, const struct cli_toml_member *found), void *arg) {
  toml::parse_result result = toml::parse(std::string_view(text));
  if (!result) {
    std::string why(result.error().description());
    return fail(WEFT_ERR_INVALID, "%s, line %u: it is not TOML: %s", path,
                static_cast<unsigned>(result.error().source().begin.line), why.c_str());
  }
  std::vector<found_member> all;
  for (auto &&[name, node] : result.table())
    all.push_back(describe(name, node)); // the library has them in the order of their names
  std::stable_sort(all.begin(), all.end(),
                   [](const found_member &a, const found_member &b) { return a.line < b.line; });
  for (const found_member &one : all) {
    cli_toml_member found{one.name.c_str(), one.type, one.type_name, one.text.c_str(), one.line};
    int err = member(arg, &found);
    if (err)
      return err;
  }
  return 0;
}
