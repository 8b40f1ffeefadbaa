#include "base/diagnostics.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>

namespace rocca {

namespace {

constexpr std::size_t window_width = 100;  // columns of a source line that are shown
constexpr std::size_t tab_width = 4;
constexpr std::size_t message_indent = 4;  // of the lines behind a message's first

/// One character as a terminal shows it.
struct Cell {
  std::string_view text;
  std::size_t width = 1;
};

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

bool in(std::uint32_t code, const auto& ranges) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](Range range) { return range.first <= code && code <= range.last; });
}

/// Columns of a character; a rough cut of Unicode's East Asian Width, exact enough to set a caret.
std::size_t width_of(std::uint32_t code) {
  static constexpr std::array<Range, 6> none{{{0x300, 0x36F},
                                              {0x200B, 0x200F},
                                              {0x202A, 0x202E},
                                              {0x2060, 0x2069},
                                              {0xFE00, 0xFE0F},
                                              {0xFEFF, 0xFEFF}}};
  static constexpr std::array<Range, 8> wide{{{0x1100, 0x115F},
                                              {0x2E80, 0xA4CF},
                                              {0xAC00, 0xD7A3},
                                              {0xF900, 0xFAFF},
                                              {0xFE30, 0xFE6F},
                                              {0xFF00, 0xFF60},
                                              {0x1F300, 0x1FAFF},
                                              {0x20000, 0x3FFFD}}};
  if (in(code, none)) return 0;
  return in(code, wide) ? 2 : 1;
}

/// What visible() would escape is shown as `?`, one column for one character: the caret below
/// stays in its place.
std::vector<Cell> to_cells(std::string_view line) {
  std::vector<Cell> cells;
  while (!line.empty()) {
    const Decoded character = first_character(line);
    if (character.code == '\t') {
      cells.push_back({"    ", tab_width});
    } else if (!character.valid || is_steering(character.code)) {
      cells.push_back({"?", 1});
    } else {
      cells.push_back({line.substr(0, character.size), width_of(character.code)});
    }
    line.remove_prefix(character.size);
  }
  return cells;
}

constexpr std::size_t drawings_per_line = 50;  // further problems of a line have only their place

/// How far into a long line the last problem was: many problems in one line must not count its
/// characters as often.
struct Skipped {
  std::size_t line = 0;
  std::size_t drawings = 0;
  std::size_t characters = 0;
  std::size_t bytes = 0;
};

/// The line and, below it, a caret under `column` with `length` characters underlined. Of a very
/// long line only the part around the caret is shown.
void draw(std::string& out, std::string_view line, const Problem& problem, Skipped& skipped) {
  std::size_t column = problem.where.column == 0 ? 1 : problem.where.column;
  // Far more than can be shown is not worth keeping: a minified file is one line of megabytes.
  const std::size_t to_skip = column > 3 * window_width ? column - 3 * window_width : 0;
  if (skipped.line != problem.where.line) skipped = {.line = problem.where.line};
  if (skipped.characters > to_skip) skipped.characters = skipped.bytes = 0;
  if (++skipped.drawings > drawings_per_line) return;
  line.remove_prefix(skipped.bytes);
  for (; skipped.characters < to_skip && line.size() > 2 * window_width; ++skipped.characters) {
    const std::size_t size = first_character(line).size;
    line.remove_prefix(size);
    skipped.bytes += size;
  }
  column -= skipped.characters;
  bool cut_left = skipped.characters > 0;
  const std::size_t enough = 8 * 4 * window_width;  // bytes; four make the longest character
  const std::vector<Cell> cells = to_cells(line.substr(0, enough));
  const std::size_t caret = std::min(column - 1, cells.size());

  std::size_t first = 0;
  if (caret >= window_width * 3 / 4) first = caret - window_width / 2;
  std::size_t last = first;
  for (std::size_t width = 0; last < cells.size() && width + cells[last].width <= window_width;)
    width += cells[last++].width;
  if (last == cells.size() &&
      first > 0) {  // the end fits: use the whole window for what is before it
    std::size_t width = 0;
    for (std::size_t i = first; i < last; ++i) width += cells[i].width;
    while (first > 0 && width + cells[first - 1].width <= window_width)
      width += cells[--first].width;
  }
  cut_left = cut_left || first > 0;
  const bool cut_right = last < cells.size() || enough < line.size();

  const std::string number = std::to_string(problem.where.line);
  std::string shown = cut_left ? "…" : "";
  std::string marks = cut_left ? " " : "";
  for (std::size_t i = first; i < last; ++i) {
    shown += cells[i].text;
    if (i < caret) marks.append(cells[i].width, ' ');
  }
  if (cut_right) shown += "…";
  marks += '^';
  const std::size_t end = std::min(last, caret + std::max<std::size_t>(problem.length, 1));
  std::size_t underlined = 0;
  for (std::size_t i = caret; i < end; ++i) underlined += cells[i].width;
  if (underlined > 1) marks.append(underlined - 1, '~');

  const std::string_view text = std::string_view{shown}.substr(0, shown.find_last_not_of(' ') + 1);
  out += fmt::format("{:>4} |{}{}\n{:>4} | {}\n", number, text.empty() ? "" : " ", text,
                     std::string(number.size(), ' '), marks);
}

