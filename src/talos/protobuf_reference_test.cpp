#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>
#include <google/protobuf/compiler/importer.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>

#include <filesystem>
#include <map>

// Our .proto files read at run time, against every message, field, enum and encoding that Talos's
// own library gave.

namespace rocca::talos {
namespace {

namespace pb = google::protobuf;

/// Fields of Talos's messages that we left out, because their types are of no use to us.
bool is_left_out(const std::string& message) {
  return message == "talos.resource.definitions.block.VolumeStatusSpec" ||
         message == "talos.resource.definitions.network.LinkStatusSpec";
}

std::string ours(std::string name) {
  for (const auto& [theirs, mine] : {std::pair{"talos.resource.definitions.", "spec."},
                                     {"resource.config.", "spec.config."},
                                     {"cosi.resource.", "cosi."}})
    if (name.starts_with(theirs))
      return std::string("rocca.proto.") + mine + name.substr(std::string_view(theirs).size());
  if (name == "google.rpc.Status") return "rocca.proto.common.Status";
  return name.starts_with("google.") ? name : "rocca.proto." + name;
}

class Definitions {
 public:
  Definitions() : importer_(&tree_, nullptr) {
    tree_.MapPath("", test::source_folder() + "/proto");
    tree_.MapPath("", "/usr/include");
    for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() + "/proto"))
      if (entry.path().extension() == ".proto") {
        EXPECT_NE(importer_.Import(entry.path().filename().string()), nullptr) << entry;
      }
  }
  const pb::Descriptor* message(const std::string& theirs) {
    return importer_.pool()->FindMessageTypeByName(ours(theirs));
  }
  const pb::EnumDescriptor* enumeration(const std::string& theirs) {
    return importer_.pool()->FindEnumTypeByName(ours(theirs));
  }
  std::unique_ptr<pb::Message> make(const std::string& theirs) {
    const pb::Descriptor* type = message(theirs);
    return type == nullptr ? nullptr
                           : std::unique_ptr<pb::Message>(factory_.GetPrototype(type)->New());
  }

 private:
  pb::compiler::DiskSourceTree tree_;
  pb::compiler::Importer importer_;
  pb::DynamicMessageFactory factory_;
};

text::Value parse(const std::string& file) {
  text::Limits limits;
  limits.size = 64u << 20;
  return text::parse_json(test::read_file(file), file, limits);
}

std::string type_of(const pb::FieldDescriptor& field) {
  if (field.is_map()) return "map<string,string>";
  std::string text;
  if (field.real_containing_oneof() != nullptr)
    text = "oneof " + field.real_containing_oneof()->name() + " ";
  else if (field.is_repeated())
    text = "repeated ";
  else if (field.has_optional_keyword())
    text = "optional ";
  if (field.type() == pb::FieldDescriptor::TYPE_MESSAGE)
    return text + field.message_type()->full_name();
  if (field.type() == pb::FieldDescriptor::TYPE_ENUM) return text + field.enum_type()->full_name();
  return text + field.type_name();
}

TEST(Protobuf, EveryDefinitionOfOursIsTalossOwn) {
  Definitions definitions;
  for (const std::string& file : test::reference_files("talos/protobuf", "descriptors.json")) {
    const text::Value descriptors = parse(file);
    for (const text::Entry& entry : descriptors.entries()) {
      if (entry.key.starts_with("enum ")) {
        const auto* type = definitions.enumeration(entry.key.substr(5));
        if (type == nullptr) continue;
        for (const text::Entry& value : entry.value.entries()) {
          if (value.key.starts_with("_")) continue;
          const auto* found = type->FindValueByName(value.key);
          ASSERT_NE(found, nullptr) << entry.key << " " << value.key;
          EXPECT_EQ(std::to_string(found->number()), split(value.value.text(), ' ')[0])
              << entry.key << " " << value.key;
        }
        test::count_case();
      }
      if (!entry.key.starts_with("message ")) continue;
      const std::string name = entry.key.substr(8);
      const pb::Descriptor* type = definitions.message(name);
      if (type == nullptr) continue;
      for (const text::Entry& field : entry.value.entries()) {
        const auto number = parse_int(field.key);
        if (!number) continue;
        const auto* found = type->FindFieldByNumber(static_cast<int>(*number));
        if (found == nullptr) {
          EXPECT_TRUE(is_left_out(name))
              << name << " has no field " << field.key << ": " << field.value.text();
          continue;
        }
        const std::string text = field.value.text();
        const std::size_t colon = text.find(": ");
        EXPECT_EQ(found->name(), text.substr(0, colon)) << name;
        std::string wanted = text.substr(colon + 2);
        wanted = wanted.substr(0, wanted.find(" (since"));
        const std::size_t blank = wanted.rfind(' ');
        const std::string base = blank == std::string::npos ? wanted : wanted.substr(blank + 1);
        const bool is_name = base.find('.') != std::string::npos;
        if (is_name)
          wanted = (blank == std::string::npos ? "" : wanted.substr(0, blank + 1)) + ours(base);
        EXPECT_EQ(type_of(*found), wanted) << name << "." << found->name();
      }
      test::count_case();
    }
  }
}

