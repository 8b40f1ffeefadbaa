#include "spec/section.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

namespace rocca::spec {

namespace {

TreePtr no_map() {
  static const TreePtr empty = [] {
    auto tree = std::make_shared<Tree>();
    tree->kind = text::Kind::Map;
    return tree;
  }();
  return empty;
}

template <class T>
Placed<T> or_empty(Maybe<T> value) {
  return value ? *std::move(value) : Placed<T>{};
}

}  // namespace

const FieldNode& Section::field_of(std::string_view key) const {
  const FieldNode* field = field_->find(key);
  if (field == nullptr)
    throw Error(Fault::Bug, fmt::format("the table has no key {} in {}", key, field_->field->path));
  if (touched_ != nullptr) touched_->emplace(field->field->path);
  return *field;
}

TreePtr Section::find_ptr(std::string_view key) const {
  field_of(key);
  TreePtr value = tree_->find(key);
  return value && value->kind != text::Kind::Null ? value : nullptr;
}

Where Section::key_where(std::string_view key) const {
  const Member* member = tree_->find_member(key);
  return member == nullptr ? Where{} : member->where;
}

std::optional<Section> Section::find_section(std::string_view key) const {
  const FieldNode& field = field_of(key);
  const TreePtr value = find_ptr(key);
  if (!value || !value->is_map()) return std::nullopt;
  return Section(value, field, touched_);
}

Section Section::section(std::string_view key) const {
  if (auto found = find_section(key)) return *found;
  return {no_map(), field_of(key), touched_};
}

std::vector<Section> Section::sections(std::string_view key) const {
  const FieldNode& field = field_of(key);
  std::vector<Section> list;
  const TreePtr value = find_ptr(key);
  if (value && value->is_list())
    for (const TreePtr& item : value->items)
      if (item->is_map()) list.emplace_back(item, field, touched_);
  return list;
}

std::vector<std::pair<const Member*, Section>> Section::named(std::string_view key) const {
  const FieldNode& field = field_of(key);
  std::vector<std::pair<const Member*, Section>> list;
  const TreePtr value = find_ptr(key);
  if (!value || !value->is_map()) return list;
  for (const Member& member : value->members) {
    const FieldNode* child = field.find(member.key);
    if (child != nullptr && touched_ != nullptr) touched_->emplace(child->field->path);
    if (child != nullptr && member.value->is_map())
      list.emplace_back(&member, Section(member.value, *child, touched_));
  }
  return list;
}

Maybe<std::string> Section::find_text(std::string_view key) const {
  const Tree* tree = find(key);
  if (tree == nullptr || !tree->is_scalar()) return std::nullopt;
  return Placed<std::string>{tree->text, tree->where};
}

Placed<std::string> Section::text(std::string_view key) const {
  return or_empty(find_text(key));
}

Placed<bool> Section::boolean(std::string_view key) const {
  const Tree* tree = find(key);
  if (tree == nullptr || !tree->is_scalar()) return {};
  return {tree->text == "true", tree->where};
}

Maybe<std::int64_t> Section::find_int(std::string_view key) const {
  return find_parsed<std::int64_t>(
      key, [](const std::string& text) { return text::Value::plain(text).as_int(); });
}

Placed<std::int64_t> Section::integer(std::string_view key) const {
  return or_empty(find_int(key));
}

Placed<Bytes> Section::size(std::string_view key) const {
  return or_empty(
      find_parsed<Bytes>(key, [](const std::string& text) { return Bytes::parse(text); }));
}

Duration Section::duration(std::string_view key) const {
  return or_empty(find_parsed<Duration>(
                      key, [](const std::string& text) { return parse_duration(text); }))
      .value;
}

Maybe<Version> Section::find_version(std::string_view key) const {
  return find_parsed<Version>(key, [](const std::string& text) { return Version::parse(text); });
}

Placed<Version> Section::version(std::string_view key) const {
  return or_empty(find_version(key));
}

Maybe<IpAddress> Section::find_address(std::string_view key) const {
  return find_parsed<IpAddress>(key,
                                [](const std::string& text) { return IpAddress::parse(text); });
}

Maybe<Cidr> Section::find_subnet(std::string_view key) const {
  return find_parsed<Cidr>(key, [](const std::string& text) { return Cidr::parse(text); });
}

Placed<Cidr> Section::subnet(std::string_view key) const {
  return or_empty(find_subnet(key));
}

Maybe<SecretRef> Section::find_secret(std::string_view key) const {
  const auto ref = find_section(key);
  if (!ref) return std::nullopt;
  if (const auto path = ref->find_text("secret"))
    return Placed<SecretRef>{{SecretRef::From::Key, path->value}, path->where};
  if (const auto path = ref->find_text("infisical"))
    return Placed<SecretRef>{{SecretRef::From::Infisical, path->value}, path->where};
  return std::nullopt;
}

Placed<SecretRef> Section::secret(std::string_view key) const {
  return or_empty(find_secret(key));
}

Texts Section::texts(std::string_view key) const {
  Texts list;
  const Tree* tree = find(key);
  if (tree != nullptr && tree->is_list())
    for (const TreePtr& item : tree->items)
      if (item->is_scalar()) list.push_back({item->text, item->where});
  return list;
}

Pairs Section::pairs(std::string_view key) const {
  Pairs list;
  const Tree* tree = find(key);
  if (tree != nullptr && tree->is_map())
    for (const Member& member : tree->members)
      if (member.value->is_scalar())
        list.push_back({{member.key, member.where}, member.value->text});
  return list;
}

}  // namespace rocca::spec
