#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/effects.hpp"
#include "spec/fields.hpp"
#include "spec/schema.hpp"
#include "spec/validation/rules.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::spec {

namespace {

std::string short_path(std::string_view path) {
  return std::string(path.starts_with("spec.") ? path.substr(5) : path);
}

std::string explain_field(const FieldNode& node) {
  const Field& field = *node.field;
  std::string text = fmt::format("{}\n  {}\n\n", field.path, field.text);
  const auto line = [&](const char* name, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:<9}{}\n", name, value);
  };
  line("takes", describe_type(field));
  if (node.fallback) line("default", field.fallback);
  if (field.is(Required)) line("must be", "given");
  line("note", field.note);
  if (const KeyEffect* effect = find_key_effect(field.path))
    line("change", effect->note.empty() ? std::string(effect->effect)
                                        : fmt::format("{} ({})", effect->effect, effect->note));
  if (!field.example.empty()) {
    const std::size_t dot = field.path.rfind('.');
    const std::string_view key =
        dot == std::string_view::npos ? field.path : field.path.substr(dot + 1);
    line("example", fmt::format("{}: {}", key == "*" ? "NAME" : key, field.example));
  }
  if (field.is(Named)) line("", "its keys are names that you choose");
  const FieldNode& shape = node.named() != nullptr ? *node.named() : node;
  std::size_t width = 0;
  for (const std::string& key : shape.key_names()) width = std::max(width, key.size());
  if (width == 0) return text;
  text += node.named() != nullptr ? "\n  keys of each:\n" : "\n  keys:\n";
  for (const auto& child : shape.keys()) {
    if (child->field->is(Internal) || child->key.starts_with('$')) continue;
    text += fmt::format("    {:<{}}  {}\n", child->key, width, child->field->text);
  }
  return text;
}

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::Error:
      return "error";
    case Severity::Warning:
      return "warning";
    case Severity::Note:
      return "note";
  }
  return "";
}

std::string explain_rule(const Rule& rule) {
  return fmt::format("{} ({})\n  {}\n\n  {}\n", rule.code, name_of(rule.severity), rule.title,
                     rule.why);
}

/// `disks.data.use` is the end of spec.machine.disks.*.use.
bool ends_so(std::string_view path, const std::string& end) {
  const auto parts = split(path, '.');
  const auto wanted = split(end, '.');
  if (wanted.size() >= parts.size() || wanted.back() != parts.back()) return false;
  return std::equal(wanted.rbegin(), wanted.rend(), parts.rbegin(),
                    [](const std::string& want, const std::string& part) {
                      return want == part || (part == "*" && !want.empty());
                    });
}

std::string cell(std::string_view text) {
  return replace_all(text, "|", "\\|");
}

std::string code(std::string_view text) {
  return text.empty() ? std::string() : fmt::format("`{}`", cell(text));
}

}  // namespace

std::string explain(const std::string& what) {
  if (const Rule* rule = find_rule(what)) return explain_rule(*rule);
  const FieldNode* node = find_field(what);
  if (node != nullptr && !node->key.starts_with('$')) return explain_field(*node);
  std::vector<std::string> known;
  for (const Rule& rule : rules()) known.emplace_back(rule.code);
  for (const Field& field : fields())
    if (!field.is(Internal) && !field.path.starts_with('$')) {
      known.push_back(short_path(field.path));
      // Who remembers only the last word is helped too.
      known.emplace_back(field.path.substr(field.path.rfind('.') + 1));
    }
  std::vector<std::string> ends;
  for (const Field& field : fields())
    if (!field.is(Internal) && !field.path.starts_with('$') && ends_so(field.path, what))
      ends.push_back(short_path(field.path));
  if (ends.size() == 1) return explain_field(*find_field(ends.front()));
  throw Error(Fault::NotFound,
              fmt::format("nothing is called `{}`{}", what,
                          ends.empty() ? did_you_mean(what, known) : std::string()))
      .hint(ends.empty() ? "name a key (machine.memory) or the code of a problem (slot-clash); "
                           "`rocca schema` has all keys"
                         : fmt::format("there is {}", enumerate(ends)));
}

std::string reference_markdown() {
  std::string text =
      "# The spec file, key by key\n\n"
      "Generated from the table that parses it; `rocca explain KEY` says the same, and `rocca "
      "schema` prints it as JSON\n"
      "Schema. `*` stands for a name that you choose. The nearest value wins: node, then pool, "
      "then `spec.machine`.\n\n"
      "`change` is what another value costs a cluster that runs: an effect class, `none` where "
      "nothing outside of rocca\n"
      "changes, `refused` where rocca does not do it.\n\n"
      "| key | takes | default | change | meaning |\n|---|---|---|---|---|\n";
  for (const Field& field : fields()) {
    if (field.is(Internal)) continue;
    std::string meaning(field.text);
    if (field.is(Required)) meaning += " **Must be given.**";
    if (!field.note.empty()) meaning += fmt::format(" *({})*", field.note);
    if (!field.example.empty()) meaning += fmt::format(" Example: `{}`", field.example);
    if (field.values.starts_with('@'))
      meaning += fmt::format(" Same keys as `{}`.", field.values.substr(1));
    const KeyEffect* effect = find_key_effect(field.path);
    text +=
        fmt::format("| {} | {} | {} | {} | {} |\n", code(field.path), cell(describe_type(field)),
                    code(field.fallback), effect == nullptr ? "" : effect->effect, cell(meaning));
  }
  text +=
      "\n# What validation looks for\n\nAll of it offline, before anything runs, and all at "
      "once.\n\n"
      "| code | kind | what | why |\n|---|---|---|---|\n";
  for (const Rule& rule : rules())
    text += fmt::format("| {} | {} | {} | {} |\n", code(rule.code), name_of(rule.severity),
                        cell(rule.title), cell(rule.why));
  return text;
}

}  // namespace rocca::spec
