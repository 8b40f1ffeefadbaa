#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/pve/datacenter.hpp"
#include "lab/services/external_downloads.hpp"
#include "net/http.hpp"

#include <fmt/format.h>

#include <cctype>
#include <regex>

namespace rocca::lab::pve {

namespace {

/// Cuts a path off and turns every byte beyond [A-Za-z0-9_.-] into one underscore per character.
std::string normalised(std::string_view name) {
  const std::size_t slash = name.find_last_of("/\\");
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string out;
  for (const char raw : name) {
    const auto c = static_cast<unsigned char>(raw);
    if ((c & 0xC0) == 0x80) continue;  // the rest of a character that already has its underscore
    out += std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-' ? raw : '_';
  }
  return out;
}

/// The volume's name for a file of this content, or the 400 that says why not.
std::string volume_name(const std::string& content, const std::string& file) {
  static const std::regex iso(".+\\.(?:iso|img)", std::regex::icase);
  static const std::regex templates(".+\\.tar(?:\\.(?:gz|xz|zst|bz2))?");
  static const std::regex import("[A-Za-z0-9._+=-]+\\.(?:ova|qcow2|raw|vmdk)");
  if (content == "import") {
    if (!std::regex_match(file, import))
      refuse_parameter("filename", "invalid filename or wrong extension");
    return "import/" + file;
  }
  if (!std::regex_match(file, content == "iso" ? iso : templates))
    refuse_parameter("filename", "wrong file extension");
  return content + "/" + file;
}

/// What stands at a URL after its redirects, with the words of wget or LWP when nothing does.
struct Found {
  std::optional<WebFile> file;
  std::string url;
  std::string host;      // host:port
  std::string name;      // host
  bool resolved = true;  // does the name exist?
  bool connects = false;
  bool secure = false;
  bool speaks_tls = true;
};

Found look_up(const Datacenter& dc, std::string url) {
  Found found;
  for (int hops = 0; hops < 20; ++hops) {
    const auto parts = net::Url::parse(url);
    if (!parts) break;
    found.url = url;
    found.name = parts->host;
    found.host = fmt::format("{}:{}", parts->host, parts->port);
    found.secure = parts->scheme == "https";
    found.file = dc.web.find(url);
    // The same host and port without TLS: a client that begins a handshake gets nonsense.
    const std::string other = fmt::format("{}://{}/", found.secure ? "http" : "https", found.host);
    found.speaks_tls = !(found.secure && !dc.web.knows_host(url) && dc.web.knows_host(other));
    found.connects = found.file.has_value() || dc.web.knows_host(url) || !found.speaks_tls;
    found.resolved =
        found.connects || parts->host.find_first_not_of("0123456789.:") == std::string::npos;
    if (!found.file || found.file->location.empty()) return found;
    const std::string& location = found.file->location;
    url = location.starts_with("/") ? parts->origin() + location : location;
    // Ports that belong to the scheme are not written in the registry's keys.
    if (!dc.web.find(url) && location.starts_with("/"))
      url = fmt::format("{}://{}{}", parts->scheme, found.host, location);
  }
  return found;
}

/// A host of the simulation itself (a Proxmox port, a registry): it answers, but with its own
/// certificate.
bool is_simulated_service(Datacenter& dc, const std::string& url, const Node& from) {
  const auto parts = net::Url::parse(url);
  if (!parts) return false;
  const auto address = parts->host == "127.0.0.1" || parts->host == "localhost"
                           ? std::optional<std::string>(from.address)
                           : dc.world.network().resolve(parts->host);
  if (!address) return false;
  const Service* service = dc.world.network().find(*address, parts->port);
  // Those of the simulated internet have certificates that every host trusts.
  return service != nullptr && service->name != "factory" && service->name != "infisical";
}

/// What a real server says. Only for URLs that lead outside.
Routine<Outside::Fetched> fetch_outside(Process& process, Outside::Order order) {
  struct Arrival {
    std::optional<Outside::Fetched> fetched;
    Signal there;
  };
  const auto arrival = std::make_shared<Arrival>();
  std::stop_source stop;
  process.world().network().outside()->fetch(
      std::move(order),
      [arrival](Outside::Fetched fetched) {
        arrival->fetched = std::move(fetched);
        arrival->there.wake_all();
      },
      stop.get_token());
  try {
    while (!arrival->fetched) co_await process.wait(arrival->there);
  } catch (const Interrupted& interrupted) {
    stop.request_stop();
    arrival->fetched.emplace().trouble = interrupted.reason;
  }
  co_return std::move(*arrival->fetched);
}

bool leads_outside(const Process& process, const std::string& url) {
  const Outside* outside = process.world().network().outside();
  return outside != nullptr && outside->leads_to(url);
}

Routine<text::Value> url_metadata(Call& call) {
  const std::string url = call.params.text("url");
  const auto fail = [](const std::string& status) {
    die(fmt::format("invalid server response: '{}'", status));
  };
  if (leads_outside(call, url)) {
    const Outside::Order order{"HEAD", url, call.params.flag("verify-certificates", true), ""};
    const Outside::Fetched real = co_await fetch_outside(call, order);
    if (!real.trouble.empty()) fail(fmt::format("500 {}", real.trouble));
    if (real.file.status != 200) fail(fmt::format("{} {}", real.file.status, real.file.reason));
    co_return object({{"filename", string(real.name)},
                      {"size", number(static_cast<std::int64_t>(real.file.size))},
                      {"mimetype", string(real.file.mime)}});
  }
  const Found found = look_up(call.dc, url);
  if (!found.file && !found.connects && is_simulated_service(call.dc, url, call.node) &&
      call.params.flag("verify-certificates", true))
    fail(fmt::format("500 Can't connect to {} (certificate verify failed)", found.host));
  if (!found.resolved)
    fail(fmt::format("500 Can't connect to {} (Name or service not known)", found.host));
  if (!found.connects)
    fail(fmt::format("500 Can't connect to {} (Connection refused)", found.host));
  if (!found.speaks_tls)
    fail(fmt::format("500 Can't connect to {} (SSL connect attempt failed)", found.host));
  if (!found.file) fail("404 File not found");
  if (found.file->status != 200) fail(fmt::format("{} {}", found.file->status, found.file->reason));
  const std::string name = found.url.substr(found.url.rfind('/') + 1);
  co_return object({{"filename", string(name)},
                    {"size", number(static_cast<std::int64_t>(found.file->size))},
                    {"mimetype", string(found.file->mime)}});
}

struct Order {
  std::string storage, name, content, url, checksum, algorithm, compression;
  bool verify = true;
};

/// Throws the exit status of the download, in wget's words.
Routine<WebFile> download_outside(Worker& worker, Order order) {
  worker.log(fmt::format("--{}--  {}", "2026-01-01 00:00:00", order.url));
  const Outside::Order wanted{"GET", order.url, order.verify, order.compression};
  Outside::Fetched real = co_await fetch_outside(worker, wanted);
  if (!real.trouble.empty()) die("download failed: " + real.trouble);
  worker.log(fmt::format("Connecting to {}... connected.", real.host));
  worker.log(fmt::format("HTTP request sent, awaiting response... {} {}", real.file.status,
                         real.file.reason));
  if (real.file.status != 200) die("download failed: exit code 8");
  worker.log(fmt::format("Length: {} ({}M)", real.file.size, real.file.size >> 20));
  co_return std::move(real.file);
}

/// Throws the exit status of the download, in wget's words.
WebFile fetch_or_fail(Worker& worker, const Order& order) {
  const Found found = look_up(worker.dc, order.url);
  worker.log(fmt::format("--{}--  {}", "2026-01-01 00:00:00", order.url));
  const auto fail = [](const std::string& text_of) { die("download failed: " + text_of); };
  if (!found.file && !found.connects && is_simulated_service(worker.dc, order.url, worker.node)) {
    worker.log(fmt::format("Connecting to {}... connected.", found.host));
    if (order.verify) {
      worker.log(fmt::format("ERROR: The certificate of '{}' is not trusted.", found.name));
      fail(fmt::format("ERROR: The certificate of '{}' doesn't have a known issuer.", found.name));
    }
    fail("exit code 8");
  }
  if (!found.resolved) {
    worker.log(
        fmt::format("Resolving {0} ({0})... failed: Name or service not known.", found.name));
    fail(fmt::format("wget: unable to resolve host address '{}'", found.name));
  }
  if (!found.connects)
    fail(fmt::format("Connecting to {}... failed: Connection refused.", found.host));
  worker.log(fmt::format("Connecting to {}... connected.", found.host));
  if (!found.speaks_tls) {
    worker.log("GnuTLS: An unexpected TLS packet was received.");
    fail("Unable to establish SSL connection.");
  }
  const int status = found.file ? found.file->status : 404;
  const std::string reason = found.file ? found.file->reason : "File not found";
  worker.log(fmt::format("HTTP request sent, awaiting response... {} {}", status, reason));
  if (status != 200) fail("exit code 8");
  worker.log(fmt::format("Length: {} ({}M)", found.file->size, found.file->size >> 20));
  return *found.file;
}

Routine<WebFile> obtain(Worker& worker, Order order) {
  if (leads_outside(worker, order.url)) co_return co_await download_outside(worker, order);
  co_return fetch_or_fail(worker, order);
}

/// Throws `failed to verify file: …` for an image that leans on another file or is none.
void verify_image(Worker& worker, const Order& order, const WebFile& file,
                  const std::string& temporary) {
  if (order.content == "vztmpl") return;
  if (!file.image.backing_file.empty())
    die(fmt::format("failed to verify file: backing file not allowed for untrusted image '{}'!",
                    temporary));
  if (order.name.ends_with(".qcow2") && file.image.format != "qcow2") {
    worker.log(fmt::format(
        "command '/usr/bin/qemu-img info '--output=json' {} -f qcow2' failed: exit code 1",
        temporary));
    die(fmt::format(
        "failed to verify file: qemu-img: Could not open '{}': Image is not in qcow2 format",
        temporary));
  }
}

Routine<void> download(Worker& worker, Order order) {
  const auto target = [&]() -> Storage& { return worker.dc.get_storage(order.storage); };
  const std::string path = target().path_of(order.content, order.name);
  if (!order.compression.empty() && order.content != "iso")
    die(fmt::format("decompression not supported for {}", order.content));
  const bool known = order.compression == "gz" || order.compression == "lzo" ||
                     order.compression == "zst" || order.compression == "bz2";
  if (!order.compression.empty() && !known) die("no decompression method found");
  worker.log(fmt::format("downloading {} to {}", order.url, path));
  const std::string wanted = to_lower(order.checksum);
  if (const Volume* existing =
          worker.dc.find_volume(order.storage + ":" + order.name, worker.node)) {
    if (wanted.empty()) die(fmt::format("refusing to override existing file '{}'", path));
    const auto digest = existing->digests.find(order.algorithm);
    const std::string got = digest == existing->digests.end() ? "" : digest->second;
    if (got != wanted) {
      worker.log("calculating checksum of existing file...");
      die(fmt::format("checksum mismatch: got '{}' != expect '{}', aborting", got, wanted));
    }
    worker.log(
        "calculating checksum of existing file...OK, got correct file already, no need to "
        "download");
    co_return;
  }
  const WebFile file = co_await obtain(worker, order);
  worker.log(fmt::format("Saving to: '{}.tmp_dwnl.{}'", path, worker.task.upid.pid));
  if (file.bytes_per_second > 0) {
    try {
      const double seconds =
          static_cast<double>(file.size) / static_cast<double>(file.bytes_per_second);
      co_await worker.sleep(
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
    } catch (const Interrupted& interrupted) {
      die("download failed: " + interrupted.reason);
    }
  }
  if (target().available(worker.node.name) < file.size)
    die(fmt::format("download failed: Cannot write to '{}.tmp_dwnl.{}' (No space left on device).",
                    path, worker.task.upid.pid));
  if (!wanted.empty()) {
    const std::string got = Web::digest(file, order.algorithm).value_or(wanted);
    if (got != wanted) {
      worker.log("calculating checksum...");
      die(fmt::format("checksum mismatch: got '{}' != expect '{}'", got, wanted));
    }
    worker.log("calculating checksum...OK, checksum verified");
  }
  if (!order.compression.empty()) {
    worker.log(fmt::format("decompressing '{0}.tmp_dwnl.{1}' to '{0}.tmp_dcom.{1}'", path,
                           worker.task.upid.pid));
    if (file.compression != order.compression)
      die("decompression failed: " +
          (file.unpacking_fails.empty() ? "the file is not in that format" : file.unpacking_fails));
  }
  verify_image(worker, order, file, fmt::format("{}.tmp_dwnl.{}", path, worker.task.upid.pid));
  Volume volume;
  volume.name = order.name;
  volume.content = order.content;
  volume.format = order.content == "import" ? order.name.substr(order.name.rfind('.') + 1) : "raw";
  volume.used = order.compression.empty() ? file.size : file.inner_size;
  volume.size = file.image.virtual_size == 0 || order.content != "import" ? volume.used
                                                                          : file.image.virtual_size;
  volume.ctime = worker.world().unix_time();
  volume.image = file.image;
  if (order.compression.empty())
    for (const char* algorithm : {"md5", "sha1", "sha224", "sha256", "sha384", "sha512"})
      if (auto digest = Web::digest(file, algorithm)) volume.digests[algorithm] = *digest;
  target().on(worker.node.name)[volume.name] = volume;
  worker.log(fmt::format("download of '{}' to '{}' finished", order.url, path));
}

Routine<text::Value> download_url(Call& call) {
  const std::string id = call.params.text("storage");
  const Storage& storage = call.dc.get_storage_on(id, call.node);
  if (!storage.file_based())
    die(fmt::format("can't upload to storage type '{}', not a file based storage!", storage.type));
  Order order;
  order.storage = id;
  order.content = call.params.text("content");
  if (!storage.allows(order.content))
    die(fmt::format("storage '{}' is not configured for content-type '{}'", id, order.content));
  const std::string file = normalised(call.params.text("filename"));
  order.name = volume_name(order.content, file);
  order.url = call.params.text("url");
  order.checksum = call.params.text("checksum");
  order.algorithm = call.params.text("checksum-algorithm");
  order.compression = call.params.text("compression");
  order.verify = call.params.flag("verify-certificates", true);
  co_return string(
      call.node.start_task("download", percent_encode(file), call.caller,
                           [order](Worker& worker) { return download(worker, order); }));
}

/// What a file of real bytes is, as qemu-img would see it.
WebFile examine(const Datacenter& dc, const std::string& bytes) {
  if (dc.recognise)
    if (auto known = dc.recognise(bytes)) return *known;
  WebFile file;
  file.bytes = bytes;
  file.size = bytes.size();
  if (bytes.starts_with("QFI\xfb") && bytes.size() >= 32) {
    file.image.format = "qcow2";
    for (std::size_t i = 24; i < 32; ++i)
      file.image.virtual_size = file.image.virtual_size << 8 | static_cast<unsigned char>(bytes[i]);
  } else {
    file.image.format = "raw";
  }
  return file;
}

Routine<void> import_upload(Worker& worker, Order order, WebFile file, std::string temporary) {
  worker.log("starting file import from: " + temporary);
  if (!order.checksum.empty()) {
    const std::string got = Web::digest(file, order.algorithm).value_or("");
    if (got != to_lower(order.checksum)) {
      worker.log("calculating checksum...");
      die(fmt::format("checksum mismatch: got '{}' != expect '{}'", got, to_lower(order.checksum)));
    }
    worker.log("calculating checksum...OK, checksum verified");
  }
  if (order.name.ends_with(".qcow2") && file.image.format != "qcow2") {
    worker.log(fmt::format(
        "command '/usr/bin/qemu-img info '--output=json' {} -f qcow2' failed: exit code 1",
        temporary));
    die(fmt::format("qemu-img: Could not open '{}': Image is not in qcow2 format", temporary));
  }
  Storage& storage = worker.dc.get_storage(order.storage);
  const std::string path = storage.path_of(order.content, order.name);
  worker.log("target node: " + worker.node.name);
  worker.log("target file: " + path);
  worker.log(fmt::format("file size is: {}", file.size));
  worker.log(fmt::format("command: cp -- {} {}", temporary, path));
  co_await worker.sleep(worker.dc.timing.allocate);
  Storage& now = worker.dc.get_storage(order.storage);
  if (now.available(worker.node.name) < file.size)
    die("import failed: cp: error writing: No space left on device");
  Volume volume;
  volume.name = order.name;
  volume.content = order.content;
  volume.format = order.content == "import" ? order.name.substr(order.name.rfind('.') + 1) : "raw";
  volume.used = file.size;
  volume.size = order.content != "import" || file.image.virtual_size == 0 ? file.size
                                                                          : file.image.virtual_size;
  volume.ctime = worker.world().unix_time();
  volume.image = file.image;
  for (const char* algorithm : {"md5", "sha1", "sha224", "sha256", "sha384", "sha512"})
    if (auto digest = Web::digest(file, algorithm)) volume.digests[algorithm] = *digest;
  now.on(worker.node.name)[volume.name] = volume;
  worker.log("finished file import successfully");
}

Routine<text::Value> upload(Call& call) {
  const std::string id = call.params.text("storage");
  const Storage& storage = call.dc.get_storage(id);
  if (!storage.file_based()) die(fmt::format("can't upload to storage type '{}'", storage.type));
  Order order;
  order.storage = id;
  order.content = call.params.text("content");
  const std::string file = normalised(call.params.text("filename"));
  order.name = volume_name(order.content, file);
  if (!storage.allows(order.content))
    die(fmt::format("storage '{}' does not support '{}' content", id, order.content));
  call.dc.get_storage_on(id, call.node);
  order.checksum = call.params.text("checksum");
  order.algorithm = call.params.text("checksum-algorithm");
  if (call.upload == nullptr) die("no file was sent");
  const WebFile content = examine(call.dc, call.upload->content);
  const std::string temporary = "/var/tmp/pveupload-" + replace_all(call.dc.new_uuid(), "-", "");
  co_return string(
      call.node.start_task("imgcopy", "", call.caller, [order, content, temporary](Worker& worker) {
        return import_upload(worker, order, content, temporary);
      }));
}

}  // namespace

std::vector<Route> download_routes() {
  return {
      {"GET /nodes/{node}/query-url-metadata", url_metadata},
      {"POST /nodes/{node}/storage/{storage}/download-url", download_url},
      {"POST /nodes/{node}/storage/{storage}/upload", upload},
  };
}

}  // namespace rocca::lab::pve
