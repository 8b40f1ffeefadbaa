#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "base/uuid.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/node.hpp"
#include "proto/machine.pb.h"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace pb = rocca::proto::machine;

namespace {

std::string duration_text(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  const auto hours = seconds / 3600, minutes = seconds / 60 % 60;
  if (hours != 0) return fmt::format("{}h{}m{}s", hours, minutes, seconds % 60);
  if (minutes != 0) return fmt::format("{}m{}s", minutes, seconds % 60);
  return fmt::format("{}s", seconds);
}

}  // namespace

Routine<void> TalosNode::apply_maintenance(std::shared_ptr<Call> call) {
  if (config_) {
    // Nobody takes a second config any more: the handler waits for ever, the server waits for the
    // handler, and the boot for the server.
    wedged_ = true;
    co_await hang(call);
  }
  const auto request = call->parse<pb::ApplyConfigurationRequest>();
  const auto mode_number = static_cast<int>(request.mode());
  if (mode_number != pb::ApplyConfigurationRequest::REBOOT &&
      mode_number != pb::ApplyConfigurationRequest::AUTO &&
      mode_number != pb::ApplyConfigurationRequest::TRY) {
    constexpr const char* names[] = {"reboot", "auto", "no_reboot", "staged", "try"};
    const std::string name = mode_number >= 0 && mode_number < 5
                                 ? replace_all(names[mode_number], "_", "-")
                                 : std::to_string(mode_number);
    refuse(
        Code::Unimplemented,
        fmt::format("apply configuration --mode='{}' is not supported in maintenance mode", name));
  }
  MachineConfig config;
  try {
    config = MachineConfig::parse(request.data(), release_);
  } catch (const ConfigError& error) {
    refuse(Code::Unknown, "failed to parse config: " + error.text);
  }
  if (const auto error = config.validate(mode(), false, release_))
    refuse(Code::InvalidArgument, "configuration validation failed: " + *error);
  pb::ApplyConfigurationResponse response;
  pb::ApplyConfiguration& message = *response.add_messages();
  // Both of its validations find them; a node that runs keeps them to itself.
  for (int twice = 0; twice < 2; ++twice)
    for (std::string& warning : config.warnings(release_)) message.add_warnings(std::move(warning));
  if (request.dry_run())
    message.set_mode_details(
        "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.");
  call->reply->send(response.SerializeAsString());
  if (request.dry_run()) co_return;
  if (!config.complete()) {
    partial_ = std::move(config);
    apply_network();
    publish();
    co_return;
  }
  disk_.config = config.text();
  config_ = std::move(config);
  config_given_.wake_all();
}

