#pragma once

#include "base/error.hpp"
#include "spec/fields.hpp"
#include "spec/spec.hpp"

#include <set>
#include <string>
#include <string_view>

namespace rocca::spec {

/// One map of the resolved tree with its part of the table. Reading a key that the table does not
/// have is a bug; so is reading it as something else than its type. What is absent or was wrong
/// reads as an empty value without a place.
class Section {
 public:
  Section(TreePtr tree, const FieldNode& field, std::set<std::string>* touched)
      : tree_(std::move(tree)), field_(&field), touched_(touched) {}

  const Where& where() const { return tree_->where; }
  const TreePtr& tree() const { return tree_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// A section, a list of sections, or sections by name below this one.
  std::optional<Section> find_section(std::string_view key) const;
  Section section(std::string_view key) const;  // empty where it is absent
  std::vector<Section> sections(std::string_view key) const;
  std::vector<std::pair<const Member*, Section>> named(std::string_view key) const;
  const Tree* find(std::string_view key) const { return find_ptr(key).get(); }
  TreePtr find_ptr(std::string_view key) const;
  Where key_where(std::string_view key) const;

  Maybe<std::string> find_text(std::string_view key) const;
  Placed<std::string> text(std::string_view key) const;
  Placed<bool> boolean(std::string_view key) const;
  Maybe<std::int64_t> find_int(std::string_view key) const;
  Placed<std::int64_t> integer(std::string_view key) const;
  Placed<Bytes> size(std::string_view key) const;
  Duration duration(std::string_view key) const;
  Maybe<Version> find_version(std::string_view key) const;
  Placed<Version> version(std::string_view key) const;
  Maybe<IpAddress> find_address(std::string_view key) const;
  Maybe<Cidr> find_subnet(std::string_view key) const;
  Placed<Cidr> subnet(std::string_view key) const;
  Maybe<SecretRef> find_secret(std::string_view key) const;
  Placed<SecretRef> secret(std::string_view key) const;
  Texts texts(std::string_view key) const;
  Pairs pairs(std::string_view key) const;

  template <class T, class Parse>
  Maybe<T> find_parsed(std::string_view key, Parse parse) const {
    const Tree* tree = find(key);
    if (tree == nullptr || !tree->is_scalar()) return std::nullopt;
    const auto value = parse(tree->text);
    if (!value) return std::nullopt;
    return Placed<T>{*value, tree->where};
  }

 private:
  const FieldNode& field_of(std::string_view key) const;

  TreePtr tree_;
  const FieldNode* field_;
  std::set<std::string>* touched_;
};

}  // namespace rocca::spec
