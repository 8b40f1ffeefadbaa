#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "proxmox/client.hpp"
#include "proxmox/reading.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::proxmox {

namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

}  // namespace

std::vector<StorageInfo> Client::storages(const std::string& node) {
  std::vector<StorageInfo> storages;
  for (const text::Value& row :
       rows(require(fmt::format("listing the storages of {}", node), "GET",
                    fmt::format("/nodes/{}/storage", percent_encode(node))))) {
    StorageInfo storage;
    storage.name = read_text_or(row, "storage");
    storage.type = read_text_or(row, "type");
    storage.content = read_list(row, "content");
    std::sort(storage.content.begin(), storage.content.end());
    storage.enabled = read_switch(row, "enabled");
    storage.active = read_switch(row, "active");
    storage.shared = read_switch(row, "shared");
    storage.total = Bytes{read_number(row, "total").value_or(0)};
    storage.used = Bytes{read_number(row, "used").value_or(0)};
    storage.available = Bytes{read_number(row, "avail").value_or(0)};
    storages.push_back(std::move(storage));
  }
  std::sort(storages.begin(), storages.end(),
            [](const StorageInfo& a, const StorageInfo& b) { return a.name < b.name; });
  return storages;
}

std::vector<Volume> Client::volumes(const std::string& node, const std::string& storage,
                                    const std::string& content, std::optional<Vmid> vmid) {
  Parameters parameters;
  if (!content.empty()) parameters.emplace_back("content", content);
  if (vmid) parameters.emplace_back("vmid", std::to_string(*vmid));
  std::vector<Volume> volumes;
  for (const text::Value& row :
       rows(require(fmt::format("listing storage {}", storage), "GET",
                    fmt::format("/nodes/{}/storage/{}/content", percent_encode(node),
                                percent_encode(storage)),
                    parameters))) {
    Volume volume;
    volume.id = read_text_or(row, "volid");
    volume.format = read_text_or(row, "format");
    volume.content = read_text_or(row, "content");
    volume.size = Bytes{read_number(row, "size").value_or(0)};
    if (const auto owner = read_number(row, "vmid")) volume.vmid = static_cast<Vmid>(*owner);
    if (const auto time = read_number(row, "ctime")) volume.created = from_epoch(*time);
    volumes.push_back(std::move(volume));
  }
  std::sort(volumes.begin(), volumes.end(),
            [](const Volume& a, const Volume& b) { return a.id < b.id; });
  return volumes;
}

std::optional<UrlMetadata> Client::find_url(const std::string& node, const std::string& url) {
  const Reply reply = call("GET", fmt::format("/nodes/{}/query-url-metadata", percent_encode(node)),
                           {{"url", url}});
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    // `invalid server response: '404 Not Found'`; no answer at all has 500 there.
    if (failure->text.find("invalid server response: '4") != std::string::npos) return std::nullopt;
    throw failure->error(fmt::format("asking {} to look at {}", node, url));
  }
  const text::Value& data = std::get<text::Value>(reply);
  return UrlMetadata{read_text_or(data, "filename"), Bytes{read_number(data, "size").value_or(0)},
                     read_text_or(data, "mimetype")};
}

UrlMetadata Client::url_metadata(const std::string& node, const std::string& url) {
  if (auto found = find_url(node, url)) return std::move(*found);
  throw Error(Fault::NotFound, fmt::format("{} finds nothing at {}", node, url))
      .hint("the server answered, and has no such file: check the URL");
}

Upid Client::start_download(const std::string& node, const Download& download) {
  Parameters parameters{
      {"content", download.content}, {"filename", download.filename}, {"url", download.url}};
  if (!download.checksum.empty()) {
    parameters.emplace_back("checksum-algorithm", download.checksum_algorithm);
    parameters.emplace_back("checksum", download.checksum);
  }
  if (!download.verify_certificates) parameters.emplace_back("verify-certificates", "0");
  return require_task(fmt::format("downloading {} to {}", download.filename, download.storage),
                      "POST",
                      fmt::format("/nodes/{}/storage/{}/download-url", percent_encode(node),
                                  percent_encode(download.storage)),
                      parameters);
}

std::optional<Upid> Client::start_delete_volume(const OwnedVolume& volume) {
  const std::string storage = volume.id().substr(0, volume.id().find(':'));
  const text::Value data =
      require(fmt::format("deleting {}", volume.id()), "DELETE",
              fmt::format("/nodes/{}/storage/{}/content/{}", percent_encode(volume.node()),
                          percent_encode(storage), percent_encode(volume.id())));
  return data.is_scalar() ? Upid::parse(data.text()) : std::nullopt;
}

}  // namespace rocca::proxmox
