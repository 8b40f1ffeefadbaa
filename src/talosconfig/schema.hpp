#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// What Talos's configuration documents look like, version by version: one table serves merging,
/// checking and the order in which keys are written.
namespace rocca::talos {

/// How Talos holds a value. That decides what it takes, what counts as empty and how two merge.
enum class Shape : std::uint8_t {
  Struct,
  List,
  Map,  // free keys, one type of value
  Any,  // whatever Kubernetes makes of it
  Text,
  Bool,
  Integer,
  Duration,
  Url,
  Expression,  // CEL; a merge always takes the patch's, even if it has none
  Size,        // like Expression
  MaxSize,     // bytes or per cent
  DiskSize,
  Mode,  // file permissions, octal
  Base64,
  Prefix,
  Address,
  AddressPort,
  Hardware,
  SizeMatch,
  Port,      // a port or a range of them
  Argument,  // text, or a list of texts
  Word,      // one of a few
};

struct StructType;

struct Type {
  Shape shape = Shape::Text;
  bool pointer = false;                // absent and empty are two things
  bool keyed = false;                  // a list whose items are merged by their key
  const StructType* fields = nullptr;  // of a Struct
  std::shared_ptr<const Type> item;    // of a List or Map
  bool is_signed = false;              // of an Integer
  unsigned bits = 64;
  std::vector<std::string> words;  // of a Word; the first is what Go's zero stands for
};

struct Field {
  std::string key;
  Type type;
  bool always = false;   // written even if it is empty
  bool replace = false;  // a patch's value takes the place of what is there
  unsigned since = 0;    // minor versions, both ends included
  unsigned until = ~0U;
};

struct StructType {
  std::string name;
  std::vector<Field> fields;  // in the order Talos writes them

  const Field* find(std::string_view key, unsigned minor) const noexcept;
  std::vector<std::string> keys(unsigned minor) const;
};

/// A kind of document. The main one, which has neither apiVersion nor kind, is called "".
struct DocumentType {
  std::string kind;
  unsigned since = 0;
  bool named = false;
  bool link = false;  // makes or configures a link; two with one name exclude each other
  const StructType* fields = nullptr;
};

/// Oldest and newest minor version (of 1.x) that the table knows; newer ones are read like the
/// newest.
constexpr unsigned oldest_minor = 9;
constexpr unsigned newest_minor = 13;

const StructType& main_document();
/// nullptr: no Talos that we know has it. Whether this version has it is for the caller to ask.
const DocumentType* find_document_type(std::string_view kind);
std::vector<std::string> document_kinds(unsigned minor);

}  // namespace rocca::talos
