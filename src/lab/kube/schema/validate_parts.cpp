// Checks that several kinds share: labels, selectors, ports, addresses, numbers.
#include "base/strings.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/schema/validate.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

std::string shown_json(const Value* value) {
  return value == nullptr ? "null" : text::emit_json(*value);
}

bool same_values(const Value* a, const Value* b) {
  const bool no_a = is_empty(a), no_b = is_empty(b);
  if (no_a || no_b) return no_a == no_b;
  return *a == *b;
}

void check_text(const std::vector<std::string>& wrong, const std::string& path,
                const std::string& text, Causes& causes) {
  for (const std::string& why : wrong) causes.push_back(Cause::invalid(path, in_quotes(text), why));
}

void check_label_map(const Value* labels, const std::string& path, Causes& causes) {
  if (labels == nullptr || !labels->is_map()) return;
  for (const text::Entry& label : labels->entries()) {
    check_text(wrong_qualified_name(label.key), path, label.key, causes);
    check_text(wrong_label_value(label.value.text()), path, label.value.text(), causes);
  }
}

void check_label_selector(const Value* selector, const std::string& path, Causes& causes) {
  if (selector == nullptr || !selector->is_map()) return;
  check_label_map(selector->find("matchLabels"), path + ".matchLabels", causes);
  const Value* expressions = selector->find("matchExpressions");
  if (expressions == nullptr || !expressions->is_list()) return;
  for (std::size_t i = 0; i < expressions->items().size(); ++i) {
    const Value& one = expressions->items()[i];
    const std::string where = fmt::format("{}.matchExpressions[{}]", path, i);
    const std::string word = text_at(one, {"operator"});
    const Value* values = one.find("values");
    if (word == "In" || word == "NotIn") {
      if (is_empty(values))
        causes.push_back(Cause::required(where + ".values",
                                         "must be specified when `operator` is 'In' or 'NotIn'"));
    } else if (word == "Exists" || word == "DoesNotExist") {
      if (!is_empty(values))
        causes.push_back(
            Cause::forbidden(where + ".values",
                             "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
    } else {
      causes.push_back(
          Cause::invalid(where + ".operator", in_quotes(word), "not a valid selector operator"));
    }
    const std::string key = text_at(one, {"key"});
    check_text(wrong_qualified_name(key), where + ".key", key, causes);
  }
}

void check_least(const Value& object, std::string_view field, const std::string& path,
                 std::int64_t least, Causes& causes) {
  const Value* found = object.find(field);
  if (found == nullptr || !found->as_int() || *found->as_int() >= least) return;
  causes.push_back(Cause::invalid(fmt::format("{}.{}", path, field),
                                  std::to_string(*found->as_int()),
                                  fmt::format("must be greater than or equal to {}", least)));
}

void check_port(std::int64_t port, const std::string& path, Causes& causes) {
  if (port < 1 || port > 65535)
    causes.push_back(
        Cause::invalid(path, std::to_string(port), "must be between 1 and 65535, inclusive"));
}

std::vector<std::string> wrong_port_name(std::string_view name) {
  std::vector<std::string> wrong;
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.size() > 15) wrong.emplace_back("must be no more than 15 characters");
  if (!std::all_of(name.begin(), name.end(),
                   [&](char c) { return is_small(c) || is_digit(c) || c == '-'; }))
    wrong.emplace_back("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  if (std::none_of(name.begin(), name.end(), is_small))
    wrong.emplace_back("must contain at least one letter (a-z)");
  if (name.find("--") != std::string_view::npos)
    wrong.emplace_back("must not contain consecutive hyphens");
  if (!name.empty() && (name.front() == '-' || name.back() == '-'))
    wrong.emplace_back("must not begin or end with a hyphen");
  return wrong;
}

void check_port_reference(const Value* port, const std::string& path, Causes& causes) {
  if (port == nullptr) return;
  if (port->is_string())
    check_text(wrong_port_name(port->text()), path, port->text(), causes);
  else
    check_port(port->as_int().value_or(0), path, causes);
}

void check_word(const std::string& word, const std::string& path,
                const std::vector<std::string>& known, Causes& causes) {
  if (word.empty())
    causes.push_back(Cause::required(path));
  else if (std::find(known.begin(), known.end(), word) == known.end())
    causes.push_back(Cause::unsupported(path, in_quotes(word), known));
}

bool is_address(const std::string& text) {
  const std::vector<std::string> parts = split(text, '.');
  if (parts.size() == 4)
    return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
      const auto number = parse_uint(part);
      return number && *number < 256;
    });
  return text.find(':') != std::string::npos &&
         text.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
}

bool is_cidr(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || !is_address(text.substr(0, slash))) return false;
  const auto bits = parse_uint(text.substr(slash + 1));
  return bits && *bits <= (text.find(':') == std::string::npos ? 32u : 128u);
}

}  // namespace rocca::lab::kube
