#pragma once

#include "base/files.hpp"
#include "secrets/sops/sops.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::secrets::sops {

/// `.sops.yaml`: which files are encrypted to whom, and how.
class Config {
 public:
  /// Throws Error(Usage) `name:line:column: …`.
  static Config parse(std::string_view text, std::string_view name);
  /// The `.sops.yaml` in the folder or the nearest one above it (100 levels, as sops); nothing if
  /// there is none. Folders are absolute.
  static std::optional<Config> find(Files& files, const std::string& folder);

  /// The first creation rule whose `path_regex` fits. Nothing if the file has no rules at all;
  /// Error(Usage) if it has, and none fits. `path` is absolute; what counts is its part below the
  /// config's folder.
  std::optional<Recipe> find_rule(const std::string& path) const;

  const std::string& name() const noexcept { return name_; }

 private:
  struct CreationRule {
    std::string path_regex;
    Recipients recipients;
    Selection selection;
  };

  std::string name_;
  std::string folder_;
  bool has_rules_ = false;
  std::vector<CreationRule> rules_;
  unsigned yaml_indent_ = 4;
  std::string json_indent_ = "\t";
};

}  // namespace rocca::secrets::sops
