// Parses TOML for C with tomlplusplus. Its nodes become plain values, and one owner holds them all.
#define TOML_EXCEPTIONS        0
#define TOML_ENABLE_FORMATTERS 0

// The parser of tomlplusplus 3.3 has assertions, or assumptions for the compiler, that some texts violate: for instance
// "[.a]" as the head of a table. If the parser still has the macro for them, it is replaced here by one that throws.
struct parser_confused {};
[[noreturn, maybe_unused]] static void give_up() {
  throw parser_confused();
}
#if __has_include(<toml++/impl/preprocessor.h>)
#include <toml++/impl/preprocessor.h>
#ifdef TOML_ASSERT_ASSUME
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_cast<void>((expr) || (give_up(), true))
#endif
#endif
#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <weft/err.h> // outside of the block below, since it has a template
extern "C" {
#include "base/fail.h"
}
#include "toml/toml.h"

namespace {

// Holds everything of a tree. The root is its first member, so that both have the same address.
struct owner {
  toml_value root{};
  std::string path;
  std::deque<std::string> strings;
  std::deque<std::vector<toml_value>> lists;

  const char *keep(std::string text) {
    strings.push_back(std::move(text));
    return strings.back().c_str();
  }
};

toml_place place_of(const owner &tree, const toml::source_region &source) {
  return {tree.path.c_str(), static_cast<unsigned>(source.begin.line), static_cast<unsigned>(source.begin.column)};
}

// A number in the form of TOML, always with a point: "1.5", "2.0".
std::string text_of(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  for (int digits = 1; digits < 17; digits++) { // finds the fewest digits that give the same number
    char shorter[40];
    std::snprintf(shorter, sizeof shorter, "%.*g", digits, number);
    if (std::strtod(shorter, nullptr) == number) {
      std::snprintf(text, sizeof text, "%s", shorter);
      break;
    }
  }
  std::string found = text;
  return found.find_first_not_of("-0123456789") == std::string::npos ? found + ".0" : found;
}

void copy(owner &tree, const toml::node &node, toml_value &value);

bool stands_before(const toml_value &a, const toml_value &b) {
  return a.key_at.line != b.key_at.line ? a.key_at.line < b.key_at.line : a.key_at.column < b.key_at.column;
}

void copy_table(owner &tree, const toml::table &table, toml_value &value) {
  std::vector<toml_value> &list = tree.lists.emplace_back(table.size());
  size_t i = 0;
  for (auto &&[key, node] : table) { // the library sorts them by name
    toml_value &member = list[i++];
    copy(tree, node, member);
    member.key = tree.keep(std::string(key.str()));
    member.key_at = place_of(tree, key.source());
  }
  std::stable_sort(list.begin(), list.end(), stands_before);
  value.children = list.data();
  value.count = list.size();
}

void copy_array(owner &tree, const toml::array &array, toml_value &value) {
  std::vector<toml_value> &list = tree.lists.emplace_back(array.size());
  for (size_t i = 0; i < array.size(); i++)
    copy(tree, array[i], list[i]);
  value.children = list.data();
  value.count = list.size();
}

void copy(owner &tree, const toml::node &node, toml_value &value) {
  value.type = TOML_TIME;
  value.text = "";
  value.at = value.key_at = place_of(tree, node.source());
  if (auto table = node.as_table()) {
    value.type = TOML_TABLE;
    copy_table(tree, *table, value);
  } else if (auto array = node.as_array()) {
    value.type = TOML_ARRAY;
    copy_array(tree, *array, value);
  } else if (auto string = node.as_string()) {
    value.type = TOML_STRING;
    value.text = tree.keep(string->get());
  } else if (auto integer = node.as_integer()) {
    value.type = TOML_INTEGER;
    value.integer = integer->get();
    value.number = static_cast<double>(integer->get());
    value.text = tree.keep(std::to_string(integer->get()));
  } else if (auto number = node.as_floating_point()) {
    value.type = TOML_FLOAT;
    value.number = number->get();
    value.text = tree.keep(text_of(number->get()));
  } else if (auto boolean = node.as_boolean()) {
    value.type = TOML_BOOLEAN;
    value.boolean = boolean->get();
    value.text = boolean->get() ? "true" : "false";
  }
}

// Finds what is refused before the parser sees the text. First, characters that are not ASCII, such as U+00E9, outside
// of strings and comments: TOML has none there, and the behaviour of tomlplusplus 3.3 is undefined when it asks whether
// they are white space (is_non_ascii_horizontal_whitespace). Second, keys of too many names: each name is a table
// within the one before. tomlplusplus limits how deep values are, but not keys, so that the stack could overflow while
// the tree is copied or freed.
class outside_scan {
public:
  explicit outside_scan(const char *text) : at(text) {
    if (std::string_view(text).substr(0, 3) == "\xEF\xBB\xBF")
      at += 3;
  }

