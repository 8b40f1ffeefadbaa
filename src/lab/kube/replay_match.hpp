#pragma once

#include "text/value.hpp"

#include <map>
#include <string>
#include <vector>

namespace rocca::lab::kube {

/// What the placeholders of one scenario stand for, and whether resourceVersions keep their order.
class Bindings {
 public:
  /// Revisions only by their form: others wrote in between.
  void set_loose(bool loose) { loose_ = loose; }
  /// Does `actual` have the recorded form? Binds placeholders that are new.
  bool text(const std::string& recorded, const std::string& actual);
  /// A request's text with the placeholders that earlier answers have bound.
  std::string fill(const std::string& recorded) const;
  text::Value fill(const text::Value& recorded) const;

 private:
  bool bind(const std::string& name, const std::string& value);
  std::map<std::string, std::string> bound_;
  bool loose_ = false;
};

/// Compares what was recorded with what the lab says. Differences are collected as sentences.
class Matcher {
 public:
  Matcher(Bindings& bindings, bool owners_kept) : bindings_(bindings), owners_kept_(owners_kept) {}

  void expect_text(const std::string& where, const std::string& recorded,
                   const std::string& actual);
  /// Objects by key, lists in order; managedFields and causes as sets, times by form.
  void expect_value(const std::string& where, const text::Value& recorded,
                    const text::Value& actual);
  void complain(std::string what) { problems_.push_back(std::move(what)); }
  const std::vector<std::string>& problems() const { return problems_; }
  /// Without keeping what it would complain about.
  bool agrees(const text::Value& recorded, const text::Value& actual);

 private:
  void expect_set(const std::string& where, const text::Value& recorded_list,
                  const text::Value& actual_list);

  Bindings& bindings_;
  bool owners_kept_;
  std::vector<std::string> problems_;
};

}  // namespace rocca::lab::kube
