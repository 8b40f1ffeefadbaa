#pragma once

#include "text/value.hpp"

#include <map>
#include <string>
#include <vector>

namespace rocca::lab::pve {

/// What the placeholders of one scenario stand for; the same placeholder is the same value
/// everywhere.
using Bindings = std::map<std::string, std::string>;

/// Compares what was recorded with what the lab says. Differences are collected as sentences.
class Matcher {
 public:
  explicit Matcher(Bindings& bindings) : bindings_(bindings) {}

  /// Does `actual` have the recorded form? Binds placeholders that are new.
  bool text(const std::string& recorded, const std::string& actual);
  void expect_text(const std::string& where, const std::string& recorded,
                   const std::string& actual);
  /// Objects by key, lists of objects as sets, scalars by JSON type and text.
  void expect_value(const std::string& where, const text::Value& recorded,
                    const text::Value& actual);
  void complain(std::string what) { problems_.push_back(std::move(what)); }
  const std::vector<std::string>& problems() const { return problems_; }

  /// A request's text with the placeholders that earlier answers have bound.
  static std::string fill(const std::string& recorded, const Bindings& bindings);

 private:
  bool value(const text::Value& recorded, const text::Value& actual);

  Bindings& bindings_;
  std::vector<std::string> problems_;
};

}  // namespace rocca::lab::pve
