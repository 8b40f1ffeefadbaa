#pragma once

#include "base/units.hpp"
#include "base/version.hpp"
#include "factory/schematic.hpp"
#include "net/transport.hpp"

#include <functional>
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
struct ExtensionInfo {
  std::string name;
  std::string ref;
  std::string digest;
};

struct ImageFacts {
  std::string url;
  std::optional<Bytes> size;  // the factory may not say it before it has built the image
};

/// What an image turned out to be when all of it was read.
struct ImageDigest {
  Bytes size;
  std::string sha256;  // hex
};
/// How much of an image has come, and how much there is if the factory says so.
using Heard = std::function<void(Bytes so_far, std::optional<Bytes> all)>;

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
  /// Reads the image once, as it comes; nothing of it is kept. The bytes are those that Proxmox
  /// fetches from the same place, and its checksum is over them. Asked for after `image`, so that
  /// it is built already. Error(Lost) if it ends too early.
  ImageDigest digest(const std::string& schematic_id, const Version& talos,
                     const Artifact& artifact, const Heard& heard = {});

 private:
  net::Request request(const std::string& method, const std::string& path, Duration timeout) const;
  net::Answer send(const std::string& method, const std::string& path, const std::string& body,
                   Duration timeout);
  /// Asks there, and wherever the answer says, until something is there.
  net::Answer follow(const std::string& path,
                     const std::function<net::Answer(const std::string& place)>& ask);
  [[noreturn]] void fail(const net::Answer& answer, const std::string& doing) const;

  net::Transport& transport_;
  std::string url_;
  net::Tls tls_;
  std::stop_token stop_;
};

}  // namespace rocca::factory
