#include "text/comments.hpp"

#include "text/source.hpp"

#include <algorithm>
#include <string>

namespace rocca::text {
namespace {

struct Comment {
  std::size_t begin;   // of the `#`
  std::size_t end;     // of its line
  std::size_t column;  // from 1; counts bytes, which are all blanks where the column matters
  bool own_line;
  std::string text;
};

/// An entry of a map or an item of a list: something that comments can belong to.
struct Slot {
  std::size_t begin;   // of the key or the dash
  std::size_t column;  // of the key or the dash
  std::size_t value_begin;
  std::size_t value_end;
  bool flow_value;
  bool block_value;  // a block list or map
  bool in_flow;
  int parent;  // index, or -1
  Value* item;
  Entry* entry;

  Comments& comments() const { return entry != nullptr ? entry->comments() : item->comments(); }
};

/// The places of one document that comments can hang on, in the order of the text.
class Slots {
 public:
  Slots(std::string_view text, std::size_t offset, Value& root) : text_(text), offset_(offset) {
    walk(root, -1, false);
  }

  const std::vector<Slot>& all() const { return slots_; }

 private:
  bool is_alias(const Value& value) const {
    const std::size_t begin = value.place().begin - offset_;
    return begin < text_.size() && text_[begin] == '*';
  }

  void walk(Value& value, int parent, bool in_flow) {
    // What an alias stands for lies elsewhere in the text, and its comments belong there.
    if (value.is_scalar() || is_alias(value)) return;
    const bool flow = in_flow || value.style() == Style::Flow;
    std::size_t from = value.place().begin - offset_;
    for (Value& item : value.items()) {
      const std::size_t begin = flow ? item.place().begin - offset_ : find_dash(from);
      add(begin, value.place().column, item, parent, flow, &item, nullptr);
      from = std::max(begin + 1, item.place().end - offset_);
    }
    for (Entry& entry : value.entries())
      add(entry.key_place.begin - offset_, entry.key_place.column, entry.value, parent, flow,
          nullptr, &entry);
  }

  void add(std::size_t begin, std::size_t column, Value& value, int parent, bool in_flow,
           Value* item, Entry* entry) {
    const bool collection = !value.is_scalar() && !is_alias(value);
    slots_.push_back({begin, column, value.place().begin - offset_, value.place().end - offset_,
                      collection && value.style() == Style::Flow,
                      collection && value.style() == Style::Block, in_flow, parent, item, entry});
    walk(value, static_cast<int>(slots_.size()) - 1, in_flow);
  }

  std::size_t find_dash(std::size_t at) const {
    while (at < text_.size() && text_[at] != '-')
      at = text_[at] == '#' ? line_end(text_, at) : at + 1;
    return at;
  }

  std::string_view text_;
  std::size_t offset_;
  std::vector<Slot> slots_;
};

std::vector<Comment> find_comments(std::string_view text, const std::vector<Covered>& covered) {
  std::vector<Comment> comments;
  std::size_t at = 0;
  std::size_t next = 0;  // of covered
  while ((at = text.find('#', at)) != std::string_view::npos) {
    while (next < covered.size() && covered[next].end <= at) ++next;
    if (next < covered.size() && covered[next].begin <= at) {
      at = covered[next].end;
      continue;
    }
    const std::size_t end = line_end(text, at);
    const std::size_t line = line_start(text, at);
    const bool own_line =
        text.substr(line, at - line).find_first_not_of(" \t") == std::string_view::npos;
    std::string_view content = text.substr(at + 1, end - at - 1);
    while (!content.empty() && (content.back() == ' ' || content.back() == '\t'))
      content.remove_suffix(1);
    comments.push_back({at, end, at - line + 1, own_line, std::string{content}});
    at = end;
  }
  return comments;
}

/// Is there an empty line, or one with a document marker, between two bytes?
bool is_apart(std::string_view text, std::size_t from, std::size_t to) {
  while (from < to) {
    std::size_t end = std::min(text.find('\n', from), to);
    if (end == to) return false;
    const std::size_t start = end + 1;
    const std::size_t stop = std::min(text.find('\n', start), to);
    const std::string_view line = text.substr(start, stop - start);
    if (stop < to && line.find_first_not_of(" \t\r") == std::string_view::npos) return true;
    if (line.starts_with("---")) return true;
    from = start;
  }
  return false;
}

class Attacher {
 public:
  Attacher(std::string_view text, std::size_t offset, Value& root)
      : text_(text),
        root_(root),
        root_begin_(root.place().begin - offset),
        root_end_(root.place().end - offset),
        slots_(text, offset, root) {}

