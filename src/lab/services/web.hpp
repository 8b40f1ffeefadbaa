#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab {

/// What somebody has written to a disk. Never changed in place: copies of a disk share it until one
/// of them is written to.
struct DiskContent {
  virtual ~DiskContent() = default;
};

/// What a disk image holds, as far as anybody in the simulation can tell.
struct ImageFacts {
  std::string format;              // raw, qcow2, vmdk, iso
  std::uint64_t virtual_size = 0;  // 0: the file's own size
  std::string backing_file;        // a qcow2 that leans on another file is refused by Proxmox
  std::string identity;  // what boots from it: "talos v1.11.5 nocloud <schematic>", behind it
                         // "arm64" and "secureboot" where they apply; follows every copy
  std::shared_ptr<const DiskContent> content{};  // what an installed system left there
};

/// A file of the simulated internet. Large ones have a size and digests but no bytes.
struct WebFile {
  int status = 200;
  std::string reason = "OK";
  std::string mime = "application/octet-stream";
  std::uint64_t size = 0;
  std::optional<std::string> bytes;
  std::map<std::string, std::string>
      digests;  // algorithm -> lower-case hex; from the bytes where those are there
  std::uint64_t bytes_per_second = 100ull << 20;
  std::string location;     // a redirect
  std::string compression;  // gz, zst …; `inner` is what comes out
  std::uint64_t inner_size = 0;
  std::string unpacking_fails;  // why it does not come out
  ImageFacts image;
};

/// The URLs that hosts of the simulation can fetch. What is not here cannot be reached.
class Web {
 public:
  void put(std::string url, WebFile file);
  void remove(std::string_view url);
  /// Asked, in order, for URLs that nobody put: a factory that makes images on demand.
  void add_source(std::function<std::optional<WebFile>(const std::string& url)> source);

  /// Does any host of this name exist ("host:port")? Known hosts answer 404 for other paths;
  /// unknown ones do not answer.
  bool knows_host(std::string_view url) const;
  void add_host(std::string origin) { hosts_.push_back(std::move(origin)); }
  std::optional<WebFile> find(const std::string& url) const;

  /// The digest of a file, computed from its bytes or as given; nothing if it cannot be known.
  static std::optional<std::string> digest(const WebFile& file, std::string_view algorithm);

 private:
  std::map<std::string, WebFile, std::less<>> files_;
  std::vector<std::string> hosts_;
  std::vector<std::function<std::optional<WebFile>(const std::string&)>> sources_;
};

}  // namespace rocca::lab
