#include "secrets/sops_pattern.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace rocca::secrets::sops {
namespace {

constexpr std::size_t most_steps = 20'000;
constexpr int most_depth = 200;
constexpr int most_repeats = 1000;  // as RE2

std::vector<char32_t> characters(std::string_view text) {
  std::vector<char32_t> out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t size = lead < 0x80    ? 1
                             : lead >= 0xF0 ? 4
                             : lead >= 0xE0 ? 3
                             : lead >= 0xC0 ? 2
                                            : 1;
    char32_t code = size == 1 ? lead : lead & (0xFFu >> (size + 1));
    bool whole = at + size <= text.size();
    for (std::size_t i = 1; whole && i < size; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      if ((next & 0xC0) != 0x80) whole = false;
      code = (code << 6) | (next & 0x3F);
    }
    out.push_back(whole ? code : lead);
    at += whole ? size : 1;
  }
  return out;
}

char32_t folded(char32_t c) {
  return c >= 'A' && c <= 'Z' ? c + 32 : c;
}
bool is_word(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}

}  // namespace

bool Pattern::Class::contains(char32_t c) const {
  const bool inside = std::any_of(ranges.begin(), ranges.end(),
                                  [&](const auto& r) { return c >= r.first && c <= r.second; });
  return inside != negated;
}

/// Reads an expression into a tree, then writes the tree as steps.
class PatternParser {
 public:
  PatternParser(std::string_view expression, Pattern& pattern)
      : shown_(expression), text_(characters(expression)), pattern_(pattern) {}

  void compile() {
    const auto tree = alternatives(0);
    if (at_ < text_.size()) fail("a `)` has no `(`");
    write(*tree);
    step({Pattern::Op::Match, 0, false, 0, 0});
  }

 private:
  struct Node {
    enum class Kind { Empty, Leaf, Sequence, Either, Repeat } kind = Kind::Empty;
    Pattern::Step leaf;
    std::vector<std::unique_ptr<Node>> children;
    int least = 0;
    int most = -1;  // -1: no end
  };
  using Tree = std::unique_ptr<Node>;

  [[noreturn]] void fail(std::string_view why) const {
    throw Error(Fault::Usage, fmt::format("`{}` is no regular expression: {}", shown_, why));
  }

  bool more() const { return at_ < text_.size(); }
  bool next_is(char32_t c) const { return more() && text_[at_] == c; }
  bool take(char32_t c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (text_.size() - at_ < word.size() ||
        !std::equal(word.begin(), word.end(), text_.begin() + static_cast<std::ptrdiff_t>(at_)))
      return false;
    at_ += word.size();
    return true;
  }

