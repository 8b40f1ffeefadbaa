#include "spec/validation/check.hpp"

#include "base/diagnostics.hpp"
#include "base/strings.hpp"
#include "spec/scalars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::spec {

namespace {

using text::Kind;

std::string below(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

bool is_secret(const FieldNode& field) {
  const FieldNode& shape = field.like != nullptr ? *field.like : field;
  const FieldNode* key = shape.find("secret");
  return key != nullptr && key->field->is(Choice);
}

std::string secret_hint(const std::string& path) {
  const std::string key = path.starts_with("spec.") ? path.substr(5) : path;
  return fmt::format(
      "store it with `rocca secrets set secrets.sops.yaml {}` and write {{ secret: {} }} here", key,
      key);
}

constexpr const char* refer_hint =
    "keep it in secrets.sops.yaml and refer to it by { secret: … } where a key takes one; what is "
    "written here ends "
    "up in Git";

void mask_deep(const Tree& tree, Findings& findings) {
  if (tree.is_scalar()) findings.mask(tree);
  for (const TreePtr& item : tree.items) mask_deep(*item, findings);
  for (const Member& member : tree.members) mask_deep(*member.value, findings);
}

bool has_key(const FieldNode& node, const std::string& key) {
  const auto names = node.key_names();
  return std::find(names.begin(), names.end(), key) != names.end();
}

/// Where a key that is wrong in `node` would be right: in one of the sections below it, else
/// wherever the table has it. Nothing when those are too many to be of help.
std::vector<std::string> places_of(const std::string& key, const FieldNode& node,
                                   const std::string& path) {
  const auto name = [](const FieldNode* section, const std::string& where) {
    const bool many =
        section != nullptr && (section->field->is(List) || section->field->is(OneOrMany));
    return many ? "an item of " + where : where;
  };
  std::vector<std::string> places;
  for (const auto& child : node.keys())
    if (child->takes_map() && has_key(*child, key))
      places.push_back(name(child.get(), below(path, child->key)));
  if (!places.empty()) return places;
  const std::string ending = "." + key;
  for (const Field& field : fields()) {
    if (!field.path.ends_with(ending) || field.is(Internal)) continue;
    const std::string section(field.path.substr(0, field.path.size() - ending.size()));
    places.push_back(name(find_field(section), replace_all(section, "*", "NAME")));
  }
  constexpr std::size_t few = 3;
  return places.size() <= few ? places : std::vector<std::string>{};
}

class Cleaner {
 public:
  Cleaner(const std::string& base, Findings& findings) : base_(base), findings_(findings) {}

  TreePtr value(const TreePtr& tree, const FieldNode& node, const std::string& path) {
    const Field& field = *node.field;
    if (tree->kind == Kind::Null) return tree;  // takes an inherited value away
    if (field.is(Internal)) return tree;
    if (field.type == Type::Any || field.type == Type::Patches) return free_form(tree, node, path);
    if (field.is(Named)) return named(tree, node, path);
    if (field.is(List)) return list(tree, node, path);
    if (field.is(OneOrMany)) {
      if (tree->is_list()) return list(tree, node, path);
      auto wrapped = std::make_shared<Tree>();
      wrapped->kind = Kind::List;
      wrapped->where = tree->where;
      const TreePtr item = one(tree, node, path);
      if (!item) return nullptr;
      wrapped->items.push_back(item);
      return wrapped;
    }
    return one(tree, node, path);
  }

  TreePtr map(const TreePtr& tree, const FieldNode& node, const std::string& path) {
    auto cleaned = std::make_shared<Tree>();
    cleaned->kind = Kind::Map;
    cleaned->where = tree->where;
    for (const Member& member : tree->members) {
      const FieldNode* child = node.find(member.key);
      const std::string child_path = below(path, member.key);
      if (child == nullptr || child->key.starts_with('$')) {
        unknown(member, node, path);
        continue;
      }
      if (child->key.empty() || child->key == "*") check_name(member, node, child_path);
      if (const TreePtr item = value(member.value, *child, child_path))
        cleaned->members.push_back({member.key, member.where, item});
      else
        findings_.mark_broken(child_path);
    }
    return cleaned;
  }

 private:
  void unknown(const Member& member, const FieldNode& node, const std::string& path) {
    if (sounds_secret(member.key) || is_secret(node)) mask_deep(*member.value, findings_);
    if (member.key == "<<") {
      findings_.add("unknown-key", member.where, "YAML merge keys (`<<`) are not taken",
                    "`machine:` is inherited by all nodes and pools, and `bases:` share files");
      return;
    }
    const auto known = node.key_names();
    const std::string section =
        path.empty() ? std::string("at the top of the file") : fmt::format("in {}", path);
    const std::string near = did_you_mean(member.key, known);
    std::vector<std::string> hints;
    if (near.empty()) {
      const auto places = places_of(member.key, node, path);
      if (!places.empty())
        hints.push_back(fmt::format("`{}` belongs in {}", member.key, join(places, " or ")));
      if (!known.empty()) hints.push_back("known here: " + enumerate(known));
    }
    findings_.add("unknown-key", member.where,
                  fmt::format("unknown key `{}` {}{}", member.key, section, near),
                  join(hints, "; "));
  }

  void check_name(const Member& member, const FieldNode& node, const std::string& path) {
    // Names of nodes and pools become host names; names of disks become serial numbers and volume
    // names.
    if (is_dns_label(member.key)) return;
    findings_.add("bad-name", member.where,
                  fmt::format("`{}` cannot be a name in {}: it is not a DNS label", member.key,
                              node.field->path),
                  "1 to 63 of a-z, 0-9 and -, and no - at either end");
    findings_.mark_broken(path);
  }

  TreePtr named(const TreePtr& tree, const FieldNode& node, const std::string& path) {
    if (!tree->is_map()) return wrong_shape(*tree, node);
    if (node.named() != nullptr) return map(tree, node, path);
    auto cleaned = std::make_shared<Tree>(*tree);
    cleaned->members.clear();
    for (const Member& member : tree->members) {
      const std::string child = below(path, member.key);
      const bool many = node.field->is(List);
      TreePtr item = member.value->kind == Kind::Null ? member.value
                     : many                           ? list(member.value, node, child)
                                                      : one(member.value, node, child);
      if (item) cleaned->members.push_back({member.key, member.where, std::move(item)});
    }
    return cleaned;
  }

  TreePtr list(const TreePtr& tree, const FieldNode& node, const std::string& path) {
    if (!tree->is_list()) {
      findings_.add("wrong-type", tree->where,
                    fmt::format("{} takes {}", node.field->path, describe_type(*node.field)),
                    tree->is_scalar() ? "write it in brackets: [ … ]" : "");
      return nullptr;
    }
    auto cleaned = std::make_shared<Tree>(*tree);
    cleaned->items.clear();
    for (std::size_t i = 0; i < tree->items.size(); ++i) {
      const TreePtr& item = tree->items[i];
      if (item->kind == Kind::Null) {
        findings_.add("wrong-type", item->where, fmt::format("an empty item in {}", path));
        continue;
      }
      if (TreePtr good = one(item, node, below(path, std::to_string(i))))
        cleaned->items.push_back(std::move(good));
      else
        findings_.mark_broken(path);
    }
    return cleaned;
  }

  TreePtr one(const TreePtr& tree, const FieldNode& node, const std::string& path) {
    const Field& field = *node.field;
    if (is_secret(node) && !tree->is_map()) {
      mask_deep(*tree, findings_);
      findings_.add("secret-in-clear", tree->where,
                    fmt::format("{} wants a reference, and a value is written here", path),
                    secret_hint(path));
      return nullptr;
    }
    // A reference is a text; whatever else stands there may be the secret itself.
    if (is_secret(node))
      for (const Member& member : tree->members)
        if (!member.value->is_scalar()) mask_deep(*member.value, findings_);
    const bool fixed_keys = field.type == Type::Map || field.is(OrMap);
    if (tree->is_map() && fixed_keys) return map(tree, node, path);
    if (!tree->is_scalar() || field.type == Type::Map) return wrong_shape(*tree, node);
    return scalar(tree, node, path);
  }

  TreePtr scalar(const TreePtr& tree, const FieldNode& node, const std::string& path) {
    const Field& field = *node.field;
    if (looks_like_secret(tree->text) || (field.type == Type::Url && has_password(tree->text))) {
      findings_.mask(*tree);
      findings_.add("secret-in-clear", tree->where,
                    fmt::format("what stands in {} looks like a credential", path), refer_hint);
      return nullptr;
    }
    if (const auto complaint = check_scalar(field, *tree)) {
      findings_.add(complaint->code, tree->where, fmt::format("{}: {}", path, complaint->message),
                    complaint->hint);
      return nullptr;
    }
    TreePtr good = rebased(tree, field);
    if (field.shorthand.empty()) return good;
    auto written_out = std::make_shared<Tree>();
    written_out->kind = Kind::Map;
    written_out->where = tree->where;
    written_out->members.push_back({std::string(field.shorthand), tree->where, std::move(good)});
    return written_out;
  }

  // A base lies in another folder; what it names relative to itself must still be found from the
  // spec's folder.
  TreePtr rebased(const TreePtr& tree, const Field& field) const {
    const bool file = field.type == Type::Path ||
                      (field.type == Type::Source && !is_sha256_hex(tree->text) &&
                       !is_url(tree->text) && tree->text.find('\n') == std::string::npos);
    if (!file || base_.empty() || tree->text.starts_with('/')) return tree;
    auto moved = std::make_shared<Tree>(*tree);
    moved->text = base_ + "/" + tree->text;
    return moved;
  }

  TreePtr free_form(const TreePtr& tree, const FieldNode& node, const std::string& path) {
    hide_secrets(*tree, path);
    const bool patches = node.field->type == Type::Patches;
    if (!patches || base_.empty()) return tree;
    static constexpr Field path_field{"", Type::Path, Plain, "", "", "", "", ""};
    const auto is_file = [](const Tree& item) {
      return item.kind == Kind::String && item.text.find('\n') == std::string::npos;
    };
    if (is_file(*tree)) return rebased(tree, path_field);
    if (!tree->is_list()) return tree;
    auto moved = std::make_shared<Tree>(*tree);
    for (TreePtr& item : moved->items)
      if (is_file(*item)) item = rebased(item, path_field);
    return moved;
  }

  void hide_secrets(const Tree& tree, const std::string& path) {
    if (tree.is_scalar() && looks_like_secret(tree.text)) {
      findings_.mask(tree);
      findings_.add("secret-in-clear", tree.where,
                    fmt::format("what stands in {} looks like a credential", path), refer_hint);
    }
    for (const TreePtr& item : tree.items) hide_secrets(*item, path);
    for (const Member& member : tree.members) hide_secrets(*member.value, path);
  }

  TreePtr wrong_shape(const Tree& tree, const FieldNode& node) {
    findings_.add("wrong-type", tree.where,
                  fmt::format("{} takes {}, found {}", node.field->path, describe_type(*node.field),
                              text::to_string(tree.kind)));
    return nullptr;
  }

  const std::string& base_;
  Findings& findings_;
};

bool inherits(const FieldNode& node) {
  const auto& field = node.like != nullptr ? *node.like->field : *node.field;
  return field.path == "spec.machine" || field.path == "spec.nodes.*.talos";
}

void check_choices(const Tree& tree, const FieldNode& node, const std::string& path,
                   const Where& where, Findings& findings) {
  std::vector<std::string> known;
  std::vector<const Member*> chosen;
  for (const auto& child : node.keys()) {
    if (!child->field->is(Choice)) continue;
    known.push_back(child->key);
    if (const Member* member = tree.find_member(child->key)) chosen.push_back(member);
  }
  if (chosen.size() > 1)
    findings.add("one-of", chosen[1]->where,
                 fmt::format("{} takes one of {}, and `{}` is already there", path,
                             enumerate(known, "or"), chosen[0]->key));
  const bool needed =
      node.field->is(ChoiceSet) || (node.like != nullptr && node.like->field->is(ChoiceSet));
  const bool spoilt = std::any_of(known.begin(), known.end(), [&](const std::string& key) {
    return findings.is_broken(below(path, key));
  });
  if (needed && chosen.empty() && !spoilt)
    findings.add("one-of", where,
                 fmt::format("{} needs {}{}", path, known.size() > 1 ? "one of " : "",
                             enumerate(known, "or")));
}

}  // namespace

// A key that nobody knows may still hold what its name says: it must not come up in the line that
// is shown.
bool sounds_secret(std::string_view key) {
  const std::string lower = to_lower(key);
  constexpr std::array words = {"token",  "password", "passwd",    "secret",
                                "apikey", "authkey",  "privatekey"};
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return lower.find(word) != std::string::npos; });
}

