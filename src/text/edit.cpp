#include "text/edit.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/emit.hpp"
#include "text/json.hpp"
#include "text/source.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace rocca::text {
namespace {

enum class Language { Yaml, Json };

std::optional<std::size_t> index_of(const Value& collection, const std::string& step) {
  if (collection.is_map()) {
    const auto& entries = collection.entries();
    const auto found =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == step; });
    if (found == entries.end()) return std::nullopt;
    return static_cast<std::size_t>(found - entries.begin());
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (error != std::errc{} || end != step.data() + step.size() || index > collection.items().size())
    throw Error(Fault::Usage,
                fmt::format("`{}` is no item of a list of {}", step, collection.items().size()));
  if (index == collection.items().size()) return std::nullopt;
  return index;
}

const Value& child(const Value& collection, std::size_t index) {
  return collection.is_map() ? collection.entries()[index].value : collection.items()[index];
}

/// The value with the maps around it that the rest of a path asks for.
Value wrapped(const Path& path, std::size_t from, const Value& value) {
  Value result = value;
  for (std::size_t i = path.size(); i > from; --i) {
    Value outer = Value::map();
    outer.set(path[i - 1], std::move(result));
    result = std::move(outer);
  }
  return result;
}

/// What the whole must read as afterwards.
void apply(Value& at, const Path& path, std::size_t step, const Value& value) {
  if (step == path.size()) {
    at = value;
    return;
  }
  if (at.is_null()) {
    at = wrapped(path, step, value);
    return;
  }
  if (at.is_scalar())
    throw Error(Fault::Usage, fmt::format("a value ({}) stands in the way of `{}`",
                                          to_string(at.kind()), join(path, ".")));
  const auto index = index_of(at, path[step]);
  if (index) {
    apply(at.is_map() ? at.entries()[*index].value : at.items()[*index], path, step + 1, value);
  } else if (at.is_map()) {
    at.set(path[step], wrapped(path, step + 1, value));
  } else {
    at.append(wrapped(path, step + 1, value));
  }
}

class Editor {
 public:
  Editor(std::string_view source, Language language)
      : source_(source), language_(language), root_(read(source)) {
    const std::size_t first = source.find('\n');
    if (first != std::string_view::npos && first > 0 && source[first - 1] == '\r')
      newline_ = "\r\n";
    indent_ = find_indent(root_).value_or(2);
  }

  std::string set(const Path& path, const Value& value) {
    Value expected = root_;
    std::string result = set_unchecked(path, value);
    apply(expected, path, 0, value);
    return checked(std::move(result), expected, path);
  }

  std::string erase(const Path& path) {
    if (path.empty()) throw Error(Fault::Usage, "the whole document cannot be taken out of itself");
    const Value* at = &root_;
    const Value* parent = nullptr;
    std::size_t at_index = 0;
    for (std::size_t step = 0; step < path.size(); ++step) {
      if (at->is_null()) return std::string{source_};
      refuse_to_enter(*at, path, step);
      const auto index = index_of(*at, path[step]);
      if (!index) return std::string{source_};
      if (step + 1 == path.size()) {
        Value expected = root_;
        erase_in(expected, path);
        return checked(erase_child(*at, *index, parent, at_index), expected, path);
      }
      parent = at;
      at_index = *index;
      at = &child(*at, *index);
    }
    return std::string{source_};
  }

 private:
  Value read(std::string_view text) const {
    return language_ == Language::Yaml ? parse_yaml(text, "text") : parse_json(text, "text");
  }

  std::string checked(std::string result, const Value& expected, const Path& path) const {
    bool same = false;
    try {
      same = read(result) == expected;
    } catch (const Error& error) {
      if (error.fault() != Fault::Usage) throw;  // it does not parse any more
    }
    if (!same)
      throw Error(Fault::Usage,
                  fmt::format("`{}` cannot be changed without rewriting the text around it",
                              join(path, ".")))
          .hint("write this part of the file in a plainer way (no anchors or tags around it)");
    return result;
  }

  static std::optional<std::size_t> find_indent(const Value& value) {
    for (const Entry& entry : value.entries()) {
      if (value.style() == Style::Block && entry.value.is_map() &&
          entry.value.style() == Style::Block &&
          entry.value.place().column > entry.key_place.column)
        return entry.value.place().column - entry.key_place.column;
      if (const auto found = find_indent(entry.value)) return found;
    }
    for (const Value& item : value.items())
      if (const auto found = find_indent(item)) return found;
    return std::nullopt;
  }

  bool is_alias(const Value& value) const {
    return language_ == Language::Yaml && value.place().begin < value.place().end &&
           source_[value.place().begin] == '*';
  }