  static Tree make(typename Node::Kind kind) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    return node;
  }
  static Tree leaf(Pattern::Step step) {
    auto node = make(Node::Kind::Leaf);
    node->leaf = step;
    return node;
  }

  Tree alternatives(int depth) {
    if (depth > most_depth) fail("it is nested too deeply");
    auto either = make(Node::Kind::Either);
    either->children.push_back(sequence(depth));
    while (take('|')) either->children.push_back(sequence(depth));
    return either->children.size() == 1 ? std::move(either->children.front()) : std::move(either);
  }

  Tree sequence(int depth) {
    auto all = make(Node::Kind::Sequence);
    while (more() && !next_is('|') && !next_is(')')) {
      Tree one = atom(depth);
      while (auto repeat = repetition()) {
        repeat->children.push_back(std::move(one));
        one = std::move(repeat);
      }
      all->children.push_back(std::move(one));
    }
    return all;
  }

  Tree repetition() {
    int least = 0;
    int most = -1;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (next_is('{')) {
      const std::size_t start = at_++;
      const auto low = number();
      bool open = false;
      std::optional<int> high = low;
      if (take(',')) {
        high = number();
        open = !high;
      }
      if (!low || !take('}')) {
        at_ = start;  // RE2 takes a brace that repeats nothing as itself
        return nullptr;
      }
      least = *low;
      most = open ? -1 : *high;
      if (least > most_repeats || most > most_repeats || (most >= 0 && most < least))
        fail("bad repeat count");
    } else {
      return nullptr;
    }
    take('?');  // lazy or not, the question is only whether there is a match
    auto node = make(Node::Kind::Repeat);
    node->least = least;
    node->most = most;
    return node;
  }

  std::optional<int> number() {
    int value = 0;
    const std::size_t start = at_;
    while (more() && is_digit(text_[at_]) && value <= most_repeats)
      value = value * 10 + static_cast<int>(text_[at_++] - '0');
    return at_ == start ? std::nullopt : std::optional{value};
  }

  Tree atom(int depth) {
    const char32_t c = text_[at_++];
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        return leaf(set());
      case '.':
        return leaf({dot_all_ ? Pattern::Op::Any : Pattern::Op::AnyButNewline, 0, false, 0, 0});
      case '^':
        return leaf({lines_ ? Pattern::Op::LineBegin : Pattern::Op::TextBegin, 0, false, 0, 0});
      case '$':
        return leaf({lines_ ? Pattern::Op::LineEnd : Pattern::Op::TextEnd, 0, false, 0, 0});
      case '*':
      case '+':
      case '?':
        fail("nothing stands before a repeat sign");
      case '\\':
        return escape();
      default:
        return character(c);
    }
  }

  Tree character(char32_t c) const {
    return leaf({Pattern::Op::Char, fold_ ? folded(c) : c, fold_, 0, 0});
  }

  Tree group(int depth) {
    const auto [fold, lines, dot_all] = std::tuple{fold_, lines_, dot_all_};
    if (take('?')) {
      if (take(U"P<") || take('<')) {
        if (next_is('=') || next_is('!')) fail("look-behind is not known to RE2");
        while (more() && !next_is('>')) ++at_;
        if (!take('>')) fail("a group's name has no end");
      } else if (next_is('=') || next_is('!')) {
        fail("look-ahead is not known to RE2");
      } else if (flags()) {
        return make(Node::Kind::Empty);  // `(?i)` holds until the end of the group around it
      }
    }
    Tree inside = alternatives(depth + 1);
    if (!take(')')) fail("a `(` has no `)`");
    fold_ = fold;
    lines_ = lines;
    dot_all_ = dot_all;
    return inside;
  }

  /// Behind `(?`: true if it was flags alone, false if a group with `:` follows.
  bool flags() {
    bool on = true;
    for (; more(); ++at_) {
      switch (text_[at_]) {
        case 'i':
          fold_ = on;
          break;
        case 'm':
          lines_ = on;
          break;
        case 's':
          dot_all_ = on;
          break;
        case 'U':
          break;
        case '-':
          on = false;
          break;
        case ':':
          ++at_;
          return false;
        case ')':
          ++at_;
          return true;
        default:
          fail("unknown flag behind `(?`");
      }
    }
    fail("a `(` has no `)`");
  }

  /// The ranges of `\d`, `\s`, `\w` and their opposites.
  static bool add_perl_class(char32_t c, Pattern::Class& out) {
    const auto add = [&](bool negated, std::vector<std::pair<char32_t, char32_t>> ranges) {
      if (!negated) {
        out.ranges.insert(out.ranges.end(), ranges.begin(), ranges.end());
        return;
      }
      char32_t from = 0;
      for (const auto& [low, high] : ranges) {
        if (low > from) out.ranges.push_back({from, low - 1});
        from = high + 1;
      }
      out.ranges.push_back({from, 0x10FFFF});
    };
    switch (c) {
      case 'd':
      case 'D':
        add(c == 'D', {{'0', '9'}});
        return true;
      case 's':
      case 'S':
        add(c == 'S', {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}});
        return true;
      case 'w':
      case 'W':
        add(c == 'W', {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
        return true;
      default:
        return false;
    }
  }

  /// The character that an escape stands for.
  char32_t escaped(char32_t c) {
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'x': {
        const bool braces = take('{');
        char32_t code = 0;
        int digits = 0;
        while (more() && (braces ? !next_is('}') : digits < 2)) {
          const char32_t d = folded(text_[at_++]);
          if (!is_digit(d) && !(d >= 'a' && d <= 'f')) fail("bad digit behind `\\x`");
          code = code * 16 + (is_digit(d) ? d - '0' : d - 'a' + 10);
          if (++digits > 6) fail("too many digits behind `\\x`");
        }
        if (digits == 0 || (braces && !take('}')) || (!braces && digits != 2))
          fail("`\\x` wants two digits");
        return code;
      }
      default:
        if (is_word(c) && c != '_')
          fail(fmt::format("`\\{}` is not known", static_cast<char>(c < 0x80 ? c : '?')));
        return c;
    }
  }

  Tree escape() {
    if (!more()) fail("a `\\` stands at the end");
    const char32_t c = text_[at_++];
    switch (c) {
      case 'A':
        return leaf({Pattern::Op::TextBegin, 0, false, 0, 0});
      case 'z':
        return leaf({Pattern::Op::TextEnd, 0, false, 0, 0});
      case 'b':
        return leaf({Pattern::Op::WordEdge, 0, false, 0, 0});
      case 'B':
        return leaf({Pattern::Op::NoWordEdge, 0, false, 0, 0});
      case 'Q': {
        auto all = make(Node::Kind::Sequence);
        while (more() && !take(U"\\E")) all->children.push_back(character(text_[at_++]));
        return all;
      }
      default:
        break;
    }
    Pattern::Class set;
    if (add_perl_class(c, set)) return leaf(keep(std::move(set)));
    return character(escaped(c));
  }

  Pattern::Step keep(Pattern::Class set) {
    pattern_.classes_.push_back(std::move(set));
    return {Pattern::Op::Set, 0, fold_, pattern_.classes_.size() - 1, 0};
  }

  Pattern::Step set() {
    Pattern::Class out;
    out.negated = take('^');
    for (bool first = true;; first = false) {
      if (!more()) fail("a `[` has no `]`");
      if (!first && take(']')) break;
      if (take(U"[:")) {
        named_class(out);
        continue;
      }
      char32_t low = text_[at_++];
      if (low == '\\') {
        if (!more()) fail("a `\\` stands at the end");
        const char32_t c = text_[at_++];
        if (add_perl_class(c, out)) continue;
        low = escaped(c);
      }
      char32_t high = low;
      if (next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        high = text_[at_++];
        if (high == '\\') {
          if (!more()) fail("a `\\` stands at the end");
          high = escaped(text_[at_++]);
        }
        if (high < low) fail("a range ends before it begins");
      }
      out.ranges.push_back({low, high});
    }
    return keep(std::move(out));
  }

  void named_class(Pattern::Class& out) {
    std::string name;
    while (more() && !next_is(':')) name += static_cast<char>(text_[at_++]);
    if (!take(U":]")) fail("a class name has no end");
    const auto add = [&](std::initializer_list<std::pair<char32_t, char32_t>> ranges) {
      out.ranges.insert(out.ranges.end(), ranges);
    };
    if (name == "alnum")
      add({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}});
    else if (name == "alpha")
      add({{'A', 'Z'}, {'a', 'z'}});
    else if (name == "digit")
      add({{'0', '9'}});
    else if (name == "lower")
      add({{'a', 'z'}});
    else if (name == "upper")
      add({{'A', 'Z'}});
    else if (name == "space")
      add({{'\t', '\r'}, {' ', ' '}});
    else if (name == "punct")
      add({{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}});
    else if (name == "word")
      add({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
    else if (name == "xdigit")
      add({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
    else
      fail("unknown class name");
  }

  std::size_t step(const Pattern::Step& step) {
    if (pattern_.steps_.size() >= most_steps) fail("it is too large");
    pattern_.steps_.push_back(step);
    return pattern_.steps_.size() - 1;
  }

  void write(const Node& node) {
    auto& steps = pattern_.steps_;
    switch (node.kind) {
      case Node::Kind::Empty:
        return;
      case Node::Kind::Leaf:
        step(node.leaf);
        return;
      case Node::Kind::Sequence:
        for (const auto& child : node.children) write(*child);
        return;
      case Node::Kind::Either: {
        std::vector<std::size_t> ends;
        for (std::size_t i = 0; i + 1 < node.children.size(); ++i) {
          const std::size_t split = step({Pattern::Op::Split, 0, false, steps.size() + 1, 0});
          write(*node.children[i]);
          ends.push_back(step({Pattern::Op::Jump, 0, false, 0, 0}));
          steps[split].y = steps.size();
        }
        write(*node.children.back());
        for (const std::size_t end : ends) steps[end].x = steps.size();
        return;
      }
      case Node::Kind::Repeat: {
        const Node& child = *node.children.front();
        for (int i = 0; i < node.least; ++i) write(child);
        if (node.most < 0) {
          const std::size_t split = step({Pattern::Op::Split, 0, false, steps.size() + 1, 0});
          write(child);
          step({Pattern::Op::Jump, 0, false, split, 0});
          steps[split].y = steps.size();
          return;
        }
        std::vector<std::size_t> splits;
        for (int i = node.least; i < node.most; ++i) {
          splits.push_back(step({Pattern::Op::Split, 0, false, steps.size() + 1, 0}));
          write(child);
        }
        for (const std::size_t split : splits) steps[split].y = steps.size();
        return;
      }
    }
  }

  std::string_view shown_;
  std::vector<char32_t> text_;
  std::size_t at_ = 0;
  bool fold_ = false;
  bool lines_ = false;
  bool dot_all_ = false;
  Pattern& pattern_;
};

Pattern::Pattern(std::string_view expression) {
  PatternParser(expression, *this).compile();
}

void Pattern::follow(std::size_t from, std::size_t at, const std::vector<char32_t>& text,
                     std::vector<std::size_t>& states, std::vector<bool>& seen) const {
  std::vector<std::size_t> waiting{from};
  while (!waiting.empty()) {
    const std::size_t index = waiting.back();
    waiting.pop_back();
    if (seen[index]) continue;
    seen[index] = true;
    const Step& step = steps_[index];
    const bool before = at > 0 && is_word(text[at - 1]);
    const bool after = at < text.size() && is_word(text[at]);
    bool pass = false;
    switch (step.op) {
      case Op::Split:
        waiting.push_back(step.y);
        waiting.push_back(step.x);
        continue;
      case Op::Jump:
        waiting.push_back(step.x);
        continue;
      case Op::TextBegin:
        pass = at == 0;
        break;
      case Op::TextEnd:
        pass = at == text.size();
        break;
      case Op::LineBegin:
        pass = at == 0 || text[at - 1] == '\n';
        break;
      case Op::LineEnd:
        pass = at == text.size() || text[at] == '\n';
        break;
      case Op::WordEdge:
        pass = before != after;
        break;
      case Op::NoWordEdge:
        pass = before == after;
        break;
      default:
        states.push_back(index);
        continue;
    }
    if (pass) waiting.push_back(index + 1);
  }
}

bool Pattern::found_in(std::string_view bytes) const {
  const std::vector<char32_t> text = characters(bytes);
  std::vector<std::size_t> states;
  std::vector<std::size_t> next;
  std::vector<bool> seen(steps_.size());
  for (std::size_t at = 0;; ++at) {
    // A match may begin at every character. The states of earlier beginnings are already here.
    seen.assign(steps_.size(), false);
    std::vector<std::size_t> current;
    for (const std::size_t state : states) follow(state, at, text, current, seen);
    follow(0, at, text, current, seen);
    next.clear();
    for (const std::size_t state : current) {
      const Step& step = steps_[state];
      if (step.op == Op::Match) return true;
      if (at == text.size()) continue;
      const char32_t c = text[at];
      bool fits = false;
      switch (step.op) {
        case Op::Char:
          fits = (step.fold ? folded(c) : c) == step.c;
          break;
        case Op::Any:
          fits = true;
          break;
        case Op::AnyButNewline:
          fits = c != '\n';
          break;
        case Op::Set: {
          const Class& set = classes_[step.x];
          fits = set.contains(c);
          if (step.fold && !fits && c < 0x80)
            fits = set.contains(folded(c)) || (c >= 'a' && c <= 'z' && set.contains(c - 32));
          break;
        }
        default:
          break;
      }
      if (fits) next.push_back(state + 1);
    }
    if (at == text.size()) return false;
    states.swap(next);
  }
}

}  // namespace rocca::secrets::sops
