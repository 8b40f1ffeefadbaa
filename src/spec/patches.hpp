#pragma once

#include "base/files.hpp"
#include "spec/spec.hpp"
#include "spec/validation/findings.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rocca::spec {

using PatchList = std::vector<std::shared_ptr<const Patch>>;

/// Reads what `patches` keys hold: an inline map, a text block, a file, or a list of these; a list
/// whose items have `op` is one RFC 6902 patch. A file is read once, however many nodes name it.
class PatchReader {
 public:
  PatchReader(Files& files, std::string folder, Findings& findings)
      : files_(files), folder_(std::move(folder)), findings_(findings) {}

  PatchList read(const TreePtr& tree);

 private:
  void add(const TreePtr& tree, PatchList& out);
  void add_file(const TreePtr& tree, PatchList& out);
  void add_text(const TreePtr& tree, PatchList& out);
  void add_parsed(const std::vector<text::Value>& documents, std::vector<TreePtr> trees,
                  const std::string& source, const Where& where, PatchList& out);

  Files& files_;
  std::string folder_;
  Findings& findings_;
  std::map<const Tree*, PatchList> known_;
  std::map<std::string, PatchList> files_read_;
};

}  // namespace rocca::spec
