#include "lab/talos/replay_decode.hpp"
#include "lab/talos/replay_test_site.hpp"
#include "support/reference.hpp"

#include <gmock/gmock.h>

#include <set>

// Every call that the real talosctl makes, command by command, at the front door of a lab node.

namespace rocca::lab::talos {
namespace {

using namespace replay;

/// Protobuf JSON to bytes, by Talos's own descriptors.
class Encoder {
 public:
  explicit Encoder(const Value& descriptors) : descriptors_(descriptors) {}

  std::string request_of(const std::string& path) const {
    const Value* rpc = descriptors_.find("rpc " + path);
    return rpc == nullptr ? "" : text_at(*rpc, "request");
  }

  std::string encode(const std::string& type, const Value& json) const {
    std::string out;
    if (type == "google.protobuf.Duration") {
      put_varint(out, 1, parse_uint(json.text().substr(0, json.text().size() - 1)).value_or(0));
      return out;
    }
    if (type == "google.protobuf.Empty") return out;
    const Value* declared = descriptors_.find("message " + type);
    EXPECT_NE(declared, nullptr) << type;
    if (declared == nullptr) return out;
    for (const text::Entry& entry : json.entries()) {
      bool known = false;
      for (const text::Entry& field : declared->entries()) {
        // `system_partitions_to_wipe: repeated machine.ResetPartitionSpec`
        std::string shape = field.value.text();
        if (!shape.starts_with(entry.key + ": ")) continue;
        shape.erase(0, entry.key.size() + 2);
        const auto number = static_cast<unsigned>(parse_uint(field.key).value_or(0));
        known = true;
        if (shape.starts_with("repeated ")) {
          for (const Value& item : entry.value.items()) put(out, number, shape.substr(9), item);
        } else {
          put(out, number, shape, entry.value);
        }
      }
      EXPECT_TRUE(known) << type << " has no " << entry.key;
    }
    return out;
  }

 private:
  void put(std::string& out, unsigned number, std::string type, const Value& json) const {
    type = split(type, ' ').front();  // behind it may stand since when it is there
    if (type == "string") {
      put_bytes(out, number, json.text());
    } else if (type == "bytes") {
      put_bytes(out, number, from_base64(json.text()).value_or(""));
    } else if (type == "bool") {
      put_varint(out, number, json.as_bool().value_or(false) ? 1 : 0);
    } else if (const Value* names = descriptors_.find("enum " + type)) {
      const Value* value = names->find(json.text());
      EXPECT_NE(value, nullptr) << type << " has no " << json.text();
      if (value != nullptr)
        put_varint(out, number, parse_uint(split(value->text(), ' ').front()).value_or(0));
    } else if (json.is_map() || type.find('.') != std::string::npos) {
      put_bytes(out, number, encode(type, json));
    } else if (const auto negative = parse_int(json.text()); negative && *negative < 0) {
      put_varint(out, number, static_cast<std::uint64_t>(*negative));
    } else {
      put_varint(out, number, parse_uint(json.text()).value_or(0));
    }
  }

  const Value& descriptors_;
};

/// What only reads: a stand-in and a node alike have an answer.
bool only_reads(const std::string& method) {
  static const std::set<std::string> names{"Version",
                                           "ServiceList",
                                           "List",
                                           "Get",
                                           "EtcdMemberList",
                                           "Read",
                                           "EtcdStatus",
                                           "EtcdSnapshot",
                                           "Logs",
                                           "Dmesg",
                                           "GenerateClientConfiguration"};
  return names.contains(method.substr(method.rfind('/') + 1));
}

/// What a node answers to a call that a stand-in without any state took: what it says of itself, a
/// thing that is not there or is so already. Nothing of this means that the call is not understood.
bool about_its_state(const std::string& code) {
  return code == "AlreadyExists" || code == "NotFound" || code == "FailedPrecondition" ||
         code == "InvalidArgument" || code == "Unknown";
}

class TalosctlCalls {
 public:
  TalosctlCalls()
      : descriptors_(text::parse_json(
            test::read_file(test::reference_path("talos/protobuf/descriptors.json")),
            "descriptors")),
        decoder_(descriptors_),
        encoder_(descriptors_) {}

