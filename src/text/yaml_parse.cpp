#include "base/error.hpp"
#include "text/comments.hpp"
#include "text/scalar.hpp"
#include "text/source.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace rocca::text {
namespace {

constexpr std::string_view core_tag_prefix = "tag:yaml.org,2002:";

std::string_view view(const yaml_char_t* text) {
  return text == nullptr ? std::string_view{}
                         : std::string_view{reinterpret_cast<const char*>(text)};
}

/// libyaml counts characters; this turns its index into a byte of the text.
class CharacterIndex {
 public:
  explicit CharacterIndex(std::string_view text) : text_(text) {
    ascii_ = std::all_of(text.begin(), text.end(),
                         [](char c) { return static_cast<signed char>(c) >= 0; });
    if (ascii_) return;
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (!starts(at)) continue;
      if (count++ % stride == 0) checkpoints_.push_back(at);
    }
  }

  std::size_t byte(std::size_t index) const {
    if (ascii_) return std::min(index, text_.size());
    if (index / stride >= checkpoints_.size()) return text_.size();
    std::size_t at = checkpoints_[index / stride];
    for (std::size_t left = index % stride; left > 0 && at < text_.size(); --left) do
        ++at;
      while (at < text_.size() && !starts(at));
    return at;
  }

 private:
  static constexpr std::size_t stride = 64;
  bool starts(std::size_t at) const {
    return (static_cast<unsigned char>(text_[at]) & 0xC0) != 0x80;
  }

  std::string_view text_;
  bool ascii_ = true;
  std::vector<std::size_t> checkpoints_;
};

class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&raw); }
  yaml_event_t raw{};
};

/// How much a value is once it is copied somewhere.
struct Weight {
  std::size_t values = 0;
  std::size_t bytes = 0;
};

Weight weigh(const Value& value) {
  Weight weight{1, value.text().size()};
  const auto add = [&](const Value& child) {
    const Weight part = weigh(child);
    weight.values += part.values;
    weight.bytes += part.bytes;
  };
  for (const Value& item : value.items()) add(item);
  for (const Entry& entry : value.entries()) {
    weight.bytes += entry.key.size();
    add(entry.value);
  }
  return weight;
}

