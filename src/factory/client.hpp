#pragma once

#include "base/units.hpp"
#include "base/version.hpp"
#include "factory/schematic.hpp"
#include "net/transport.hpp"

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::factory {

enum class Platform { NoCloud, Metal };
const char* to_string(Platform platform) noexcept;  // "nocloud", "metal"

struct Artifact {
  Platform platform = Platform::NoCloud;
  std::string arch = "amd64";
  std::string ending =
      "qcow2";  // qcow2, raw, iso: only uncompressed ones, because Proxmox cannot unpack an import
  bool secure_boot = false;
};

/// The path of an image below a factory's URL: `/image/ID/v1.11.5/nocloud-amd64.qcow2`.
std::string image_path(const std::string& schematic, const Version& talos,
                       const Artifact& artifact);
/// The file of an image on a storage: named by what is in it, so that two clusters share one and a
/// new one never takes an old one's place.
std::string image_file(const std::string& schematic, const Version& talos,
                       const Artifact& artifact);
/// The installer that keeps a machine on its platform: from 1.10 it has the platform in its name,
/// and the plain `installer` means metal, which loses a nocloud machine's addresses.
std::string installer_image(const std::string& factory_host, const std::string& schematic,
                            const Version& talos, Platform platform, bool secure_boot = false);

struct ExtensionInfo {
  std::string name;
  std::string ref;
  std::string digest;
};

struct ImageFacts {
  std::string url;
  std::optional<Bytes> size;  // the factory may not say it before it has built the image
};

/// An Image Factory, the public one or a user's own. No retries; the first request for an image may
/// take minutes, because it is built then.
class Client {
 public:
  Client(net::Transport& transport, std::string url, net::Tls tls = {}, std::stop_token stop = {});

  /// Makes the schematic known to the factory. Its id must be the one we computed: Error(Conflict)
  /// if it is another.
  std::string register_schematic(const Schematic& schematic);
  bool knows(const std::string& schematic_id);
  std::vector<Version> versions();
  std::vector<ExtensionInfo> extensions(const Version& talos);
  /// Where the image is and how large, by HEAD; redirects to a content network are followed. Never
  /// longer than `patience`.
  ImageFacts image(const std::string& schematic_id, const Version& talos, const Artifact& artifact,
                   Duration patience);

 private:
  net::Answer send(const std::string& method, const std::string& path, const std::string& body,
                   Duration timeout);
  [[noreturn]] void fail(const net::Answer& answer, const std::string& doing) const;

  net::Transport& transport_;
  std::string url_;
  net::Tls tls_;
  std::stop_token stop_;
};

}  // namespace rocca::factory
