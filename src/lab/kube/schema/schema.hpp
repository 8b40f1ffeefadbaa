#pragma once

#include "text/value.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::kube {

struct Type;
using TypeRef = std::shared_ptr<const Type>;

struct Field {
  std::string name;
  TypeRef type;
  bool pointer = false;  // keeps a zero that was given; an absent struct stays absent
  bool always = false;   // written even when empty (no `omitempty`)
};

/// The shape of a value: what may stand there, how lists and maps are merged, and what Go would
/// write back. Built-in kinds come from the tables in schema_*.cpp, custom ones from their CRD.
struct Type {
  enum class Form { Scalar, Struct, Map, List, Any };
  enum class Scalar { String, Int, Number, Bool, Quantity, Time, MicroTime, IntOrString, Bytes };
  enum class Lists { Atomic, Set, Map };

  Form form = Form::Any;
  Scalar scalar = Scalar::String;
  std::string name;           // the Go type, for texts
  std::vector<Field> fields;  // Struct
  TypeRef element;            // Map, List, and what other keys of a Struct hold (custom kinds)
  Lists lists = Lists::Atomic;
  std::vector<std::string> keys;                  // Lists::Map
  std::map<std::string, text::Value> key_values;  // what a key that is left out stands for
  bool atomic = false;                            // Struct, Map: owned as a whole
  bool open = false;                              // Struct: unknown fields are kept
  bool custom = false;                            // from a CRD: nothing is dropped for being empty
  bool embedded = false;                          // x-kubernetes-embedded-resource
  bool nullable = false;
  text::Value rules;  // the CRD's schema at this place, for validation and defaults

  const Field* find(std::string_view field) const;
};

/// All built-in types by name.
class Schemas {
 public:
  Schemas();
  /// Throws Error(Bug) for a name that stands in no table.
  TypeRef get(std::string_view name) const;
  TypeRef find(std::string_view name) const;
  TypeRef object_meta() const { return get("ObjectMeta"); }

 private:
  friend class TypeReader;
  std::map<std::string, std::shared_ptr<Type>, std::less<>> types_;
};

/// The tables: one type a line, `Name = field:type …`. See schema.cpp for the notation.
std::string_view schema_core_table();
std::string_view schema_workload_table();
std::string_view schema_other_table();

/// The type of a custom kind from `openAPIV3Schema`; metadata comes from the built-in table.
TypeRef custom_type(const text::Value& open_api, const Schemas& schemas);
/// Where nothing is declared: maps are merged by key, lists are atomic.
TypeRef any_type();

}  // namespace rocca::lab::kube
