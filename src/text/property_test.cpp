#include "text/edit.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace rocca::text {
namespace {

/// Pieces that YAML has opinions about, put together at random.
rc::Gen<std::string> nasty_string() {
  static const std::vector<std::string> pieces{"a",
                                               "b",
                                               "0",
                                               "1",
                                               " ",
                                               "  ",
                                               "\n",
                                               "\n\n",
                                               "\t",
                                               "\r",
                                               "-",
                                               ":",
                                               ": ",
                                               "#",
                                               " #",
                                               ",",
                                               "[",
                                               "]",
                                               "{",
                                               "}",
                                               "&",
                                               "*",
                                               "!",
                                               "|",
                                               ">",
                                               "'",
                                               "\"",
                                               "%",
                                               "@",
                                               "`",
                                               "~",
                                               "\\",
                                               "?",
                                               "---",
                                               "...",
                                               "yes",
                                               "no",
                                               "true",
                                               "null",
                                               "0x",
                                               "1e3",
                                               "_",
                                               ".inf",
                                               "2001-01-01",
                                               "é",
                                               "\xF0\x9F\x98\x80",
                                               "\xC2\x85",
                                               "\xE2\x80\xA8",
                                               "\xEF\xBB\xBF",
                                               "\x01",
                                               "\x7F",
                                               "<<",
                                               "=",
                                               "\xC2\xA0"};
  return rc::gen::map(
      rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, pieces.size())),
      [](const std::vector<std::size_t>& indices) {
        std::string text;
        for (const std::size_t index : indices) text += pieces[index];
        return text;
      });
}

rc::Gen<std::vector<std::string>> comment_lines() {
  return rc::gen::oneOf(rc::gen::just(std::vector<std::string>{}),
                        rc::gen::just(std::vector<std::string>{" one"}),
                        rc::gen::just(std::vector<std::string>{" one: # 'two", "", "[x"}));
}

Comments any_comments() {
  Comments comments;
  comments.before = *comment_lines();
  if (*rc::gen::inRange(0, 4) == 0) comments.beside = " beside # it";
  comments.after = *comment_lines();
  return comments;
}

Value any_value(int depth, bool json) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 10 : 7);
  switch (kind) {
    case 0:
      return Value::null();
    case 1:
      return Value::boolean(*rc::gen::arbitrary<bool>());
    case 2:
      return Value::integer(*rc::gen::arbitrary<std::int64_t>());
    case 3:
      return Value::floating(*rc::gen::arbitrary<double>());
    case 4:
    case 5:
    case 6: {
      const auto style = *rc::gen::element(Style::Any, Style::Single, Style::Double, Style::Literal,
                                           Style::Folded);
      return Value::string(*nasty_string(), style);
    }
    default:
      break;
  }
  Value collection = kind == 9 ? Value::list() : Value::map();
  const int size = *rc::gen::inRange(0, 4);
  for (int i = 0; i < size; ++i) {
    Value child = any_value(depth - 1, json);
    if (collection.is_list()) {
      if (!json) child.comments() = any_comments();
      collection.append(std::move(child));
    } else {
      const std::string key = *nasty_string();
      if (collection.find(key) != nullptr) continue;
      collection.set(key, std::move(child));
      if (!json) collection.entries().back().comments() = any_comments();
    }
  }
  if (*rc::gen::inRange(0, 3) == 0) collection.set_style(Style::Flow);
  return collection;
}

RC_GTEST_PROP(YamlProperty, ReadsBackWhatItWroteAndWritesItTheSame, ()) {
  Value value = any_value(4, false);
  value.comments().before = *comment_lines();
  value.comments().after = *comment_lines();
  const EmitOptions options{*rc::gen::element(2u, 4u)};
  const std::string text = emit_yaml(value, options);
  RC_LOG() << text;
  const Value read = parse_yaml(text, "t");
  RC_ASSERT(read == value);
  RC_ASSERT(emit_yaml(read, options) == text);
}

RC_GTEST_PROP(YamlProperty, KeepsEveryCommentOfABlockDocument, ()) {
  Value value = any_value(3, false);
  const std::string text = emit_yaml(value);
  const auto count = [](const std::string& of) {
    std::size_t found = 0;
    for (auto at = of.find("# beside # it"); at != std::string::npos;
         at = of.find("# beside # it", at + 1))
      ++found;
    return found;
  };
  RC_ASSERT(count(emit_yaml(parse_yaml(text, "t"))) == count(text));
}

RC_GTEST_PROP(YamlProperty, StreamsKeepTheirDocuments, ()) {
  const std::vector<Value> documents{any_value(2, false), any_value(2, false), any_value(1, false)};
  const std::string text = emit_yaml_stream(documents);
  RC_LOG() << text;
  RC_ASSERT(parse_yaml_stream(text, "t") == documents);
}

