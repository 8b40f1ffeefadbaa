#pragma once

#include "lab/services/web.hpp"
#include "net/server/server.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab {

/// The Image Factory of the simulated internet: takes schematics and gives them their real ids,
/// lists versions and extensions, and serves images. An image is a small file whose bytes and
/// length are real and whose ImageFacts say what would boot from it.
class ImageFactory {
 public:
  struct Extension {
    std::string name, ref, digest, author, description;
    unsigned first_minor = 0;
    unsigned last_minor = 99;
  };

  explicit ImageFactory(std::string origin = "https://factory.talos.dev");

  /// What a canonical schematic and its id are; throws Error(Rejected) with the factory's text.
  struct Schematic {
    std::string id;
    std::string canonical;
  };
  static Schematic read_schematic(std::string_view text);

  /// Stores it and returns its id, as POST /schematics does.
  std::string add(std::string_view text);
  const std::string* find(std::string_view id) const;

  /// For a service of the Network.
  net::Handler handler();
  /// For hosts of the simulation that download: images of every schematic that was posted.
  void serve(Web& web) { serve(web, origin_); }
  /// The same under another address: where it listens on this machine.
  void serve(Web& web, const std::string& origin);
  /// The file behind a path such as "/image/<schematic>/v1.11.5/nocloud-amd64.raw.xz".
  struct Image {
    std::string name;
    std::string bytes;
    ImageFacts facts;
    std::string compression;
  };
  /// Nothing if there is none; `why` then says so in the factory's words.
  std::optional<Image> image(std::string_view path, std::string& why) const;

  /// Every download is cut after nine bytes while this is set, length included.
  bool truncate = false;
  std::vector<std::string> versions;
  std::vector<Extension> extensions;

 private:
  std::string origin_;
  std::map<std::string, std::string, std::less<>> schematics_;  // id -> canonical
};

}  // namespace rocca::lab
