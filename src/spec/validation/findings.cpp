#include "spec/validation/findings.hpp"

#include "base/error.hpp"
#include "spec/validation/rules.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::spec {

std::uint32_t Findings::add_file(std::string name, std::string text) {
  names_.push_back(std::move(name));
  texts_.push_back(std::move(text));
  return static_cast<std::uint32_t>(names_.size() - 1);
}

void Findings::add(std::string_view code, const Where& where, std::string message,
                   std::string hint) {
  const Rule* rule = find_rule(code);
  if (rule == nullptr) throw Error(Fault::Bug, fmt::format("no rule is called {}", code));
  add(code, rule->severity, where, std::move(message), std::move(hint));
}

void Findings::add(std::string_view code, Severity severity, const Where& where,
                   std::string message, std::string hint) {
  if (!said_.emplace(std::string(code), where.file, where.line, where.column, message).second)
    return;
  Problem problem;
  problem.severity = severity;
  problem.where = position(where);
  problem.length = std::max<std::size_t>(1, where.length);
  problem.message = std::move(message);
  problem.hint = std::move(hint);
  problem.code = std::string(code);
  findings_.push_back({where, std::move(problem)});
}

void Findings::mask(std::uint32_t file, std::size_t begin, std::size_t end) {
  if (file >= texts_.size()) return;
  std::string& text = texts_[file];
  for (std::size_t at = begin; at < std::min(end, text.size()); ++at)
    if (text[at] != '\n' && text[at] != '\r') text[at] = '*';
}

Position Findings::position(const Where& where) const {
  const std::string name = where.file < names_.size() ? names_[where.file] : std::string();
  return {name, where.line, where.column};
}

Diagnostics Findings::finish() const {
  auto sorted = findings_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.where.file, a.where.line, a.where.column) <
           std::tie(b.where.file, b.where.line, b.where.column);
  });
  Diagnostics diagnostics;
  for (std::size_t i = 0; i < names_.size(); ++i) diagnostics.remember(names_[i], texts_[i]);
  for (Finding& finding : sorted) diagnostics.add(std::move(finding.problem));
  return diagnostics;
}

}  // namespace rocca::spec