RC_GTEST_PROP(JsonProperty, ReadsBackWhatItWrote, ()) {
  const Value value = any_value(4, true);
  const bool pretty = *rc::gen::arbitrary<bool>();
  const std::string text = emit_json(value, {pretty, "\t"});
  RC_ASSERT(parse_json(text, "t") == value);
  RC_ASSERT(emit_json(parse_json(text, "t"), {pretty, "\t"}) == text);
  // JSON that YAML would not take needs escapes: everything else is YAML, too.
  RC_ASSERT(parse_yaml(emit_yaml(parse_json(text, "t")), "t") == value);
}

void collect_paths(const Value& value, const Path& at, std::vector<Path>& out) {
  for (const Entry& entry : value.entries()) {
    Path path = at;
    path.push_back(entry.key);
    out.push_back(path);
    collect_paths(entry.value, path, out);
  }
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    Path path = at;
    path.push_back(std::to_string(i));
    out.push_back(path);
    collect_paths(value.items()[i], path, out);
  }
}

Value* find_path(Value& root, const Path& path) {
  Value* at = &root;
  for (const std::string& step : path)
    at = at->is_map() ? at->find(step) : &at->items()[std::stoul(step)];
  return at;
}

RC_GTEST_PROP(EditProperty, SetChangesOneValueAndNothingElse, ()) {
  Value value = Value::map();
  for (int i = 0; i < 3; ++i) value.set("k" + std::to_string(i), any_value(3, false));
  for (Entry& entry : value.entries()) entry.comments() = any_comments();
  const std::string text = emit_yaml(value);
  std::vector<Path> paths;
  collect_paths(value, {}, paths);
  const Path path = paths[*rc::gen::inRange<std::size_t>(0, paths.size())];
  const Value replacement = any_value(2, true);
  RC_LOG() << text << "-- " << path.back() << "\n";
  const std::string changed = set_in_yaml(text, path, replacement);
  RC_LOG() << changed;
  Value expected = value;
  const Value old = *find_path(expected, path);
  *find_path(expected, path) = replacement;
  RC_ASSERT(parse_yaml(changed, "t") == expected);
  // What stands before the value's line and behind the value is still there, byte by byte.
  Value read = parse_yaml(text, "t");
  const Value& found = *find_path(read, path);
  const std::size_t line = text.rfind('\n', found.place().begin == 0 ? 0 : found.place().begin - 1);
  const bool own_line = found.style() == Style::Block;
  if (line != std::string::npos && !own_line)
    RC_ASSERT(changed.starts_with(text.substr(0, line + 1)));
  if (old.is_scalar() && replacement.is_scalar() &&
      replacement.text().find('\n') == std::string::npos)
    RC_ASSERT(changed.ends_with(text.substr(text.find('\n', found.place().end))));
}

RC_GTEST_PROP(EditProperty, EraseTakesOneEntryAway, ()) {
  Value value = Value::map();
  for (int i = 0; i < 3; ++i) value.set("k" + std::to_string(i), any_value(3, false));
  for (Entry& entry : value.entries()) entry.comments() = any_comments();
  const std::string text = emit_yaml(value);
  std::vector<Path> paths;
  collect_paths(value, {}, paths);
  const Path path = paths[*rc::gen::inRange<std::size_t>(0, paths.size())];
  RC_LOG() << text << "-- " << path.back() << "\n";
  const std::string changed = erase_in_yaml(text, path);
  Value expected = value;
  Value* parent = find_path(expected, Path(path.begin(), path.end() - 1));
  if (parent->is_map())
    parent->erase(path.back());
  else
    parent->items().erase(parent->items().begin() + std::stol(path.back()));
  RC_ASSERT(parse_yaml(changed, "t") == expected);
}

RC_GTEST_PROP(EditProperty, WorksInJsonToo, ()) {
  Value value = Value::map();
  for (int i = 0; i < 3; ++i) value.set("k" + std::to_string(i), any_value(3, true));
  const std::string text = emit_json(value, {*rc::gen::arbitrary<bool>(), "  "});
  std::vector<Path> paths;
  collect_paths(value, {}, paths);
  const Path path = paths[*rc::gen::inRange<std::size_t>(0, paths.size())];
  const Value replacement = any_value(2, true);
  const std::string changed = set_in_json(text, path, replacement);
  Value expected = value;
  *find_path(expected, path) = replacement;
  RC_ASSERT(parse_json(changed, "t") == expected);
  const std::string erased = erase_in_json(changed, path);
  Value* parent = find_path(expected, Path(path.begin(), path.end() - 1));
  if (parent->is_map())
    parent->erase(path.back());
  else
    parent->items().erase(parent->items().begin() + std::stol(path.back()));
  RC_ASSERT(parse_json(erased, "t") == expected);
}

}  // namespace
}  // namespace rocca::text