Routine<void> TalosNode::apply_configuration(std::shared_ptr<Call> call) {
  using Request = pb::ApplyConfigurationRequest;
  const auto request = call->parse<Request>();
  MachineConfig config;
  try {
    config = MachineConfig::parse(request.data(), release_);
  } catch (const ConfigError& error) {
    refuse(Code::InvalidArgument, error.text);
  }
  const bool maintenance = in_maintenance();
  // It has one already and is about to leave: whoever has no certificate may no longer say
  // anything.
  if (maintenance && config_) refuse(Code::PermissionDenied, "not authorized");
  if (going_down_ && release_.minor() >= 12)
    refuse(Code::FailedPrecondition,
           "configuration was already applied and node is rebooting, cannot apply more "
           "configuration changes until next reboot");
  if (!config.complete() && !maintenance && release_.minor() >= 11)
    refuse(Code::InvalidArgument,
           "the applied machine configuration doesn't contain v1alpha1 config, did you mean to "
           "patch the machine config instead?");
  if (const auto error = config.validate(mode(), disk_.installed, release_))
    refuse(Code::InvalidArgument, *error);
  int mode_number = static_cast<int>(request.mode());
  if (mode_number < 0 || mode_number > 4) mode_number = Request::REBOOT;
  const bool quick = maintenance || !config_ || config.can_follow(*config_);
  if (mode_number == Request::AUTO) mode_number = quick ? Request::NO_REBOOT : Request::REBOOT;
  if (maintenance && mode_number == Request::REBOOT) mode_number = Request::NO_REBOOT;
  const std::string diff = unified_diff(config_ ? config_->canonical() : "", config.canonical());
  if (!quick && (mode_number == Request::NO_REBOOT || mode_number == Request::TRY))
    refuse(Code::InvalidArgument,
           "this config change can't be applied in immediate mode\ndiff:\n" + diff);
  std::string details = mode_number == Request::STAGED
                            ? "Staged configuration to be applied after the next reboot"
                        : mode_number == Request::REBOOT ? "Applied configuration with a reboot"
                                                         : "Applied configuration without a reboot";
  pb::ApplyConfigurationResponse response;
  pb::ApplyConfiguration& message = *response.add_messages();
  message.set_mode(static_cast<Request::Mode>(mode_number));
  if (request.dry_run()) {
    message.set_mode_details(
        fmt::format("Dry run summary:\n{} (skipped in dry-run).\nConfig "
                    "diff:\n\n{}",
                    details, diff.empty() ? "No changes." : diff));
    call->reply->send(response.SerializeAsString());
    co_return;
  }
  Duration timeout = std::chrono::seconds{request.try_mode_timeout().seconds()} +
                     std::chrono::nanoseconds{request.try_mode_timeout().nanos()};
  if (timeout <= Duration::zero()) timeout = std::chrono::minutes{1};
  if (mode_number == Request::TRY)
    details += fmt::format(
        "\nThe config is applied in 'try' mode and will be automatically reverted back in {}",
        duration_text(timeout));
  message.set_mode_details(details);
  call->reply->send(response.SerializeAsString());
  if (maintenance && !config.complete()) {
    partial_ = std::move(config);
    apply_network();
    publish();
    co_return;
  }
  const std::uint64_t attempt = ++tries_;
  switch (mode_number) {
    case Request::STAGED:
      disk_.staged = config.text();
      publish();
      break;
    case Request::REBOOT:
      disk_.config = config.text();
      start_down(Stage::Rebooting, "reboot", true, {}, "");
      break;
    case Request::TRY: {
      // The way back of a second try is what the first one tried.
      const MachineConfig before = *config_;
      use_config(config);
      world_.after(timeout, [this, attempt, before, boot = boot_id_] {
        if (powered_ && boot == boot_id_ && attempt == tries_ && config_) use_config(before);
      });
      break;
    }
    default:
      disk_.config = config.text();
      if (maintenance) {
        config_ = std::move(config);
        config_given_.wake_all();
      } else {
        use_config(config);
      }
  }
}

Routine<void> TalosNode::generate_configuration(std::shared_ptr<Call> call) {
  // The lab makes no configs for others; what can be asked wrongly is answered as Talos does.
  if (call->request().empty()) refuse(Code::Unknown, "invalid generate request");
  refuse(Code::Unimplemented, "GenerateConfiguration is not simulated");
  co_return;
}

Routine<void> TalosNode::generate_client_configuration(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::GenerateClientConfigurationRequest>();
  require_control_plane("client configuration (talosconfig)");
  const Duration ttl = std::chrono::seconds{request.crt_ttl().seconds()};
  if (ttl <= Duration::zero()) refuse(Code::InvalidArgument, "crt_ttl should be positive");
  const std::string ca = config_->get({"machine", "ca", "crt"});
  Leaf leaf;
  leaf.organizations.assign(request.roles().begin(), request.roles().end());
  std::sort(leaf.organizations.begin(), leaf.organizations.end());
  leaf.client = true;
  leaf.server = false;
  leaf.valid_for = ttl;
  const auto identity =
      sign_leaf({from_base64(ca).value_or(""),
                 from_base64(config_->get({"machine", "ca", "key"})).value_or("")},
                leaf, entropy_, world_.outside());
  if (!identity) refuse(Code::Unknown, "failed to parse PEM block");
  const std::string key = talos_key_pem(identity->key_pem.reveal());
  std::string name = config_->get({"cluster", "clusterName"});
  if (request.roles_size() == 1)
    name = fmt::format("{}@{}", replace_all(request.roles(0), "os:", ""), name);
  pb::GenerateClientConfigurationResponse response;
  pb::GenerateClientConfiguration& message = *response.add_messages();
  message.set_ca(from_base64(ca).value_or(""));
  message.set_crt(identity->certificate_pem);
  message.set_key(key);
  message.set_talosconfig(
      fmt::format("context: {0}\ncontexts:\n    {0}:\n        endpoints: []\n        ca: {1}\n     "
                  "   crt: {2}\n"
                  "        key: {3}\n",
                  name, ca, to_base64(identity->certificate_pem), to_base64(key)));
  call->reply->send(response.SerializeAsString());
  co_return;
}

}  // namespace rocca::lab::talos
