#pragma once

#include "base/entropy.hpp"
#include "base/secret.hpp"
#include "secrets/sops/pattern.hpp"
#include "secrets/sops/sops.hpp"
#include "text/value.hpp"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::secrets::sops {

/// Sealed texts of a file by a hash of what is in them, so that a value that did not change is
/// written with the bytes it had. (Same key, IV, place and plaintext: nothing new is revealed.)
using Stash = std::map<std::string, std::deque<std::string>>;

/// Goes through documents in the order of SOPS and opens or seals what the rule selects, comments
/// included. The MAC is over all plaintexts in that order.
class Sealer {
 public:
  Sealer(const Selection& selection, Format format, const Secret& data_key, std::string_view name);
  ~Sealer();

  /// Throws Error(Rejected) naming the value that cannot be opened.
  void open(std::vector<text::Value>& documents, Stash* stash = nullptr);
  void seal(std::vector<text::Value>& documents, Entropy& entropy, Stash* stash = nullptr);
  /// 128 upper-case hex digits, after open or seal.
  std::string mac() const;

 private:
  using Path = std::vector<std::string>;

  void document(text::Value& root);
  void collection(text::Value& value);
  void value(text::Value& value);
  void comments(std::vector<std::string>& lines);
  void comment(std::string& line);
  void leaf(text::Value& value);
  void open_leaf(text::Value& value);
  bool selected(bool is_comment) const;
  std::string aad() const;
  std::string where() const;
  std::string sealed_text(std::string_view plaintext, const std::string& type);
  [[noreturn]] void refuse(const std::string& why) const;

  Selection selection_;
  Format format_;
  const Secret& data_key_;
  std::string name_;
  std::optional<Pattern> pattern_;
  Entropy* entropy_ = nullptr;  // null: opening
  Stash* stash_ = nullptr;
  Path path_;                                     // map keys
  Path shown_;                                    // and indices
  Path neighbours_;                               // keys beside which a comment stands
  std::vector<std::vector<std::string>> active_;  // comments that may speak of what follows
  std::string hashed_;                            // plaintexts, for the MAC
};

}  // namespace rocca::secrets::sops