  void refuse_to_enter(const Value& value, const Path& path, std::size_t step) const {
    const std::string where =
        join(Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(step)), ".");
    if (is_alias(value))
      throw Error(Fault::Usage, fmt::format("`{}` is an alias ({}): what is in it stands elsewhere",
                                            where, text(value)));
    if (value.is_scalar())
      throw Error(Fault::Usage, fmt::format("`{}` is a {}, it has no `{}`", where,
                                            to_string(value.kind()), path[step]));
  }

  std::string_view text(const Value& value) const {
    return source_.substr(value.place().begin, value.place().end - value.place().begin);
  }

  EmitOptions options() const { return {static_cast<unsigned>(indent_)}; }
  bool flow(const Value& value) const { return value.style() == Style::Flow; }

  std::string with_newlines(std::string text) const {
    return newline_ == "\n" ? text : replace_all(text, "\n", newline_);
  }

  std::string splice(std::size_t begin, std::size_t end, std::string_view text) const {
    std::string result{source_.substr(0, begin)};
    result += text;
    result += source_.substr(end);
    return result;
  }

  // --- where things stand

  std::size_t end_of_child(const Value& collection, std::size_t index) const {
    if (collection.is_map()) {
      const Entry& entry = collection.entries()[index];
      return std::max(entry.key_place.end, entry.value.place().end);
    }
    return collection.items()[index].place().end;
  }

  std::size_t skip_blanks_and_comments(std::size_t at) const {
    for (; at < source_.size(); ++at) {
      if (source_[at] == '#') at = line_end(source_, at);
      if (at >= source_.size() ||
          std::string_view{" \t\r\n"}.find(source_[at]) == std::string_view::npos)
        break;
    }
    return at;
  }

  /// The first byte of a child: its key (or the `?` before it), its dash, or in flow the item
  /// itself.
  std::size_t start_of_child(const Value& collection, std::size_t index) const {
    if (collection.is_map()) return collection.entries()[index].key_place.begin;
    if (flow(collection)) return collection.items()[index].place().begin;
    if (index == 0) return collection.place().begin;
    return skip_blanks_and_comments(end_of_child(collection, index - 1));
  }

  /// Behind the `:` or `-` that a child's value follows.
  std::size_t indicator_end(const Value& collection, std::size_t index) const {
    if (collection.is_list()) return start_of_child(collection, index) + 1;
    return skip_blanks_and_comments(collection.entries()[index].key_place.end) + 1;
  }

  /// Comment lines behind `at` (the end of a line) that are indented deeper than `column`.
  std::size_t with_deeper_comments(std::size_t at, std::size_t column) const {
    std::size_t end = at;
    while (at < source_.size()) {
      at = next_line(at);
      const std::size_t content = std::min(source_.find_first_not_of(" \t", at), source_.size());
      if (content < source_.size() && source_[content] == '#' && content - at > column) {
        at = end = line_end(source_, content);
      } else if (content < source_.size() && is_line_break(source_, content)) {
        at = content;
      } else {
        break;
      }
    }
    return end;
  }

  std::size_t next_line(std::size_t at) const {
    if (at < source_.size() && source_[at] == '\r') ++at;
    if (at < source_.size() && source_[at] == '\n') ++at;
    return at;
  }

  // --- set

  std::string set_unchecked(const Path& path, const Value& value) {
    if (path.empty()) return whole(value);
    const Value* at = &root_;
    for (std::size_t step = 0; step < path.size(); ++step) {
      if (at == &root_ && root_.is_null()) return from_nothing(wrapped(path, 0, value));
      refuse_to_enter(*at, path, step);
      const auto index = index_of(*at, path[step]);
      if (!index) return add_child(*at, path[step], wrapped(path, step + 1, value));
      const Value& next = child(*at, *index);
      if (step + 1 == path.size()) return replace_child(*at, *index, value);
      if (next.is_null() && !is_alias(next))
        return replace_child(*at, *index, wrapped(path, step + 1, value));
      at = &next;
    }
    return std::string{source_};
  }

  std::string whole(const Value& value) const {
    if (language_ == Language::Json)
      return splice(root_.place().begin, root_.place().end, json_text(value, 0));
    return with_newlines(emit_yaml(value, options()));
  }

  std::string from_nothing(const Value& value) const {
    if (language_ == Language::Json) return whole(value);
    if (root_.place().begin < root_.place().end)
      return splice(root_.place().begin, root_.place().end,
                    with_newlines(chomped(emit_yaml(value, options()))));
    std::string result{source_};
    if (!result.empty() && result.back() != '\n') result += newline_;
    return result + with_newlines(emit_yaml(value, options()));
  }

  static std::string chomped(std::string text) {
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }

  std::string json_text(const Value& value, std::size_t line_of) const {
    // One entry a line only where the text around it is written so.
    if (source_.find('\n') == std::string_view::npos) return emit_json(value);
    const std::size_t start = line_start(source_, line_of);
    const std::size_t content = std::min(source_.find_first_not_of(" \t", start), source_.size());
    const std::string lead{source_.substr(start, content - start)};
    JsonOptions options{true, lead.find('\t') != std::string::npos ? "\t" : "  "};
    return replace_all(emit_json(value, options), "\n", newline_ + lead);
  }

  std::string flow_text(const Value& value, std::size_t at) const {
    if (language_ == Language::Json) return json_text(value, at);
    Emitter emitter(options());
    emitter.flow(value);
    return emitter.take();
  }

  std::string flow_child_text(const std::string& key, const Value& value, bool map,
                              std::size_t at) const {
    if (!map) return flow_text(value, at);
    if (language_ == Language::Json) {
      const bool tight = source_.find("\": ") == std::string_view::npos;
      return emit_json(Value::string(key)) + (tight ? ":" : ": ") + flow_text(value, at);
    }
    Entry entry;
    entry.key = key;
    return Emitter::key_text(entry, true) + ": " + flow_text(value, at);
  }

  std::string add_child(const Value& collection, const std::string& key, const Value& value) const {
    const Place& place = collection.place();
    if (flow(collection)) {
      if (collection.size() == 0)
        return splice(place.begin + 1, place.begin + 1,
                      flow_child_text(key, value, collection.is_map(), place.begin));
      const std::size_t last = collection.size() - 1;
      const std::size_t at = end_of_child(collection, last);
      const std::size_t start = start_of_child(collection, last);
      const std::size_t line = line_start(source_, start);
      std::string gap =
          language_ == Language::Json && source_.find(", ") == std::string_view::npos ? "" : " ";
      if (line > place.begin &&
          source_.substr(line, start - line).find_first_not_of(" \t") == std::string_view::npos)
        gap = newline_ + std::string{source_.substr(line, start - line)};
      return splice(at, at, "," + gap + flow_child_text(key, value, collection.is_map(), start));
    }
    Value single = collection.is_map() ? Value::map() : Value::list();
    if (collection.is_map())
      single.set(key, value);
    else
      single.append(value);
    Emitter emitter(options());
    emitter.collection(single, place.column - 1, true);
    const std::size_t at = line_end(source_, end_of_child(collection, collection.size() - 1));
    return splice(at, at, newline_ + with_newlines(chomped(emitter.take())));
  }

  std::string replace_child(const Value& collection, std::size_t index, const Value& value) const {
    const Value& old = child(collection, index);
    if (flow(collection)) {
      const bool gap = old.place().begin == old.place().end;
      return splice(old.place().begin, old.place().end,
                    (gap ? " " : "") + flow_text(value, old.place().begin));
    }
    const std::size_t column = (collection.is_map() ? collection.entries()[index].key_place.column
                                                    : collection.place().column) -
                               1;
    Emitter emitter(options());
    emitter.behind(value, {}, column, collection.is_list());
    const std::string rendered = emitter.take();
    const std::string head = rendered.substr(0, rendered.find('\n'));
    const std::string body = chomped(rendered.substr(rendered.find('\n') + 1));
    return place_block(indicator_end(collection, index), old, column, head, body);
  }

  /// `head` belongs on the line of the indicator, before a comment that stands there; `body` on the
  /// lines after it.
  std::string place_block(std::size_t indicator, const Value& old, std::size_t column,
                          const std::string& head, const std::string& body) const {
    const std::string lines = body.empty() ? "" : newline_ + with_newlines(body);
    const std::size_t first_line_end = line_end(source_, indicator);
    const bool block = !old.is_scalar() && old.style() == Style::Block && !is_alias(old);
    const std::size_t begin = old.place().begin;
    if (block || (begin > first_line_end && begin < old.place().end)) {
      const std::size_t end = block
                                  ? with_deeper_comments(line_end(source_, old.place().end), column)
                                  : old.place().end;
      const std::size_t comment = begin > first_line_end
                                      ? source_.substr(0, first_line_end).find('#', indicator)
                                      : std::string_view::npos;
      std::string text = head;
      if (comment != std::string_view::npos)
        text += " " + std::string{source_.substr(comment, first_line_end - comment)};
      return splice(indicator, end, text + lines);
    }
    // An anchor stays, because others may stand for it; a tag would say something else about the
    // new value.
    std::size_t from = std::max(begin, indicator);
    if (!old.tag().empty() || begin == old.place().end || head.empty()) from = indicator;
    const std::string shown = from == indicator ? head : std::string{trim_front(head)};
    std::size_t to = std::max<std::size_t>(old.place().end, from);
    if (old.style() == Style::Literal || old.style() == Style::Folded) {
      const std::size_t header = line_end(source_, begin);
      const std::size_t token = std::min(source_.find_first_of(" \t\r\n", begin), header);
      return splice(from, to, shown + std::string{source_.substr(token, header - token)} + lines);
    }
    const std::size_t end = line_end(source_, to);
    return splice(from, end, shown + std::string{source_.substr(to, end - to)} + lines);
  }

  static std::string_view trim_front(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    return text;
  }

  // --- erase

  std::string erase_child(const Value& collection, std::size_t index, const Value* parent,
                          std::size_t parent_index) const {
    const std::size_t begin = start_of_child(collection, index);
    const std::size_t end = end_of_child(collection, index);
    const Place& place = collection.place();
    const bool last = index + 1 == collection.size();
    if (flow(collection)) {
      if (collection.size() == 1) return splice(place.begin + 1, place.end - 1, "");
      if (!last) return splice(begin, start_of_child(collection, index + 1), "");
      return splice(end_of_child(collection, index - 1), end, "");
    }
    if (collection.size() == 1) {
      const Value empty = collection.is_map() ? Value::map() : Value::list();
      if (parent != nullptr) return replace_child(*parent, parent_index, empty);
      return splice(place.begin, line_end(source_, place.end), collection.is_map() ? "{}" : "[]");
    }
    const Comments& comments = collection.is_map() ? collection.entries()[index].comments()
                                                   : collection.items()[index].comments();
    std::size_t line = line_start(source_, begin);
    const std::string_view lead = source_.substr(line, begin - line);
    if (lead.find_first_not_of(" \t") != std::string_view::npos &&
        lead.find_first_not_of(" \t?") != std::string_view::npos) {
      // Behind a dash: what follows moves up to its place.
      const std::size_t next = start_of_child(collection, index + 1);
      const std::size_t from = skip_to_comment(line_end(source_, end), next);
      return splice(begin, from, "");
    }
    for (std::size_t left = comments.before.size(); left > 0 && line > 0; --left) {
      const std::size_t above =
          line_start(source_, line - (line >= 2 && source_[line - 2] == '\r' ? 2 : 1));
      const std::size_t content = source_.find_first_not_of(" \t", above);
      if (content == std::string_view::npos || source_[content] != '#') break;
      line = above;
    }
    std::size_t stop =
        with_deeper_comments(line_end(source_, end), begin - line_start(source_, begin));
    if (stop < source_.size()) return splice(line, next_line(stop), "");
    // The last line has no line break: the one before it goes.
    std::size_t from = line;
    if (from > 0 && source_[from - 1] == '\n') --from;
    if (from > 0 && source_[from - 1] == '\r') --from;
    return splice(from, stop, "");
  }

  /// The next entry, or the first comment before it.
  std::size_t skip_to_comment(std::size_t from, std::size_t next) const {
    const std::size_t comment = source_.substr(0, next).find('#', from);
    return comment == std::string_view::npos ? next : comment;
  }

  std::string_view source_;
  Language language_;
  Value root_;
  std::string newline_ = "\n";
  std::size_t indent_ = 2;
};

}  // namespace