  std::size_t replay(const std::string& file) {
    // talosctl-1.11.5.json: a node of the same release.
    std::string version = file.substr(file.rfind("talosctl-") + 9);
    version = "v" + version.substr(0, version.size() - 5);
    const bool old = version.starts_with("v1.9.");  // no Kubernetes of today runs on it
    std::size_t calls = 0;
    const Value commands = text::parse_json(test::read_file(file), file);
    for (const Value& command : commands.items()) {
      const Value* made = command.find("calls");
      if (made == nullptr || made->size() == 0) {
        // It ended before it asked anybody; that no node is needed for it is all there is to see.
        EXPECT_TRUE(text_at(command, "exit") == "1" || made == nullptr) << text_at(command, "name");
        continue;
      }
      SCOPED_TRACE(version + " " + text_at(command, "name"));
      Site site{old ? old_configs_ : configs_};
      site.platform = "metal";
      const bool insecure = text_at(command, "name").starts_with("insecure-");
      const std::string address = "10.5.0.2";
      if (insecure) {
        site.add(address, "cp1", version, Site::Kubernetes::Off);
      } else {
        site.control_plane(address, "cp1", version);
        site.world.run_for(2min);  // it installs and comes back
        if (!text_at(command, "name").starts_with("bootstrap")) site.bootstrap(address);
      }
      for (const Value& call : made->items()) {
        ask(site, command, call, address, insecure);
        ++calls;
      }
    }
    return calls;
  }

 private:
  void ask(Site& site, const Value& command, const Value& call, const std::string& address,
           bool insecure) {
    const std::string method = text_at(call, "method");
    SCOPED_TRACE(method);
    std::vector<std::string> requests{""};
    const Value* request = call.find("request");
    // Of an upload only its beginning is recorded, which is no base64 any more.
    const bool upload = method.ends_with("/EtcdRecover");
    if (request != nullptr && !upload)
      requests = {encoder_.encode(encoder_.request_of(method), *request)};
    net::Headers metadata;
    if (const Value* fields = call.find("metadata"))
      for (const text::Entry& field : fields->entries())
        for (const Value& value : field.value.items())
          metadata.add(field.key, value.text() == "127.0.0.1" ? address : value.text());
    const Outcome outcome =
        site.call(address, insecure ? "none" : "admin", method, requests, metadata, 20s, 0);
    test::count_case();
    EXPECT_NE(outcome.code, "Unavailable") << outcome.message;
    EXPECT_NE(outcome.code, "PermissionDenied") << outcome.message;
    EXPECT_NE(outcome.code, "Internal") << outcome.message;
    // Version in maintenance mode is refused by real nodes before 1.13, in these words.
    const bool maintenance =
        insecure && outcome.message.find("maintenance mode") != std::string::npos;
    EXPECT_TRUE(outcome.code != "Unimplemented" || maintenance) << outcome.message;
    if (text_at(command, "exit") != "0") return;
    if (only_reads(method) && !maintenance) {
      EXPECT_EQ(outcome.code, "OK") << outcome.message;
      EXPECT_FALSE(outcome.answers.empty());
    } else {
      EXPECT_TRUE(outcome.code == "OK" || maintenance || about_its_state(outcome.code))
          << outcome.code << ": " << outcome.message;
    }
    const std::string type = decoder_.response_of(method);
    EXPECT_FALSE(type.empty());
    for (const std::string& answer : outcome.answers)
      EXPECT_TRUE(decoder_.decode(type, answer).is_map()) << type;
  }

  Configs configs_;
  Configs old_configs_{"v1.9", "v1.32.4"};
  Value descriptors_;
  Descriptors decoder_;
  Encoder encoder_;
};

TEST(Talosctl, EveryCallOfEveryCommandIsAnswered) {
  TalosctlCalls calls;
  for (const std::string& file : test::reference_files("talos/talosctl-calls", ".json")) {
    const std::size_t answered = calls.replay(file);
    EXPECT_GT(answered, 0u) << file << " gives no case";
    fmt::print("{:<28} {:>3} calls\n", file.substr(file.rfind('/') + 1), answered);
  }
}

}  // namespace
}  // namespace rocca::lab::talos
