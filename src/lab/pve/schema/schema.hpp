#pragma once

#include "lab/pve/release.hpp"
#include "text/value.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::pve {

/// One parameter of a call, or one key of a property string.
struct Parameter {
  enum class Type { String, Integer, Number, Boolean, List };

  std::string name;  // families as `net[n]`
  Type type = Type::String;
  bool optional = false;
  std::optional<double> minimum, maximum;
  std::optional<std::size_t> min_length, max_length;
  std::vector<std::string> values;  // enumeration
  std::string format;               // "pve-vmid", or the name of a property-string format
  std::string pattern;
  std::string needs;         // "requires" of the schema
  bool default_key = false;  // property strings: may be written without `key=`
  std::string alias, key_alias;
};

/// The keys of one kind of property string, sorted by name.
struct Format {
  std::string name;
  std::map<std::string, Parameter> keys;
  const Parameter* default_key() const;
};

/// Who may call: everybody with a login, everybody, root only, a check expression as Proxmox writes
/// it
/// (["perm","/vms/{vmid}",["VM.Audit"]]), or whatever the handler asks.
struct Method {
  std::string verb;
  std::string path;         // with {node} …
  std::string who;          // "all", "world", "root", "handler" or the expression's text
  text::Value check;        // the expression, null otherwise
  bool protected_ = false;  // runs in pvedaemon
  bool to_node = false;     // is forwarded to the node in the path
  bool token = true;
  std::map<std::string, Parameter> parameters;
};

/// A parameter as it came in: form and query give texts, JSON gives types; a repeated key is a
/// list.
struct Raw {
  std::vector<std::string> values;
  bool list = false;
};
using RawParameters = std::map<std::string, Raw>;

/// Checked parameters. Booleans are "0" or "1", integers are canonical, list formats are joined
/// with commas.
class Parameters {
 public:
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const std::string* find(std::string_view name) const;
  std::string text(std::string_view name, std::string_view fallback = "") const;
  std::int64_t integer(std::string_view name, std::int64_t fallback = 0) const;
  bool flag(std::string_view name, bool fallback = false) const;
  const std::vector<std::string>& list(std::string_view name) const;  // array parameters
  std::vector<std::string> split(std::string_view name) const;        // *-list formats

  void set(std::string name, std::string value) {
    values_.insert_or_assign(std::move(name), std::move(value));
  }
  void set_list(std::string name, std::vector<std::string> values);
  void erase(std::string_view name);
  const std::map<std::string, std::string, std::less<>>& all() const noexcept { return values_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::vector<std::string>, std::less<>> lists_;
};

/// The calls that the lab serves, with their parameters, as our own compact table says it
/// (schema_*.cpp). One per release; built once.
class Schema {
 public:
  static const Schema& of(const Release& release);
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  /// The method for a decoded path; fills `bindings` with the path's variables. A node's last
  /// variable `{volume}` takes the rest of the path.
  const Method* find(std::string_view verb, const std::vector<std::string>& segments,
                     std::map<std::string, std::string>& bindings) const;
  const Format* find_format(std::string_view name) const;
  const std::vector<Method>& methods() const noexcept { return methods_; }
  /// The parameter that describes a setting of a VM; nullptr: there is none.
  const Parameter* find_setting(const std::string& key) const;
  const std::map<std::string, Format>& formats() const noexcept { return formats_; }

  /// The schema's verdict on a call's parameters; throws the 400 with every problem. Property
  /// strings are checked but left as they were sent.
  Parameters check(const Method& method, const RawParameters& raw) const;

  /// The problem with one value, or nothing. `value` is made canonical. `path` names it inside a
  /// property string.
  std::optional<std::string> check_value(const Parameter& parameter, std::string& value) const;

  /// Splits a property string into its keys, aliases resolved, values canonical. Throws
  /// std::string: the text behind `invalid format - `. `path` is the parameter's name.
  std::map<std::string, std::string> parse(const Format& format, std::string_view text,
                                           std::string_view path) const;
  /// As Proxmox re-prints: the default key first, then mandatory keys, then the rest by name.
  std::string print(const Format& format, const std::map<std::string, std::string>& values) const;

 private:
  explicit Schema(const Release& release);
  void read(std::string_view table);

  const bool nine_;
  std::vector<Method> methods_;
  /// By verb and how many segments a path has; the root and those that take the rest of a path are
  /// under 0.
  std::map<std::string, std::map<std::size_t, std::vector<const Method*>>, std::less<>> by_verb_;
  const Method* settings_ = nullptr;
  std::map<std::string, Format> formats_;
};

/// The parameter family of an indexed name: `net0` -> `net[n]`; the name itself otherwise.
std::string family(std::string_view name);
/// How many members a family has: `net[n]` goes from net0 to net31.
std::size_t family_size(std::string_view group);

/// Proxmox's list separators: comma, semicolon, white space, NUL.
std::vector<std::string> split_list(std::string_view text);

/// Named formats that are not property strings ("pve-vmid"): nothing if the value is fine, else the
/// complaint.
std::optional<std::string> check_format(std::string_view format, const std::string& value);

}  // namespace rocca::lab::pve