  // Returns what is wrong at `line` and `column`; NULL if nothing is.
  const char *find() {
    while (*at) {
      if (static_cast<unsigned char>(*at) >= 0x80)
        return "a character that is allowed only in strings and comments";
      count_name();
      if (names > MOST_NAMES)
        return "more than 16 names in a key";
      if (*at == '#')
        skip_comment();
      else if (*at == '"' || *at == '\'')
        skip_string();
      else
        step();
    }
    return nullptr;
  }

  unsigned line = 1, column = 1;

private:
  static constexpr unsigned MOST_NAMES = 16; // within each of 256 tables, which is how deep tomlplusplus lets them be
  const char *at;
  unsigned names = 1; // the number of names so far in what may be a key

  void count_name() {
    if (*at == '.')
      names++;
    else if (std::strchr("=,[]{}\n", *at))
      names = 1;
  }

  void step() {
    bool continued = (static_cast<unsigned char>(at[1]) & 0xC0) == 0x80; // the column counts characters, not bytes
    column = *at == '\n' ? 1 : column + !continued;
    line += *at == '\n';
    at++;
  }

  void skip_comment() {
    while (*at && *at != '\n')
      step();
  }

  bool three(char quote) const { return at[0] == quote && at[1] == quote && at[2] == quote; }

  void skip_string() {
    char quote = *at;
    bool lines = three(quote);
    for (int i = 0; i < (lines ? 3 : 1); i++)
      step();
    while (*at && !(lines ? three(quote) : *at == quote || *at == '\n')) {
      if (*at == '\\' && quote == '"' && at[1])
        step();
      step();
    }
    for (int i = 0; i < (lines ? 3 : 1) && *at == quote; i++)
      step();
    while (lines && *at == quote) // a string may end with up to two quotes of its own
      step();
  }
};

} // namespace

extern "C" int toml_parse(struct toml_value **root, const char *path, const char *text) {
  try {
    outside_scan scan(text);
    if (const char *wrong = scan.find())
      return fail(WEFT_ERR_INVALID, "%s:%u:%u: it is not TOML: %s", path, scan.line, scan.column, wrong);
    toml::parse_result result = toml::parse(std::string_view(text));
    if (!result) {
      std::string why(result.error().description());
      auto begin = result.error().source().begin;
      return fail(WEFT_ERR_INVALID, "%s:%u:%u: it is not TOML: %s", path, static_cast<unsigned>(begin.line),
                  static_cast<unsigned>(begin.column), why.c_str());
    }
    auto tree = std::make_unique<owner>();
    tree->path = path;
    copy(*tree, result.table(), tree->root);
    tree->root.at = tree->root.key_at = {tree->path.c_str(), 1, 1};
    *root = &tree.release()->root;
    return 0;
  } catch (const parser_confused &) {
    return fail(WEFT_ERR_INVALID,
                "%s: it is not TOML: the parser did not understand it; look for a [ that no name follows", path);
  } catch (const std::bad_alloc &) {
    return fail(WEFT_ERR_NOMEM, "no memory for %s", path);
  }
}

extern "C" void toml_free(struct toml_value *root) {
  delete reinterpret_cast<owner *>(root);
}
