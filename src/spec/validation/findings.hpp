#pragma once

#include "base/diagnostics.hpp"
#include "spec/tree.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace rocca::spec {

/// Collects what validation finds, by the code of a rule, and keeps the texts of the files with
/// secrets masked. The same thing found twice (a machine that many nodes inherit) is said once.
class Findings {
 public:
  /// Adds a file; its number is what Where::file counts.
  std::uint32_t add_file(std::string name, std::string text);
  const std::vector<std::string>& files() const { return names_; }

  void add(std::string_view code, const Where& where, std::string message, std::string hint = "");
  void add(std::string_view code, Severity severity, const Where& where, std::string message,
           std::string hint = "");

  /// The bytes of a value that must not be shown, whatever else is wrong on its line.
  void mask(std::uint32_t file, std::size_t begin, std::size_t end);
  void mask(const Tree& tree) { mask(tree.where.file, tree.begin, tree.end); }

  /// A value that was there and is useless: who misses it later stays quiet.
  void mark_broken(std::string path) { broken_.insert(std::move(path)); }
  bool is_broken(const std::string& path) const { return broken_.contains(path); }
  bool has_broken() const { return !broken_.empty(); }

  Position position(const Where& where) const;
  /// Everything found so far, in the order of the files.
  Diagnostics finish() const;

 private:
  struct Finding {
    Where where;
    Problem problem;
  };
  std::vector<std::string> names_;
  std::vector<std::string> texts_;
  std::vector<Finding> findings_;
  std::set<std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t, std::string>> said_;
  std::set<std::string> broken_;
};

}  // namespace rocca::spec
