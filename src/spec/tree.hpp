#pragma once

#include "text/value.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::spec {

/// A place in one of the files that a spec was read from. line 0: nobody wrote it (a default).
struct Where {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t length = 0;

  bool written() const { return line != 0; }
};

struct FieldNode;

struct Tree;
using TreePtr = std::shared_ptr<const Tree>;

struct Member {
  std::string key;
  Where where;
  TreePtr value;
};

/// A value of the spec that knows which file it came from: bases and inheritance mix several. Never
/// changed after it was made, so that a thousand nodes share the machine of their pool.
struct Tree {
  text::Kind kind = text::Kind::Null;
  std::string text;  // of a scalar
  Where where;
  std::size_t begin = 0;  // bytes in its file
  std::size_t end = 0;
  std::vector<Member> members;
  std::vector<TreePtr> items;

  bool is_map() const { return kind == text::Kind::Map; }
  bool is_list() const { return kind == text::Kind::List; }
  bool is_scalar() const { return kind < text::Kind::List; }
  const Member* find_member(std::string_view key) const;
  TreePtr find(std::string_view key) const;
};

TreePtr to_tree(const text::Value& value, std::uint32_t file);
text::Value to_value(const Tree& tree);

/// `over` on `under`: maps key by key, everything else replaced. A null in `over` takes the key
/// away; of keys that exclude each other (a state in S3, a state in Kubernetes) the one in `over`
/// wins. `field` says what stands here.
TreePtr merge(const TreePtr& under, const TreePtr& over, const FieldNode* field);

}  // namespace rocca::spec