  /// All comments of the document, in order.
  void attach(std::vector<Comment>& comments) {
    const auto& slots = slots_.all();
    std::size_t next = 0;  // slot behind the comment
    bool foot = false;
    for (std::size_t i = 0; i < comments.size(); ++i) {
      Comment& comment = comments[i];
      while (next < slots.size() && slots[next].begin < comment.begin) ++next;
      if (root_.is_scalar() || (root_.style() == Style::Flow &&
                                !(root_begin_ < comment.begin && comment.begin < root_end_))) {
        attach_to_root(comment);
      } else if (next == 0) {
        const bool head = slots.empty() || stands_apart(comments, i, slots.front().begin);
        (head ? root_.comments() : slots.front().comments())
            .before.push_back(std::move(comment.text));
      } else {
        const Slot* following = next < slots.size() ? &slots[next] : nullptr;
        foot = foot || (following == nullptr && comment.own_line && comment.column == 1 &&
                        comment.begin > root_end_ && is_apart(text_, root_end_, comment.begin));
        if (foot)
          root_.comments().after.push_back(std::move(comment.text));
        else
          attach_between(comment, static_cast<int>(next) - 1, following);
      }
    }
  }

 private:
  /// Does an empty line stand between this comment and `to`, before or behind the comments that
  /// follow it?
  bool stands_apart(const std::vector<Comment>& comments, std::size_t i, std::size_t to) const {
    return is_apart(text_, comments[i].end, to) || !comments[i].own_line;
  }

  void attach_to_root(Comment& comment) {
    Comments& comments = root_.comments();
    if (comment.begin < root_begin_)
      comments.before.push_back(std::move(comment.text));
    else if (!comment.own_line && !comments.beside)
      comments.beside = std::move(comment.text);
    else
      comments.after.push_back(std::move(comment.text));
  }

  void attach_between(Comment& comment, int last, const Slot* following) {
    const auto& slots = slots_.all();
    const auto slot = [&](int index) -> const Slot& {
      return slots[static_cast<std::size_t>(index)];
    };

    // A flow collection around the comment, if there is one.
    int owner = last;
    while (owner >= 0 && !(slot(owner).flow_value && slot(owner).value_begin < comment.begin &&
                           comment.begin < slot(owner).value_end))
      owner = slot(owner).parent;
    const bool in_root_flow = owner < 0 && root_.style() == Style::Flow;
    if (owner >= 0 || in_root_flow) {
      // The last entry directly inside it.
      int inside = last;
      while (inside >= 0 && inside != owner && slot(inside).parent != owner)
        inside = slot(inside).parent;
      const std::size_t end = owner >= 0 ? slot(owner).value_end : root_end_;
      if (!comment.own_line) return beside(comment, inside == owner ? owner : last);
      if (following != nullptr && following->begin < end) return before(comment, *following);
      return after(comment, slot(inside));
    }
    while (slot(last).in_flow) last = slot(last).parent;

    if (!comment.own_line) return beside(comment, last);
    // Between a key and its scalar, or a dash and its flow collection, on a line of its own.
    if (comment.begin < slot(last).value_begin && !slot(last).block_value)
      return before(comment, slot(last));
    // Deeper than what follows: it closes the deepest block that it is indented for.
    for (int at = last; at >= 0 && !holds(at, following); at = slot(at).parent)
      if (slot(at).column <= comment.column &&
          (following == nullptr || slot(at).column > following->column))
        return after(comment, slot(at));
    if (following != nullptr) return before(comment, *following);
    while (slot(last).parent >= 0) last = slot(last).parent;
    after(comment, slot(last));
  }

  bool holds(int ancestor, const Slot* slot) const {
    if (slot == nullptr) return false;
    for (int at = slot->parent; at >= 0; at = slots_.all()[static_cast<std::size_t>(at)].parent)
      if (at == ancestor) return true;
    return false;
  }

  static void before(Comment& comment, const Slot& slot) {
    slot.comments().before.push_back(std::move(comment.text));
  }
  static void after(Comment& comment, const Slot& slot) {
    slot.comments().after.push_back(std::move(comment.text));
  }
  void beside(Comment& comment, int index) const {
    Comments& comments = slots_.all()[static_cast<std::size_t>(index)].comments();
    if (!comments.beside)
      comments.beside = std::move(comment.text);
    else
      comments.after.push_back(std::move(comment.text));
  }

  std::string_view text_;
  Value& root_;
  std::size_t root_begin_;
  std::size_t root_end_;
  Slots slots_;
};

}  // namespace

void attach_comments(std::string_view text, std::size_t offset, const std::vector<Covered>& covered,
                     std::vector<Value>& documents, const std::vector<DocumentStart>& starts) {
  std::vector<Comment> comments = find_comments(text, covered);
  if (documents.empty() || comments.empty()) return;
  std::size_t first = 0;
  for (std::size_t i = 0; i < documents.size() && first < comments.size(); ++i) {
    // What stands before a `---` belongs to the document that ends there, if there is one.
    std::size_t last = comments.size();
    if (i + 1 < starts.size())
      while (last > first && comments[last - 1].begin > starts[i + 1].begin) --last;
    std::vector<Comment> own(
        std::make_move_iterator(comments.begin() + static_cast<std::ptrdiff_t>(first)),
        std::make_move_iterator(comments.begin() + static_cast<std::ptrdiff_t>(last)));
    if (!own.empty()) Attacher(text, offset, documents[i]).attach(own);
    first = last;
  }
}

}  // namespace rocca::text
