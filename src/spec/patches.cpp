#include "spec/patches.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/read.hpp"
#include "spec/validation/check.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::spec {

namespace {

using text::Kind;

bool is_json_patch(const Tree& tree) {
  return tree.is_list() && !tree.items.empty() &&
         std::all_of(tree.items.begin(), tree.items.end(),
                     [](const TreePtr& item) { return item->is_map() && item->find("op"); });
}

// RFC 6902, 4; Talos adds nothing to it.
std::string complaint_about(const Tree& operation) {
  const TreePtr op = operation.find("op");
  const std::vector<std::string> known = {"add", "remove", "replace", "move", "copy", "test"};
  if (std::find(known.begin(), known.end(), op->text) == known.end())
    return fmt::format("`{}` is no operation of a JSON patch{}", op->text,
                       did_you_mean(op->text, known));
  const TreePtr path = operation.find("path");
  if (!path || !path->is_scalar()) return "the operation has no path";
  if (!path->text.empty() && path->text[0] != '/')
    return fmt::format("the path `{}` does not begin with /", path->text);
  const bool with_value = op->text == "add" || op->text == "replace" || op->text == "test";
  if (with_value && !operation.find("value")) return fmt::format("`{}` needs a value", op->text);
  const bool with_from = op->text == "move" || op->text == "copy";
  if (with_from && !operation.find("from")) return fmt::format("`{}` needs from", op->text);
  return "";
}

std::optional<SecretRef> reference(std::string_view word, std::string_view path,
                                   std::string_view key) {
  if (key.empty() || key == "cluster") return std::nullopt;
  if (word == "secret") return SecretRef{SecretRef::From::Key, std::string(path)};
  if (word == "infisical") return SecretRef{SecretRef::From::Infisical, std::string(path)};
  return std::nullopt;
}

void collect_secrets(const Tree& tree, std::string_view key, const Where& whole,
                     std::vector<Placed<SecretRef>>& out) {
  if (tree.is_map() && tree.members.size() == 1 && tree.members.front().value->is_scalar())
    if (auto found = reference(tree.members.front().key, tree.members.front().value->text, key)) {
      out.push_back({std::move(*found), tree.where.written() ? tree.where : whole});
      return;
    }
  for (const Member& member : tree.members) collect_secrets(*member.value, member.key, whole, out);
  for (const TreePtr& item : tree.items) collect_secrets(*item, key, whole, out);
}

}  // namespace

std::optional<SecretRef> secret_in_patch(const text::Value& value, std::string_view key) {
  if (!value.is_map() || value.size() != 1) return std::nullopt;
  const text::Entry& only = value.entries().front();
  return only.value.is_scalar() ? reference(only.key, only.value.text(), key) : std::nullopt;
}

PatchList PatchReader::read(const TreePtr& tree) {
  if (!tree || tree->kind == Kind::Null) return {};
  const auto known = known_.find(tree.get());
  if (known != known_.end()) return known->second;
  PatchList list;
  if (tree->is_list() && !is_json_patch(*tree)) {
    for (const TreePtr& item : tree->items) add(item, list);
  } else {
    add(tree, list);
  }
  known_.emplace(tree.get(), list);
  return list;
}

void PatchReader::add(const TreePtr& tree, PatchList& out) {
  if (tree->kind == Kind::String) {
    if (tree->text.find('\n') == std::string::npos)
      add_file(tree, out);
    else
      add_text(tree, out);
    return;
  }
  if (tree->is_map() || is_json_patch(*tree)) {
    add_parsed({to_value(*tree)}, {tree}, findings_.files()[tree->where.file], tree->where, out);
    return;
  }
  findings_.add("patch-shape", tree->where,
                fmt::format("a patch is a map, a file name or a list of operations, not {}",
                            text::to_string(tree->kind)));
}

void PatchReader::add_file(const TreePtr& tree, PatchList& out) {
  const std::string path = path_below(folder_, tree->text);
  const auto known = files_read_.find(path);
  if (known != files_read_.end()) {
    out.insert(out.end(), known->second.begin(), known->second.end());
    return;
  }
  PatchList list;
  std::optional<std::string> text;
  try {
    text = files_.find(path, text::Limits{}.size);
  } catch (const Error& error) {
    findings_.add("file-not-found", tree->where, error.message());
    return;
  }
  if (!text) {
    findings_.add("file-not-found", tree->where, fmt::format("there is no patch file {}", path),
                  "paths are relative to the file that names them");
    return;
  }
  const std::uint32_t file = findings_.add_file(path, *text);
  std::vector<text::Value> documents;
  try {
    documents = text::parse_yaml_stream(*text, path);
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;
    parse_into(*text, file, "patch-syntax", findings_);  // reports it with its position
    return;
  }
  std::vector<TreePtr> trees;
  for (const text::Value& document : documents) trees.push_back(to_tree(document, file));
  static constexpr Field any{"", Type::Any, Plain, "", "", "", "", ""};
  FieldNode field;
  field.field = &any;
  for (const TreePtr& one : trees) clean(one, field, path, "", findings_);  // hides credentials
  add_parsed(documents, std::move(trees), path, tree->where, list);
  out.insert(out.end(), list.begin(), list.end());
  files_read_.emplace(path, std::move(list));
}

void PatchReader::add_text(const TreePtr& tree, PatchList& out) {
  const std::string& name = findings_.files()[tree->where.file];
  std::vector<text::Value> documents;
  try {
    documents = text::parse_yaml_stream(tree->text, name);
  } catch (const Error& error) {
    std::string_view rest = error.message();
    if (rest.starts_with(name)) rest.remove_prefix(name.size() + 1);
    findings_.add("patch-syntax", tree->where,
                  fmt::format("this text does not parse, at its line {}", rest));
    return;
  }
  std::vector<TreePtr> trees;
  for (const text::Value& document : documents) {
    // A block's own lines cannot be found again in the file with certainty, so all of it is one
    // place.
    auto placed = std::make_shared<Tree>(*to_tree(document, tree->where.file));
    placed->where = tree->where;
    trees.push_back(placed);
  }
  add_parsed(documents, std::move(trees), name, tree->where, out);
}

void PatchReader::add_parsed(const std::vector<text::Value>& documents, std::vector<TreePtr> trees,
                             const std::string& source, const Where& where, PatchList& out) {
  auto patch = std::make_shared<Patch>();
  patch->source = source;
  patch->where = where;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const Tree& tree = *trees[i];
    if (tree.kind == Kind::Null) continue;
    if (is_json_patch(tree)) {
      patch->form = Patch::Form::Json;
      for (const TreePtr& operation : tree.items)
        if (const std::string wrong = complaint_about(*operation); !wrong.empty())
          findings_.add("patch-shape", operation->where, wrong);
    } else if (!tree.is_map()) {
      findings_.add("patch-shape", tree.where,
                    fmt::format("a merge patch is a map, not {}", text::to_string(tree.kind)));
      continue;
    }
    collect_secrets(tree, "", where, patch->secrets);
    patch->documents.push_back(documents[i]);
    patch->trees.push_back(trees[i]);
  }
  for (const Placed<SecretRef>& secret : patch->secrets)
    if (secret->path.empty())
      findings_.add("patch-shape", secret.where, "no secret is named here",
                    "write the key under which it stands in the secrets file: { secret: a.b }");
  if (patch->form == Patch::Form::Json && patch->documents.size() > 1)
    findings_.add("patch-shape", where,
                  "a JSON patch is one list, and there are several documents");
  if (!patch->documents.empty()) out.push_back(std::move(patch));
}

}  // namespace rocca::spec