/// The JSON of an Any is expanded in the recordings, which our type names cannot follow: its bytes
/// are compared instead.
bool holds_any(const text::Value& value) {
  if (value.find("@type") != nullptr) return true;
  for (const text::Entry& entry : value.entries())
    if (holds_any(entry.value)) return true;
  for (const text::Value& item : value.items())
    if (holds_any(item)) return true;
  return false;
}

TEST(Protobuf, EveryRecordedEncodingIsReadAndWritten) {
  Definitions definitions;
  std::size_t read = 0, written = 0;
  for (const std::string& file : test::reference_files("talos/protobuf", "messages.json")) {
    const text::Value messages = parse(file);
    for (const text::Value& recorded : messages.items()) {
      const std::string name = recorded.find("message")->text();
      SCOPED_TRACE(recorded.find("name")->text() + " (" + name + ")");
      auto message = definitions.make(name);
      if (message == nullptr) {
        ADD_FAILURE() << "we have no such message";
        continue;
      }
      for (const text::Value& encoding : recorded.find("encodings")->items()) {
        const auto bytes = from_hex(encoding.find("hex")->text());
        ASSERT_TRUE(bytes);
        ASSERT_TRUE(message->ParseFromString(*bytes));
        EXPECT_TRUE(message->GetReflection()->GetUnknownFields(*message).empty())
            << "a field we do not know";
        EXPECT_EQ(to_hex(message->SerializeAsString()), encoding.find("hex")->text());
        ++read;
        test::count_case();
        if (const text::Value* spec = encoding.find("spec")) {
          // The resource inside: its definition is another message of ours.
          const std::string type = spec->find("message")->text();
          auto inner = definitions.make(type);
          ASSERT_NE(inner, nullptr) << type;
          ASSERT_TRUE(inner->ParseFromString(*from_hex(spec->find("hex")->text())));
          auto from_json = definitions.make(type);
          pb::util::JsonParseOptions lenient;
          lenient.ignore_unknown_fields = is_left_out(type);
          const auto status = pb::util::JsonStringToMessage(text::emit_json(*spec->find("json")),
                                                            from_json.get(), lenient);
          ASSERT_TRUE(status.ok()) << status.ToString();
          if (is_left_out(type)) {
            inner->DiscardUnknownFields();
          } else {
            EXPECT_TRUE(inner->GetReflection()->GetUnknownFields(*inner).empty());
          }
          // Up to 1.11 zero values are on the wire too: meanings are compared, not bytes.
          EXPECT_EQ(inner->SerializeAsString(), from_json->SerializeAsString());
          test::count_case();
          continue;
        }
        if (holds_any(*recorded.find("json"))) continue;
        auto from_json = definitions.make(name);
        const auto status =
            pb::util::JsonStringToMessage(text::emit_json(*recorded.find("json")), from_json.get());
        ASSERT_TRUE(status.ok()) << status.ToString();
        EXPECT_EQ(from_json->SerializeAsString(), message->SerializeAsString())
            << from_json->DebugString();
        ++written;
      }
    }
  }
  std::printf("%zu encodings read, %zu made from JSON\n", read, written);
}

}  // namespace
}  // namespace rocca::talos