void set_in(Value& root, const Path& path, const Value& value) {
  apply(root, path, 0, value);
}

bool erase_in(Value& root, const Path& path) {
  if (path.empty()) return false;
  Value* at = &root;
  for (std::size_t step = 0;; ++step) {
    if (at->is_scalar()) return false;
    const auto index = index_of(*at, path[step]);
    if (!index) return false;
    if (step + 1 == path.size()) {
      const auto offset = static_cast<std::ptrdiff_t>(*index);
      if (at->is_map())
        at->entries().erase(at->entries().begin() + offset);
      else
        at->items().erase(at->items().begin() + offset);
      return true;
    }
    at = at->is_map() ? &at->entries()[*index].value : &at->items()[*index];
  }
}

std::string set_in_yaml(std::string_view source, const Path& path, const Value& value) {
  return Editor(source, Language::Yaml).set(path, value);
}
std::string erase_in_yaml(std::string_view source, const Path& path) {
  return Editor(source, Language::Yaml).erase(path);
}
std::string set_in_json(std::string_view source, const Path& path, const Value& value) {
  return Editor(source, Language::Json).set(path, value);
}
std::string erase_in_json(std::string_view source, const Path& path) {
  return Editor(source, Language::Json).erase(path);
}

}  // namespace rocca::text