class Reader {
 public:
  Reader(std::string_view text, const Limits& limits) : whole_(text), limits_(limits) {
    check_source(text, limits, /*yaml=*/true);
    if (text.starts_with(byte_order_mark)) offset_ = byte_order_mark.size();
    text_ = text.substr(offset_);
    if (text_.empty()) text_ = "";  // libyaml asserts that there is an address
    check_directives();
    index_.emplace(text_);
    has_comments_ = text_.find('#') != std::string_view::npos;
    if (yaml_parser_initialize(&parser_) == 0)
      throw Error(Fault::Bug, "libyaml has no memory for a parser");
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text_.data()),
                                 text_.size());
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { yaml_parser_delete(&parser_); }

  std::vector<Value> read() {
    for (;;) {
      Event event;
      if (yaml_parser_parse(&parser_, &event.raw) == 0) throw parser_trouble();
      if (event.raw.type == YAML_STREAM_END_EVENT) break;
      take(event.raw);
    }
    if (has_comments_) attach_comments(text_, offset_, covered_, documents_, starts_);
    return std::move(documents_);
  }

  std::vector<Trouble>& troubles() { return troubles_; }

 private:
  struct Frame {
    Value value;
    std::string anchor;
    // Map: the key that waits for its value, and the keys so far once there are too many to look
    // through.
    bool has_key = false;
    Entry entry;
    std::unordered_set<std::string> keys;
  };
  struct Anchor {
    Value value;
    Weight weight;
    bool open = false;
  };

  void check_directives() const {
    // libyaml compares each %TAG with all before it: 4 MiB of them would take minutes.
    std::size_t directives = text_.starts_with('%') ? 1 : 0;
    for (auto at = text_.find("\n%"); at != std::string_view::npos && directives <= 100;
         at = text_.find("\n%", at + 2))
      ++directives;
    if (directives > 100) throw Trouble{1, 1, "more than 100 lines begin with `%`", ""};
  }

  Trouble trouble_at(const yaml_mark_t& mark, std::string message, std::string hint = "") const {
    return {mark.line + 1, mark.column + 1, std::move(message), std::move(hint)};
  }

  Trouble parser_trouble() const {
    if (parser_.error == YAML_MEMORY_ERROR) throw Error(Fault::Bug, "libyaml is out of memory");
    if (parser_.error == YAML_READER_ERROR) {
      const Place place = place_of(text_, parser_.problem_offset);
      return {place.line, place.column, parser_.problem, ""};
    }
    const std::size_t byte = index_->byte(parser_.problem_mark.index);
    const char found = byte < text_.size() ? text_[byte] : '\0';
    std::string message = parser_.problem == nullptr ? "not valid YAML" : parser_.problem;
    std::string hint;
    if (message == "found character that cannot start any token") {
      if (found == '\t') {
        message = "a tab cannot indent YAML";
        hint = "use blanks";
      } else {
        message = fmt::format("a plain value cannot begin with `{}`", found);
        hint = "put it in quotes";
      }
    } else if (message == "mapping values are not allowed in this context") {
      hint =
          "a value that has `: ` in it needs quotes; is the line above indented as it should be?";
    } else if (message == "could not find expected ':'" || message == "did not find expected key") {
      hint = "is the indentation right, and are quotes and brackets closed?";
    }
    if (parser_.context != nullptr) {
      message += fmt::format(" ({}", parser_.context);
      if (parser_.context_mark.line != parser_.problem_mark.line)
        message += fmt::format(" that begins at line {}", parser_.context_mark.line + 1);
      message += ")";
    }
    return trouble_at(parser_.problem_mark, std::move(message), std::move(hint));
  }

  std::size_t byte(const yaml_mark_t& mark) const { return index_->byte(mark.index); }

  Place place(const yaml_mark_t& start, const yaml_mark_t& end) const {
    return {start.line + 1, start.column + 1, byte(start) + offset_, byte(end) + offset_};
  }

  /// The place of what stands behind an anchor and a tag.
  Place place_behind_properties(const yaml_event_t& event) const {
    Place result = place(event.start_mark, event.end_mark);
    std::size_t at = result.begin - offset_;
    const std::size_t end = event.type == YAML_SCALAR_EVENT ? result.end - offset_ : text_.size();
    while (at < end) {
      const char c = text_[at];
      if (c == '&' || c == '!') {
        while (at < end && std::strchr(" \t\r\n", text_[at]) == nullptr) ++at;
      } else if (c == '#') {
        at = std::min(line_end(text_, at), end);
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++at;
      } else {
        break;
      }
    }
    const std::size_t from = result.begin - offset_;
    const std::string_view skipped = text_.substr(from, at - from);
    const Place step = place_of(skipped, skipped.size());
    const std::size_t before = step.line == 1 ? result.column - 1 : 0;
    return {result.line + step.line - 1, before + step.column, at + offset_, result.end};
  }

  void take(const yaml_event_t& event) {
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        anchors_.clear();
        starts_.push_back({byte(event.start_mark), event.data.document_start.implicit == 0});
        return;
      case YAML_SCALAR_EVENT:
        return take_scalar(event);
      case YAML_ALIAS_EVENT:
        return take_alias(event);
      case YAML_SEQUENCE_START_EVENT:
        return open(event, Value::list(), view(event.data.sequence_start.anchor),
                    view(event.data.sequence_start.tag),
                    event.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE);
      case YAML_MAPPING_START_EVENT:
        return open(event, Value::map(), view(event.data.mapping_start.anchor),
                    view(event.data.mapping_start.tag),
                    event.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        return close(event);
      default:
        return;
    }
  }

  void take_scalar(const yaml_event_t& event) {
    const auto& raw = event.data.scalar;
    const std::string_view tag = view(raw.tag);
    const bool properties = !tag.empty() || raw.anchor != nullptr;
    Place where =
        properties ? place_behind_properties(event) : place(event.start_mark, event.end_mark);
    Value value =
        typed(event, std::string{reinterpret_cast<const char*>(raw.value), raw.length}, tag);
    const bool block =
        raw.style == YAML_LITERAL_SCALAR_STYLE || raw.style == YAML_FOLDED_SCALAR_STYLE;
    if (has_comments_ && where.end > where.begin) {
      std::size_t begin = where.begin - offset_;
      // The line of the `|` may end with a comment.
      if (block) begin = std::min(line_end(text_, begin), where.end - offset_);
      covered_.push_back({begin, where.end - offset_});
    }
    if (block) where = {where.line, where.column, where.begin, block_end(where)};
    value.set_place(where);
    count({1, 0}, event.start_mark);
    if (raw.anchor != nullptr) remember(std::string{view(raw.anchor)}, value, event.start_mark);
    add(std::move(value), event);
  }

  /// libyaml's end of a block scalar is behind all blank lines that follow. They belong to it only
  /// if it keeps them.
  std::size_t block_end(const Place& where) const {
    std::size_t at = where.begin - offset_;
    const auto first_line = text_.substr(at, line_end(text_, at) - at);
    const bool keep =
        first_line.substr(0, std::min<std::size_t>(3, first_line.find('#'))).find('+') !=
        std::string_view::npos;
    std::size_t end = where.end - offset_;
    const auto drop_break = [&] {
      if (end > at && text_[end - 1] == '\n') --end;
      if (end > at && text_[end - 1] == '\r') --end;
    };
    if (keep) {
      drop_break();
    } else {
      while (end > at && (text_[end - 1] == '\n' || text_[end - 1] == '\r')) --end;
    }
    return end + offset_;
  }

  Value typed(const yaml_event_t& event, std::string text, std::string_view tag) const {
    Style style = Style::Plain;
    switch (event.data.scalar.style) {
      case YAML_SINGLE_QUOTED_SCALAR_STYLE:
        style = Style::Single;
        break;
      case YAML_DOUBLE_QUOTED_SCALAR_STYLE:
        style = Style::Double;
        break;
      case YAML_LITERAL_SCALAR_STYLE:
        style = Style::Literal;
        break;
      case YAML_FOLDED_SCALAR_STYLE:
        style = Style::Folded;
        break;
      default:
        break;
    }
    // A lone `!` does not change how go-yaml types a scalar.
    const std::string named = short_tag(tag);
    Kind kind = style == Style::Plain ? resolve_plain(text) : Kind::String;
    if (!named.empty()) {
      static const std::unordered_map<std::string_view, Kind> wanted_kinds{
          {"!!null", Kind::Null},   {"!!bool", Kind::Bool},           {"!!int", Kind::Int},
          {"!!float", Kind::Float}, {"!!timestamp", Kind::Timestamp},
      };
      const auto wanted = wanted_kinds.find(named);
      if (wanted == wanted_kinds.end()) {
        kind = Kind::String;  // !!str, !!binary and the user's own tags
      } else {
        const Kind found = resolve_plain(text);
        if (found != wanted->second && !(found == Kind::Int && wanted->second == Kind::Float))
          throw trouble_at(event.start_mark, fmt::format("`{}` is no {}", shown(text), named));
        kind = wanted->second;
      }
    }
    Value value = Value::scalar(kind, std::move(text), style);
    value.set_tag(named);
    return value;
  }

  static std::string short_tag(std::string_view tag) {
    if (tag == "!") return "";
    if (tag.starts_with(core_tag_prefix))
      return "!!" + std::string{tag.substr(core_tag_prefix.size())};
    return std::string{tag};
  }

  static std::string shown(std::string_view text) {
    std::size_t end = std::min<std::size_t>(text.size(), 40);
    while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
      --end;
    std::string out{text.substr(0, end)};
    std::replace_if(
        out.begin(), out.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
    return out + (end < text.size() ? "…" : "");
  }

  void take_alias(const yaml_event_t& event) {
    const std::string name{view(event.data.alias.anchor)};
    const auto found = anchors_.find(name);
    if (found == anchors_.end())
      throw trouble_at(
          event.start_mark,
          fmt::format("`*{}` stands for nothing: there is no `&{}` before it", name, name));
    if (found->second.open)
      throw trouble_at(event.start_mark,
                       fmt::format("`*{}` stands inside of what it stands for", name));
    count(found->second.weight, event.start_mark);
    repeated_ += found->second.weight.values;
    if (repeated_ > limits_.repeated)
      throw trouble_at(event.start_mark,
                       fmt::format("aliases stand for more than {} values", limits_.repeated));
    Value value = found->second.value;
    value.set_place(place(event.start_mark, event.end_mark));
    add(std::move(value), event);
  }

  void open(const yaml_event_t& event, Value value, std::string_view anchor, std::string_view tag,
            bool flow) {
    if (stack_.size() >= limits_.depth)
      throw trouble_at(event.start_mark,
                       fmt::format("nested deeper than {} levels", limits_.depth));
    count({1, 0}, event.start_mark);
    refuse_as_key(event);
    value.set_place(anchor.empty() && tag.empty() ? place(event.start_mark, event.end_mark)
                                                  : place_behind_properties(event));
    value.set_style(flow ? Style::Flow : Style::Block);
    value.set_tag(short_tag(tag));
    if (!anchor.empty()) anchors_[std::string{anchor}] = Anchor{{}, {}, true};
    Frame& frame = stack_.emplace_back();
    frame.value = std::move(value);
    frame.anchor = anchor;
  }

  void close(const yaml_event_t& event) {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    Place where = frame.value.place();
    if (frame.value.style() == Style::Flow) {
      where = {where.line, where.column, where.begin, byte(event.end_mark) + offset_};
    } else if (frame.value.is_list()) {
      where.end = where.begin + 1;
      if (!frame.value.items().empty())
        where.end = std::max(where.end, frame.value.items().back().place().end);
    } else if (!frame.value.entries().empty()) {
      const Entry& last = frame.value.entries().back();
      where.end = std::max(last.key_place.end, last.value.place().end);
    }
    frame.value.set_place(where);
    if (!frame.anchor.empty()) remember(frame.anchor, frame.value, event.start_mark);
    add(std::move(frame.value), event);
  }

  void remember(const std::string& name, const Value& value, const yaml_mark_t& mark) {
    const Weight weight = weigh(value);
    count(weight, mark);  // the copy kept here is memory, too
    anchors_[name] = Anchor{value, weight, false};
  }

  void count(const Weight& weight, const yaml_mark_t& mark) {
    values_ += weight.values;
    bytes_ += weight.bytes;
    if (values_ > limits_.values)
      throw trouble_at(
          mark, fmt::format("more than {} values once aliases are expanded", limits_.values));
    if (bytes_ > 8 * limits_.size)
      throw trouble_at(
          mark, fmt::format("more than {} bytes once aliases are expanded", 8 * limits_.size));
  }

  bool wants_key() const {
    return !stack_.empty() && stack_.back().value.is_map() && !stack_.back().has_key;
  }

  void refuse_as_key(const yaml_event_t& event) const {
    if (wants_key())
      throw trouble_at(event.start_mark, "a key must be a scalar, not a list or a map");
  }

  void add(Value value, const yaml_event_t& event) {
    if (stack_.empty()) {
      documents_.push_back(std::move(value));
      return;
    }
    Frame& frame = stack_.back();
    if (frame.value.is_list()) {
      frame.value.items().push_back(std::move(value));
    } else if (!frame.has_key) {
      take_key(frame, std::move(value), event);
    } else {
      frame.entry.value = std::move(value);
      frame.value.entries().push_back(std::move(frame.entry));
      frame.has_key = false;
    }
  }

  void take_key(Frame& frame, Value value, const yaml_event_t& event) {
    if (!value.is_scalar()) refuse_as_key(event);
    frame.entry = Entry{};
    frame.entry.key = value.text();
    frame.entry.key_place = value.place();
    frame.has_key = true;
    refuse_second(frame, event);
    if (!value.is_string() || value.style() != Style::Plain || !value.tag().empty())
      frame.entry.set_key_value(std::move(value));
  }

  void refuse_second(Frame& frame, const yaml_event_t& event) {
    constexpr std::size_t few = 16;
    const auto& entries = frame.value.entries();
    bool second = false;
    if (entries.size() < few) {
      second = frame.value.find(frame.entry.key) != nullptr;
    } else {
      if (entries.size() == few)
        for (const Entry& entry : entries) frame.keys.insert(entry.key);
      second = !frame.keys.insert(frame.entry.key).second;
    }
    if (!second || troubles_.size() >= 100) return;
    const auto first = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& e) { return e.key == frame.entry.key; });
    troubles_.push_back(trouble_at(
        event.start_mark,
        fmt::format("key `{}` stands twice in this map; the first is at line {}, column {}",
                    shown(frame.entry.key), first->key_place.line, first->key_place.column),
        "keep one of them"));
  }

  std::string_view whole_;
  std::string_view text_;
  std::size_t offset_ = 0;
  Limits limits_;
  std::optional<CharacterIndex> index_;
  yaml_parser_t parser_{};
  bool has_comments_ = false;
  std::vector<Frame> stack_;
  std::vector<Value> documents_;
  std::vector<DocumentStart> starts_;
  std::vector<Covered> covered_;
  std::unordered_map<std::string, Anchor> anchors_;
  std::size_t values_ = 0;
  std::size_t repeated_ = 0;
  std::size_t bytes_ = 0;
  std::vector<Trouble> troubles_;
};