bool looks_like_secret(std::string_view text) {
  constexpr std::array beginnings = {"AGE-SECRET-KEY-", "-----BEGIN ", "tskey-",      "ghp_",
                                     "github_pat_",     "glpat-",      "PVEAPIToken="};
  for (const char* beginning : beginnings) {
    const std::string_view mark = beginning;
    // A public certificate is no secret, and CA files are pasted into patches.
    if (text.starts_with(mark) && !text.starts_with("-----BEGIN CERTIFICATE") &&
        !text.starts_with("-----BEGIN PUBLIC"))
      return text.size() > mark.size() + 3;
  }
  // A Proxmox token: user@realm!id=uuid.
  const auto bang = text.find('!');
  const auto equals = text.find('=', bang == std::string_view::npos ? 0 : bang);
  return bang != std::string_view::npos && equals != std::string_view::npos &&
         text.substr(0, bang).find('@') != std::string_view::npos && text.size() - equals == 37;
}

TreePtr clean(const TreePtr& tree, const FieldNode& field, const std::string& path,
              const std::string& base, Findings& findings) {
  Cleaner cleaner(base, findings);
  return path.empty() ? cleaner.map(tree, field, path) : cleaner.value(tree, field, path);
}

TreePtr complete(const TreePtr& tree, const FieldNode& field, const std::string& path,
                 const Where& where, bool heirs, Findings& findings) {
  if (field.field->type == Type::Any || field.field->type == Type::Patches) return tree;
  if (tree->is_list()) {
    auto finished = std::make_shared<Tree>(*tree);
    for (std::size_t i = 0; i < finished->items.size(); ++i)
      finished->items[i] = complete(finished->items[i], field, below(path, std::to_string(i)),
                                    finished->items[i]->where, heirs, findings);
    return finished;
  }
  if (!tree->is_map() || (!heirs && inherits(field))) return tree;
  auto finished = std::make_shared<Tree>(*tree);
  finished->members.clear();
  for (const Member& member : tree->members) {
    if (member.value->kind == Kind::Null) continue;
    const FieldNode* child = field.find(member.key);
    TreePtr value = child == nullptr ? member.value
                                     : complete(member.value, *child, below(path, member.key),
                                                member.where, heirs, findings);
    finished->members.push_back({member.key, member.where, std::move(value)});
  }
  if (field.named() != nullptr || field.field->is(Named)) return finished;
  for (const auto& child : field.keys()) {
    const std::string child_path = below(path, child->key);
    if (!child->field->is(Required) || finished->find_member(child->key) != nullptr ||
        findings.is_broken(child_path))
      continue;
    findings.add("missing-key", where,
                 fmt::format("{} is missing `{}`: {}", path.empty() ? "the file" : path, child->key,
                             child->field->text),
                 child->field->example.empty()
                     ? ""
                     : fmt::format("for example {}: {}", child->key, child->field->example));
  }
  check_choices(*finished, field, path, where, findings);
  return finished;
}

