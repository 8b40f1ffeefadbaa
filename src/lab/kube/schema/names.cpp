#include "lab/kube/schema/names.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

namespace {

bool is_lower(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_word(char c) {
  return is_lower(c) || (c >= 'A' && c <= 'Z');
}

bool label_form(std::string_view text) {
  return !text.empty() && is_lower(text.front()) && is_lower(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_lower(c) || c == '-'; });
}

bool name_form(std::string_view text) {
  return !text.empty() && is_word(text.front()) && is_word(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_word(c) || c == '-' || c == '_' || c == '.'; });
}

constexpr const char* name_text =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation "
    "is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

}  // namespace

std::vector<std::string> wrong_subdomain(std::string_view name) {
  std::vector<std::string> wrong;
  if (name.size() > 253) wrong.emplace_back("must be no more than 253 characters");
  const std::vector<std::string> parts = split(name, '.');
  if (!std::all_of(parts.begin(), parts.end(), [](const std::string& p) { return label_form(p); }))
    wrong.emplace_back(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
        "used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
  return wrong;
}

std::vector<std::string> wrong_label(std::string_view name) {
  std::vector<std::string> wrong;
  if (name.size() > 63) wrong.emplace_back("must be no more than 63 characters");
  if (!label_form(name))
    wrong.emplace_back(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
        "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
        "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')");
  return wrong;
}

std::vector<std::string> wrong_old_label(std::string_view name) {
  std::vector<std::string> wrong;
  if (name.size() > 63) wrong.emplace_back("must be no more than 63 characters");
  if (!label_form(name) || (name.front() >= '0' && name.front() <= '9'))
    wrong.emplace_back(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
        "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
        "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')");
  return wrong;
}

std::vector<std::string> wrong_qualified_name(std::string_view text) {
  std::vector<std::string> wrong;
  const std::vector<std::string> parts = split(text, '/');
  const std::string& name = parts.back();
  if (parts.size() == 2) {
    if (parts[0].empty())
      wrong.emplace_back("prefix part must be non-empty");
    else
      for (const std::string& one : wrong_subdomain(parts[0]))
        wrong.push_back("prefix part " + one);
  } else if (parts.size() > 2) {
    wrong.push_back(
        fmt::format("a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. "
                    "'example.com/MyName')",
                    name_text));
    return wrong;
  }
  if (name.empty())
    wrong.emplace_back("name part must be non-empty");
  else if (name.size() > 63)
    wrong.emplace_back("name part must be no more than 63 characters");
  if (!name_form(name)) wrong.push_back(fmt::format("name part {}", name_text));
  return wrong;
}

std::vector<std::string> wrong_label_value(std::string_view value) {
  std::vector<std::string> wrong;
  if (value.size() > 63) wrong.emplace_back("must be no more than 63 characters");
  if (!value.empty() && !name_form(value))
    wrong.emplace_back(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        "'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')");
  return wrong;
}

std::vector<std::string> wrong_config_key(std::string_view key) {
  std::vector<std::string> wrong;
  if (key.size() > 253) wrong.emplace_back("must be no more than 253 characters");
  if (key.empty() || !std::all_of(key.begin(), key.end(), [](char c) {
        return is_word(c) || c == '-' || c == '_' || c == '.';
      }))
    wrong.emplace_back(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
        "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
        "'[-._a-zA-Z0-9]+')");
  if (key == ".") wrong.emplace_back("must not be '.'");
  if (key == "..")
    wrong.emplace_back("must not be '..'");
  else if (key.starts_with(".."))
    wrong.emplace_back("must not start with '..'");
  return wrong;
}

std::vector<std::string> wrong_path_segment(std::string_view name) {
  if (name == "." || name == "..") return {fmt::format("may not be '{}'", name)};
  for (const char c : {'/', '%'})
    if (name.find(c) != std::string_view::npos) return {fmt::format("may not contain '{}'", c)};
  return {};
}

}  // namespace rocca::lab::kube
