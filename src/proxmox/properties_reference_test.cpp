#include "base/error.hpp"
#include "proxmox/property_string.hpp"
#include "proxmox/recordings_test_support.hpp"

#include <gmock/gmock.h>

#include <map>

namespace rocca::proxmox {
namespace {

bool is_reprinted(std::string_view option) {
  return family(option) == "net" || is_drive(option);
}

/// Proxmox gave a MAC where none was sent; the recording calls it <MAC:n>.
std::string without_generated_mac(std::string text) {
  const std::size_t start = text.find("=<MAC:");
  if (start == std::string::npos) return text;
  return text.erase(start, text.find('>', start) + 1 - start);
}

/// What only the server knows about a drive: where it put it and how large that became.
std::string without_placement(std::string_view option, std::string_view text) {
  PropertyString properties = PropertyString::parse(option, text);
  for (const char* key : {"file", "size", "import-from", "format", "ms-cert"})
    properties.erase(key);
  // Proxmox marks a cloud-init drive and an ISO as CD-ROM by itself.
  properties.erase("media");
  return properties.print();
}

std::map<std::string, std::string> sent_parameters(const text::Value& step) {
  std::map<std::string, std::string> sent;
  if (const text::Value* form = step.find({"request", "form"}))
    for (const text::Value& pair : form->items())
      sent[pair.items()[0].text()] = pair.items()[1].text();
  return sent;
}

TEST(Properties, ArePrintedAsProxmoxPrintsThem) {
  for_each_recorded_step([](const RecordedStep& recorded) {
    const text::Value* config = recorded.step.find({"readback", "config"});
    if (config == nullptr || !config->is_map()) return;
    for (const text::Entry& entry : config->entries()) {
      if (!is_reprinted(entry.key) || !entry.value.is_string()) continue;
      SCOPED_TRACE(recorded.where + " " + entry.key);
      const std::string printed = entry.value.text();
      EXPECT_EQ(PropertyString::parse(entry.key, printed).print(), printed);
      EXPECT_TRUE(same_meaning(entry.key, printed, printed));
      test::count_case();
    }
  });
}

TEST(Properties, SentAndReadBackMeanTheSame) {
  for_each_recorded_step([](const RecordedStep& recorded) {
    const text::Value* config = recorded.step.find({"readback", "config"});
    if (config == nullptr || !config->is_map()) return;
    if (text_at(recorded.step, {"response", "status"}) != "200") return;
    if (const text::Value* task = recorded.step.find({"task", "exitstatus"});
        task && task->text() != "OK")
      return;
    for (const auto& [option, sent] : sent_parameters(recorded.step)) {
      const text::Value* found = config->find(option);
      if (found == nullptr || !found->is_scalar() || found->is_null()) continue;
      // Hidden by Proxmox, or a clone's and a restore's own parameters.
      if (option == "cipassword") continue;
      SCOPED_TRACE(recorded.where + " " + option + " sent '" + sent + "' found '" + found->text() +
                   "'");
      const std::string value = found->text();
      if (is_drive(option)) {
        EXPECT_EQ(without_placement(option, sent), without_placement(option, value));
      } else if (family(option) == "net") {
        EXPECT_EQ(PropertyString::parse(option, sent).print(), without_generated_mac(value));
      } else {
        EXPECT_TRUE(same_meaning(option, sent, value))
            << normalise(option, sent) << " | " << normalise(option, value);
      }
      test::count_case();
    }
  });
}

}  // namespace
}  // namespace rocca::proxmox
