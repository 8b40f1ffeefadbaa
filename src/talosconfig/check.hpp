#pragma once

#include "talosconfig/validate.hpp"
#include "text/value.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

/// What the checks of one configuration share. Private to validate*.cpp.
namespace rocca::talos {

class ConfigCheck {
 public:
  ConfigCheck(const std::vector<ConfigDocument>& config, unsigned minor, ConfigMode mode,
              ConfigProblems& problems);

  /// Talos refuses it.
  void refuse(std::string code, std::string path, std::string message,
              const text::Value* at = nullptr);
  /// Talos takes it, and it is wrong.
  void ours(std::string code, std::string path, std::string message,
            const text::Value* at = nullptr);

  /// Talos takes it with a warning.
  void warn(std::string code, std::string path, std::string message,
            const text::Value* at = nullptr);

  /// Of the main document; an empty map if there is none.
  const text::Value& main() const { return main_; }
  bool has_main() const { return has_main_; }
  bool control_plane() const;
  unsigned minor() const { return minor_; }
  bool metal() const { return mode_ == ConfigMode::Metal; }
  bool container() const { return mode_ == ConfigMode::Container; }
  const std::vector<ConfigDocument>& config() const { return config_; }
  const ConfigDocument* find(std::string_view kind) const;

 private:
  const std::vector<ConfigDocument>& config_;
  unsigned minor_;
  ConfigMode mode_;
  ConfigProblems& problems_;
  text::Value main_ = text::Value::map();
  bool has_main_ = false;
};

/// A scalar's text below `value`, or "".
std::string text_below(const text::Value& value, std::initializer_list<std::string_view> path);
/// Is a bool there and true?
bool is_on(const text::Value& value, std::initializer_list<std::string_view> path);
bool is_host_name(std::string_view name);

void check_machine(ConfigCheck& check);
void check_machine_network(ConfigCheck& check);
void check_cluster(ConfigCheck& check);
void check_authorities(ConfigCheck& check);
void check_other_documents(ConfigCheck& check);

}  // namespace rocca::talos