TreePtr with_defaults(const TreePtr& tree, const FieldNode& field) {
  if (tree->is_list()) {
    if (!field.takes_map()) return tree;
    auto filled = std::make_shared<Tree>(*tree);
    for (TreePtr& item : filled->items) item = with_defaults(item, field);
    return filled;
  }
  if (!tree->is_map() || field.field->type == Type::Any || field.field->type == Type::Patches)
    return tree;
  auto filled = std::make_shared<Tree>();
  filled->kind = Kind::Map;
  filled->where = tree->where;
  for (const auto& child : field.keys()) {
    if (child->key.starts_with('$') || child->field->is(Internal)) continue;
    if (const Member* member = tree->find_member(child->key)) {
      filled->members.push_back({member->key, member->where, with_defaults(member->value, *child)});
    } else if (child->fallback) {
      filled->members.push_back({child->key, {}, with_defaults(child->fallback, *child)});
    } else if (child->field->is(Always)) {
      auto empty = std::make_shared<Tree>();
      empty->kind = Kind::Map;
      filled->members.push_back({child->key, {}, with_defaults(empty, *child)});
    }
  }
  for (const Member& member : tree->members) {
    const bool by_name = std::none_of(field.keys().begin(), field.keys().end(),
                                      [&](const auto& child) { return child->key == member.key; });
    if (!by_name) continue;
    const FieldNode* any = field.named();
    filled->members.push_back(
        {member.key, member.where, any ? with_defaults(member.value, *any) : member.value});
  }
  return filled;
}

}  // namespace rocca::spec