/// A merge that Git could not do breaks the syntax somewhere below: its cause is what helps.
std::optional<Trouble> find_conflict(std::string_view text) {
  constexpr std::string_view ours = "<<<<<<< ";
  constexpr std::string_view theirs = "\n>>>>>>> ";
  std::size_t at = 0;
  while (at != std::string_view::npos && !text.substr(at).starts_with(ours)) {
    at = text.find('\n', at);
    if (at != std::string_view::npos) ++at;
  }
  if (at == std::string_view::npos || text.find(theirs, at) == std::string_view::npos)
    return std::nullopt;
  const auto line = static_cast<std::size_t>(
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  return Trouble{line, 1, "the file holds conflict markers of Git",
                 "finish the merge: keep one side of each conflict, and remove the marker lines"};
}

std::vector<Value> read_stream(std::string_view text, const Limits& limits,
                               std::vector<Trouble>& troubles) {
  try {
    Reader reader(text, limits);
    try {
      auto documents = reader.read();
      troubles = std::move(reader.troubles());
      return documents;
    } catch (const Trouble&) {
      troubles = std::move(reader.troubles());
      throw;
    }
  } catch (const Trouble& trouble) {
    troubles.push_back(trouble);
  }
  if (auto conflict = find_conflict(text)) troubles = {std::move(*conflict)};
  return {};
}

Value the_only(std::string_view text, std::vector<Value> documents,
               std::vector<Trouble>& troubles) {
  if (documents.empty()) {
    // A text of comments alone has no document for libyaml; here they stay with the nothing that
    // they speak of.
    documents.push_back(Value::plain(""));
    documents.front().set_place({1, 1, text.size(), text.size()});
    if (troubles.empty()) attach_comments(text, 0, {}, documents, {});
  }
  if (documents.size() > 1) {
    const Place& second = documents[1].place();
    troubles.push_back({second.line, second.column,
                        fmt::format("one document is wanted here, not {}", documents.size()),
                        "take the `---` line away, or put the documents into files of their own"});
  }
  return std::move(documents.front());
}

}  // namespace

std::vector<Value> parse_yaml_stream(std::string_view text, std::string_view name,
                                     const Limits& limits) {
  std::vector<Trouble> troubles;
  auto documents = read_stream(text, limits, troubles);
  if (!troubles.empty()) throw_trouble(name, troubles.front());
  return documents;
}

Value parse_yaml(std::string_view text, std::string_view name, const Limits& limits) {
  std::vector<Trouble> troubles;
  Value value = the_only(text, read_stream(text, limits, troubles), troubles);
  if (!troubles.empty()) throw_trouble(name, troubles.front());
  return value;
}

std::optional<Value> parse_yaml(std::string_view text, std::string_view name,
                                Diagnostics& diagnostics, const Limits& limits) {
  std::vector<Trouble> troubles;
  Value value = the_only(text, read_stream(text, limits, troubles), troubles);
  report_trouble(name, text, troubles, diagnostics);
  if (!troubles.empty()) return std::nullopt;
  return value;
}

}  // namespace rocca::text
