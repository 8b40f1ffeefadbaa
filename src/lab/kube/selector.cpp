#include "lab/kube/selector.hpp"

#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/status.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

/// The words of a label selector: identifiers and `( ) , ! = == != in notin gt lt`.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  std::string peek() {
    if (!next_) next_ = read();
    return *next_;
  }
  std::string take() {
    std::string word = peek();
    next_.reset();
    return word;
  }

 private:
  std::string read() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ >= text_.size()) return "";
    static constexpr std::string_view special = "()=!,<>";
    if (special.find(text_[at_]) != std::string_view::npos) {
      const std::size_t begin = at_++;
      if ((text_[begin] == '=' || text_[begin] == '!') && at_ < text_.size() && text_[at_] == '=')
        ++at_;
      return std::string(text_.substr(begin, at_ - begin));
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ' ' &&
           special.find(text_[at_]) == std::string_view::npos)
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<std::string> next_;
};

bool is_special(const std::string& word) {
  return word.empty() || std::string_view("()=!,<>").find(word[0]) != std::string_view::npos;
}

void check_key(const std::string& key) {
  const std::vector<std::string> wrong = wrong_qualified_name(key);
  if (!wrong.empty())
    throw bad_request(fmt::format("unable to parse requirement: <nil>: Invalid value: {}: {}",
                                  in_quotes(key), wrong.front()));
}

void check_values(const std::string& key, const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const auto wrong = wrong_label_value(values[i]); !wrong.empty())
      throw bad_request(
          fmt::format("unable to parse requirement: values[{}][{}]: Invalid value: {}: {}", i, key,
                      in_quotes(values[i]), wrong.front()));
}

}  // namespace

LabelSelector LabelSelector::parse(std::string_view text) {
  LabelSelector out;
  Words words(text);
  if (words.peek().empty()) return out;
  for (;;) {
    Term term;
    if (words.peek() == "!") {
      words.take();
      term.op = "DoesNotExist";
      term.key = words.take();
      if (is_special(term.key))
        throw bad_request(
            fmt::format("unable to parse requirement: found '{}', expected: identifier", term.key));
      check_key(term.key);
    } else {
      if (is_special(words.peek()))
        throw bad_request(
            fmt::format("found '{}', expected: !, identifier, or 'end of string'", words.peek()));
      term.key = words.take();
      check_key(term.key);
      const std::string op = words.peek();
      if (op.empty() || op == ",") {
        term.op = "Exists";
      } else if (op == "=" || op == "==" || op == "!=") {
        words.take();
        term.op = op == "!=" ? "NotIn" : "In";
        const std::string value = words.peek();
        if (value.empty() || value == ",")
          term.values = {""};
        else
          term.values = {words.take()};
      } else if (op == "in" || op == "notin") {
        words.take();
        term.op = op == "in" ? "In" : "NotIn";
        if (words.peek() != "(")
          throw bad_request(
              fmt::format("unable to parse requirement: found '{}' expected: '('", words.peek()));
        words.take();
        if (words.peek() == ")") term.values = {""};
        while (words.peek() != ")") {
          const std::string value = words.take();
          if (value == ",") continue;
          if (is_special(value))
            throw bad_request(fmt::format(
                "unable to parse requirement: found '{}', expected: ',', or identifier", value));
          term.values.push_back(value);
        }
        words.take();
      } else if (op == ">" || op == "<") {
        words.take();
        term.op = op == ">" ? "Gt" : "Lt";
        term.values = {words.take()};
      } else {
        throw bad_request(fmt::format(
            "unable to parse requirement: found '{}', expected: in, notin, =, ==, !=, gt, lt", op));
      }
      check_values(term.key, term.values);
    }
    out.terms_.push_back(std::move(term));
    const std::string end = words.take();
    if (end.empty()) return out;
    if (end != ",")
      throw bad_request(fmt::format("found '{}', expected: ',' or 'end of string'", end));
  }
}

LabelSelector LabelSelector::of(const Value& selector) {
  LabelSelector out;
  if (const Value* labels = selector.find("matchLabels"))
    for (const text::Entry& entry : labels->entries())
      out.terms_.push_back({entry.key, "In", {entry.value.text()}});
  if (const Value* expressions = selector.find("matchExpressions"))
    for (const Value& one : expressions->items()) {
      Term term{text_at(one, {"key"}), text_at(one, {"operator"}), {}};
      if (const Value* values = one.find("values"))
        for (const Value& value : values->items()) term.values.push_back(value.text());
      out.terms_.push_back(std::move(term));
    }
  return out;
}

bool LabelSelector::matches(const Value& object) const {
  return matches_labels(object.find({"metadata", "labels"}));
}

bool LabelSelector::matches_labels(const Value* labels) const {
  for (const Term& term : terms_) {
    const Value* found = labels == nullptr ? nullptr : labels->find(term.key);
    const bool listed = found != nullptr && std::find(term.values.begin(), term.values.end(),
                                                      found->text()) != term.values.end();
    bool holds = false;
    if (term.op == "In") holds = listed;
    if (term.op == "NotIn") holds = !listed;
    if (term.op == "Exists") holds = found != nullptr;
    if (term.op == "DoesNotExist") holds = found == nullptr;
    if (term.op == "Gt" || term.op == "Lt") {
      const auto left = found == nullptr ? std::nullopt : parse_int(found->text());
      const auto right = parse_int(term.values.front());
      holds = left && right && (term.op == "Gt" ? *left > *right : *left < *right);
    }
    if (!holds) return false;
  }
  return true;
}

FieldSelector FieldSelector::parse(std::string_view text) {
  FieldSelector out;
  if (text.empty()) return out;
  for (const std::string& part : split(text, ',')) {
    if (part.empty()) continue;
    const std::size_t at = part.find('=');
    if (at == std::string::npos)
      throw bad_request(fmt::format("invalid selector: '{}'; can't understand '{}'", text, part));
    Term term;
    term.equal = at == 0 || part[at - 1] != '!';
    term.field = part.substr(0, term.equal ? at : at - 1);
    term.value = part.substr(at + (part.substr(at).starts_with("==") ? 2 : 1));
    out.terms_.push_back(std::move(term));
  }
  return out;
}

bool FieldSelector::matches(const Value& object) const {
  for (const Term& term : terms_)
    if ((field_text(object, term.field) == term.value) != term.equal) return false;
  return true;
}

std::vector<std::string> FieldSelector::fields() const {
  std::vector<std::string> out;
  for (const Term& term : terms_) out.push_back(term.field);
  return out;
}

std::optional<std::string> FieldSelector::name() const {
  for (const Term& term : terms_)
    if (term.field == "metadata.name" && term.equal) return term.value;
  return std::nullopt;
}

std::string field_text(const Value& object, std::string_view path) {
  const Value* at = &object;
  for (const std::string& part : split(path, '.')) {
    if (part.empty()) continue;
    at = at->find(part);
    if (at == nullptr) break;
  }
  if (at != nullptr && at->is_scalar() && !at->is_null()) return at->text();
  // Go compares the zero value as text.
  if (path == "spec.unschedulable" || path == "spec.hostNetwork") return "false";
  return "";
}

}  // namespace rocca::lab::kube