/// A file's lines, found once: many problems in one file must not scan it as often.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    for (std::size_t at = 0; at != std::string_view::npos;) {
      starts_.push_back(at);
      at = text.find('\n', at);
      if (at != std::string_view::npos) ++at;
    }
  }

  std::optional<std::string_view> find(std::size_t number) const {
    if (number == 0 || number > starts_.size()) return std::nullopt;
    const std::size_t start = starts_[number - 1];
    std::string_view line = text_.substr(start, text_.find('\n', start) - start);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_;
};

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::Error:
      return "error";
    case Severity::Warning:
      return "warning";
    case Severity::Note:
      return "note";
  }
  return "error";
}

/// Without case, `-` and `_`: `pod_cidr` is `podCIDR` in another dialect.
std::string folded(std::string_view word) {
  std::string result = to_lower(word);
  std::erase_if(result, [](char c) { return c == '-' || c == '_'; });
  return result;
}

/// Damerau–Levenshtein: steps of one letter more, one less, one other, or two neighbours swapped.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string to_string(const Position& position) {
  if (position.line == 0) return position.file;
  if (position.column == 0) return fmt::format("{}:{}", position.file, position.line);
  return fmt::format("{}:{}:{}", position.file, position.line, position.column);
}

Problem& Diagnostics::error(Position where, std::string message) {
  Problem& problem = problems_.emplace_back();
  problem.where = std::move(where);
  problem.message = std::move(message);
  return problem;
}

Problem& Diagnostics::warning(Position where, std::string message) {
  Problem& problem = error(std::move(where), std::move(message));
  problem.severity = Severity::Warning;
  return problem;
}

Problem& Diagnostics::note(Position where, std::string message) {
  Problem& problem = error(std::move(where), std::move(message));
  problem.severity = Severity::Note;
  return problem;
}

bool Diagnostics::has_errors() const noexcept {
  return count(Severity::Error) > 0;
}

std::size_t Diagnostics::count(Severity severity) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(problems_.begin(), problems_.end(),
                    [&](const Problem& problem) { return problem.severity == severity; }));
}

void Diagnostics::remember(std::string file, std::string text) {
  for (Source& source : sources_) {
    if (source.file != file) continue;
    source.text = std::move(text);
    return;
  }
  sources_.push_back({std::move(file), std::move(text)});
}

const std::string* Diagnostics::find_source(std::string_view file) const noexcept {
  for (const Source& source : sources_)
    if (source.file == file) return &source.text;
  return nullptr;
}

std::string Diagnostics::render() const {
  std::vector<const Problem*> sorted;
  for (const Problem& problem : problems_) sorted.push_back(&problem);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem* a, const Problem* b) {
    return std::tie(a->where.file, a->where.line, a->where.column) <
           std::tie(b->where.file, b->where.line, b->where.column);
  });

  std::map<std::string_view, std::pair<Lines, Skipped>> sources;
  std::string text;
  for (const Problem* problem : sorted) {
    const std::string where = visible(to_string(problem->where));
    text += fmt::format("{}{}{}: {}\n", where, where.empty() ? "" : ": ",
                        name_of(problem->severity), visible(problem->message, message_indent));
    if (const std::string* source = find_source(problem->where.file)) {
      auto& [lines, skipped] =
          sources.try_emplace(problem->where.file, Lines{*source}, Skipped{}).first->second;
      if (const auto line = lines.find(problem->where.line)) draw(text, *line, *problem, skipped);
    }
    if (!problem->hint.empty())
      text += fmt::format("hint: {}\n", visible(problem->hint, message_indent));
  }
  return text;
}

void Diagnostics::throw_if_errors(std::string_view what) const {
  if (const std::size_t errors = count(Severity::Error); errors > 0)
    throw Error(Fault::Usage, fmt::format("{} has {}", what, plural(errors, "error")));
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  constexpr std::size_t longest_word = 64;
  const std::string wanted = folded(word);
  if (wanted.empty() || word.size() > longest_word) return std::nullopt;
  // A third of the letters, three at the most: more than that is another word.
  const std::size_t limit =
      wanted.size() < 2 ? 0 : std::clamp<std::size_t>((wanted.size() + 1) / 3, 1, 3);
  const std::string* best = nullptr;
  std::size_t best_rank = 2 * limit + 2;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > longest_word) continue;
    const std::string other = folded(candidate);
    const std::size_t steps = distance(wanted, other);
    // Not a single letter in its place: `up` is no misspelt `ls`.
    if (steps > 0 && steps >= std::min(wanted.size(), other.size())) continue;
    // Of equals the one with the same first letter: people seldom miss that one.
    const std::size_t rank = 2 * steps + (steps > 0 && wanted.front() != other.front());
    if (rank < best_rank) {
      best = &candidate;
      best_rank = rank;
    }
  }
  if (best != nullptr) return *best;
  // Broken off: `kube` meant `kubeconfig`, if nothing else begins like that.
  if (wanted.size() < 3) return std::nullopt;
  for (const std::string& candidate : candidates) {
    if (!folded(candidate).starts_with(wanted)) continue;
    if (best != nullptr) return std::nullopt;
    best = &candidate;
  }
  return best != nullptr ? std::optional{*best} : std::nullopt;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto found = nearest(word, candidates);
  return found ? fmt::format(" (did you mean `{}`?)", *found) : "";
}

}  // namespace rocca
