#include "spec/tree.hpp"

#include "spec/fields.hpp"

#include <algorithm>

namespace rocca::spec {

namespace {

Where where_of(const text::Place& place, std::uint32_t file, std::size_t length) {
  return {file, static_cast<std::uint32_t>(place.line), static_cast<std::uint32_t>(place.column),
          static_cast<std::uint32_t>(length)};
}

// A caret under a whole block says nothing; it marks the first line of it only.
std::size_t width_of(const text::Value& value) {
  const text::Place& place = value.place();
  const bool block = value.style() == text::Style::Literal ||
                     value.style() == text::Style::Folded || value.style() == text::Style::Block;
  if (block || place.end <= place.begin) return 1;
  return place.end - place.begin;
}

}  // namespace

const Member* Tree::find_member(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.key == key; });
  return found == members.end() ? nullptr : &*found;
}

TreePtr Tree::find(std::string_view key) const {
  const Member* member = find_member(key);
  return member == nullptr ? nullptr : member->value;
}

TreePtr to_tree(const text::Value& value, std::uint32_t file) {
  auto tree = std::make_shared<Tree>();
  tree->kind = value.kind();
  tree->where = where_of(value.place(), file, width_of(value));
  tree->begin = value.place().begin;
  tree->end = value.place().end;
  if (value.is_scalar()) tree->text = value.text();
  tree->items.reserve(value.items().size());
  for (const text::Value& item : value.items()) tree->items.push_back(to_tree(item, file));
  tree->members.reserve(value.entries().size());
  for (const text::Entry& entry : value.entries())
    tree->members.push_back(
        {entry.key, where_of(entry.key_place, file, entry.key.size()), to_tree(entry.value, file)});
  return tree;
}

text::Value to_value(const Tree& tree) {
  switch (tree.kind) {
    case text::Kind::Map: {
      text::Value map = text::Value::map();
      for (const Member& member : tree.members) map.set(member.key, to_value(*member.value));
      return map;
    }
    case text::Kind::List: {
      text::Value list = text::Value::list();
      for (const TreePtr& item : tree.items) list.append(to_value(*item));
      return list;
    }
    case text::Kind::String:
      return text::Value::string(tree.text);
    default:
      return text::Value::plain(tree.text);
  }
}

TreePtr merge(const TreePtr& under, const TreePtr& over, const FieldNode* field) {
  if (!over) return under;
  if (!under || !under->is_map() || !over->is_map()) return over;
  if (field != nullptr && field->field->type == Type::Patches) return over;
  const auto child = [&](const std::string& key) { return field ? field->find(key) : nullptr; };
  const auto excludes = [&](const std::string& key) {
    const FieldNode* node = child(key);
    return node != nullptr && node->field->is(Choice);
  };
  const bool chosen =
      std::any_of(over->members.begin(), over->members.end(), [&](const Member& member) {
        return excludes(member.key) && member.value->kind != text::Kind::Null;
      });
  auto merged = std::make_shared<Tree>();
  merged->kind = text::Kind::Map;
  merged->where = over->where;
  for (const Member& member : under->members) {
    const Member* nearer = over->find_member(member.key);
    if (nearer == nullptr) {
      if (!chosen || !excludes(member.key)) merged->members.push_back(member);
    } else if (nearer->value->kind != text::Kind::Null) {
      merged->members.push_back(
          {member.key, nearer->where, merge(member.value, nearer->value, child(member.key))});
    }
  }
  for (const Member& member : over->members)
    if (under->find_member(member.key) == nullptr) merged->members.push_back(member);
  return merged;
}

}  // namespace rocca::spec
