#include "lab/pve/replay_fixture.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/pve/http.hpp"

namespace rocca::lab::pve {

namespace {

std::string text_of(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  return value == nullptr || value->is_null() ? "" : value->text();
}

std::uint64_t size_of(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  return value == nullptr ? 0 : value->as_uint().value_or(0);
}

Release recorded_release(const text::Value& description) {
  const text::Value* versions = description.find("versions");
  Release release =
      text_of(*versions, "release").starts_with("9") ? Release::v9() : Release::v8_4();
  release.manager = text_of(*versions, "pve-manager");
  release.release = text_of(*versions, "release");
  release.qemu = text_of(*versions, "qemu");
  release.ms_cert = "";  // its firmware images were Debian's
  return release;
}

}  // namespace

Fixture::Fixture(const text::Value& description) {
  Datacenter::Options options;
  options.release = recorded_release(description);
  options.domain = "";
  dc = std::make_unique<Datacenter>(world, options);
  dc->recognise = [this](const std::string& bytes) { return recognise(bytes); };
  const text::Value& host = *description.find("node");
  node = &dc->add_node(text_of(host, "name"), text_of(host, "ip"));
  node->cgroup_mode = 1;  // the recording machine's
  node->cpus = static_cast<unsigned>(size_of(host, "cpus"));
  for (const text::Value& each : description.find("storages")->items()) {
    Storage storage;
    storage.id = text_of(each, "storage");
    storage.type = text_of(each, "type");
    storage.options["path"] = text_of(each, "path");
    storage.content = split(text_of(each, "content"), ',');
    storage.disabled = text_of(each, "disable") == "1";
    for (const std::string& name : split_list(text_of(each, "nodes"))) storage.nodes.insert(name);
    dc->storages.emplace(storage.id, storage);
  }
  const std::string web = text_of(*description.find("http_server"), "base");
  const auto put_web = [&](const std::string& name, WebFile file) {
    file.bytes_per_second = 1ull << 40;  // over loopback
    dc->web.put(web + name, file);
    WebFile redirect;
    redirect.status = 302;
    redirect.reason = "Found";
    redirect.location = "/" + name;
    dc->web.put(web + "redir/" + name, redirect);
  };
  for (const text::Value& each : description.find("volumes")->items()) {
    const auto id = VolumeId::parse(text_of(each, "volid"));
    Storage& storage = dc->get_storage(id->storage);
    const VolumeName name = parse_volume_name(storage, id->name);
    Volume volume;
    volume.name = id->name;
    volume.content = name.content;
    volume.format = text_of(each, "format");
    volume.used = size_of(each, "file_size");
    volume.size =
        each.find("virtual_size") == nullptr ? volume.used : size_of(each, "virtual_size");
    volume.ctime = world.unix_time();
    if (each.find("sha256") != nullptr) volume.digests["sha256"] = text_of(each, "sha256");
    volume.image = {volume.format, volume.size, "", "tiny", nullptr};
    // The recording slowed this one import down to about half a minute.
    if (name.file == "big.qcow2") volume.read_rate = volume.size / 60;
    storage.on(node->name).emplace(volume.name, volume);
    WebFile file;
    file.size = volume.used;
    file.digests = volume.digests;
    file.image = volume.image;
    if (name.file == "tiny.iso") file.mime = "application/x-iso9660-image";
    if (name.file != "big.qcow2") put_web(name.file, file);
    if (name.file == "tiny.iso") {
      for (const char* kind : {"gz", "zst"}) {
        WebFile packed = file;
        packed.compression = kind;
        packed.inner_size = file.size;
        packed.size = file.size / 2;
        packed.digests.clear();
        put_web(std::string("tiny.img.") + kind, packed);
      }
    }
    if (name.file == "tiny.qcow2") {
      WebFile backed = file;
      backed.digests.clear();
      backed.size = 196'616;
      backed.image.backing_file = "tiny.qcow2";
      put_web("backed.qcow2", backed);
    }
  }
  // The small Linux that the recording booted from tiny.qcow2.
  dc->guest_of = [this](const Vm& vm) -> std::optional<Guest> {
    const auto disk = vm.running.find("scsi0");
    if (disk == vm.running.end()) return std::nullopt;
    const Volume* volume = dc->find_volume(disk->second.substr(0, disk->second.find(',')), *node);
    if (volume == nullptr || volume->image.identity.empty()) return std::nullopt;
    Guest guest;
    guest.agent = true;
    guest.host_name = "guest1";
    guest.agent_version = dc->release.qemu;
    guest.os = {{"id", "tiny"},
                {"kernel-release", "6.1.0-54-cloud-amd64"},
                {"kernel-version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.190-1 (2026-10-16)"},
                {"machine", "x86_64"},
                {"name", "Tiny"},
                {"pretty-name", "Tiny 1.0"},
                {"version-id", "1.0"}};
    guest.interfaces = {
        {"lo", "00:00:00:00:00:00", {{"127.0.0.1", 8}, {"::1", 128}}},
        {"eth0", "bc:24:11:00:00:01", {{"10.77.0.5", 24}, {"fe80::be24:11ff:fe00:1", 64}}}};
    guest.files["/etc/os-release"] =
        "NAME=\"Tiny\"\nID=tiny\nVERSION_ID=\"1.0\"\nPRETTY_NAME=\"Tiny 1.0\"\n";
    guest.run = [](const std::vector<std::string>& command) -> std::optional<Guest::Result> {
      if (command.empty() || command[0] != "/bin/echo") return std::nullopt;
      return Guest::Result{0, join({command.begin() + 1, command.end()}, " ") + "\n"};
    };
    return guest;
  };
  WebFile page;
  page.bytes = "<h1>hello</h1>\n\n";
  page.mime = "text/html";
  put_web("page.html", page);
  WebFile slow;
  slow.size = 100'000'000;
  slow.bytes_per_second = 2000;
  dc->web.put(web + "slow", slow);
  WebFile broken;
  broken.status = 500;
  broken.reason = "Internal Server Error";
  dc->web.put(web + "e500", broken);
  for (const text::Value& each : description.find("bridges")->items()) {
    Node::Bridge bridge;
    bridge.cidr = text_of(each, "address");
    bridge.vlan_aware = text_of(each, "bridge_vlan_aware") == "1";
    node->bridges.emplace(text_of(each, "iface"), bridge);
  }
  for (const text::Value& pool : description.find("pools")->items()) dc->access.pools[pool.text()];
  for (const text::Value& each : description.find("users")->items()) {
    User& user = dc->access.users[text_of(each, "userid")];
    user.password = text_of(each, "password");
    for (const text::Entry& token : each.find("tokens")->entries()) {
      const std::string secret = dc->new_uuid();
      secrets_[text_of(each, "userid") + "!" + token.key] = secret;
      user.tokens[token.key] = {secret, text_of(token.value, "privsep") == "1", 0, ""};
    }
  }
}

void Fixture::add_left_over_pools() {
  dc->access.pools["1x"];
  dc->access.pools["talos"] = {"c", {9999}, {}};
}

std::optional<WebFile> Fixture::recognise(const std::string& bytes) const {
  const std::string web = "http://127.0.0.1:8080/";
  if (bytes.starts_with("the qcow2 test image")) return dc->web.find(web + "tiny.qcow2");
  if (bytes.starts_with("the ISO test image")) return dc->web.find(web + "tiny.iso");
  if (bytes.starts_with("empty")) return WebFile{};
  return std::nullopt;
}

net::Headers Fixture::root() {
  const Ticket ticket = make_ticket(*dc, "root@pam");
  return {{"Cookie", "PVEAuthCookie=" + percent_encode(ticket.ticket)},
          {"CSRFPreventionToken", ticket.csrf}};
}

net::Headers Fixture::act_as(const text::Value& principal) {
  const std::string kind = text_of(principal, "kind");
  const std::string id = text_of(principal, "id");
  // Grants stay until a principal with grants of its own acts, as the recorder left them.
  if (principal.find("user_grants") != nullptr || principal.find("token_grants") != nullptr)
    for (auto& [path, entries] : dc->access.acl)
      for (auto& [who, roles] : entries)
        std::erase_if(roles, [](const auto& entry) { return entry.first.starts_with("lab-"); });
  const auto grant = [&](const text::Value* grants, const std::string& who) {
    if (grants == nullptr) return;
    for (const text::Entry& entry : grants->entries()) {
      const text::Value* named = entry.value.find("privs");
      if (named == nullptr) throw Error(Fault::NotFound, "a grant without 'privs': " + entry.key);
      std::set<std::string> privs;
      for (const text::Value& priv : named->items()) privs.insert(priv.text());
      dc->access.grant(who, entry.key, privs, text_of(entry.value, "propagate") != "0");
    }
  };
  if (kind == "none") return {};
  if (kind == "ticket") {
    const std::string user = text_of(principal, "user");
    if (user != "?") grant(principal.find("user_grants"), user);
    Ticket ticket = make_ticket(*dc, user == "?" ? "root@pam" : user);
    const std::string fault = text_of(principal, "ticket");
    if (fault == "tampered signature") ticket.ticket[ticket.ticket.size() - 5] ^= 1;
    if (fault == "garbage") ticket.ticket = "PVE:garbage";
    if (fault == "timestamp replaced by an old one")
      ticket.ticket.replace(ticket.ticket.find("::") - 8, 8, "5F000000");
    net::Headers headers{{"Cookie", "PVEAuthCookie=" + percent_encode(ticket.ticket)}};
    const std::string csrf = text_of(principal, "csrf");
    if (csrf != "absent")
      headers.add("CSRFPreventionToken", csrf == "wrong" ? "00000000:wrong" : ticket.csrf);
    if (text_of(principal, "also") == "bad token header")
      headers.add("Authorization", "PVEAPIToken=a@b!c=d");
    return headers;
  }
  if (kind != "token") throw Error(Fault::NotFound, "unknown kind of principal: " + kind);
  const std::string good = "tester@pve!sep=" + secrets_.at("tester@pve!sep");
  const std::map<std::string, std::string> spellings{
      {"PVEAPIToken <id>=<secret>", "PVEAPIToken " + good},
      {"pveapitoken=<id>=<secret>", "pveapitoken=" + good},
      {"value percent-encoded", "PVEAPIToken=" + percent_encode(good)},
      {"secret in upper case", "PVEAPIToken=tester@pve!sep=" +
                                   [&] {
                                     std::string upper = secrets_.at("tester@pve!sep");
                                     for (char& c : upper)
                                       c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
                                     return upper;
                                   }()},
      {"wrong secret", "PVEAPIToken=tester@pve!sep=00000000-0000-0000-0000-000000000000"},
      {"secret is not a UUID", "PVEAPIToken=tester@pve!sep=nonsense"},
      {"PVEAPIToken=", "PVEAPIToken="},
      {"Bearer <secret>", "Bearer " + secrets_.at("tester@pve!sep")},
      {"tester@pve", "PVEAPIToken=tester@pve=" + secrets_.at("tester@pve!sep")},
      {"tester@pve!nope", "PVEAPIToken=tester@pve!nope=" + secrets_.at("tester@pve!sep")},
      {"nouser@pve!sep", "PVEAPIToken=nouser@pve!sep=" + secrets_.at("tester@pve!sep")},
  };
  if (const auto special = spellings.find(id); special != spellings.end())
    return {{"Authorization", special->second}};
  if (!secrets_.contains(id)) throw Error(Fault::NotFound, "unknown token: " + id);
  const std::string user = id.substr(0, id.find('!'));
  if (const text::Value* privsep = principal.find("privsep"))
    dc->access.users.at(user).tokens.at(id.substr(user.size() + 1)).privsep =
        privsep->text() == "1";
  grant(principal.find("user_grants"), user);
  grant(principal.find("token_grants"), id);
  return {{"Authorization", "PVEAPIToken=" + id + "=" + secrets_.at(id)}};
}

bool Fixture::remove_vm(unsigned id) {
  for (auto& [name, storage] : dc->storages)
    std::erase_if(storage.on(node->name), [&](const auto& each) { return each.second.vmid == id; });
  dc->access.forget_vm(id);
  dc->ha.erase("vm:" + std::to_string(id));
  return dc->vms.erase(id) > 0;
}

bool Fixture::out_of_band(const std::string& what) {
  Storage& local = dc->get_storage("local");
  if (what == "root removes lock and protection") {
    for (auto& [id, vm] : dc->vms) {
      vm.config.erase("lock");
      vm.config.erase("protection");
    }
    return true;
  }
  if (what == "local:iso/gone.iso appears") {
    Volume volume = local.on(node->name).at("iso/tiny.iso");
    volume.name = "iso/gone.iso";
    local.on(node->name)[volume.name] = volume;
    return true;
  }
  if (what == "local:iso/gone.iso is removed")
    return local.on(node->name).erase("iso/gone.iso") > 0;
  if (what == "the file of disks:505/vm-505-disk-0.raw is removed on the node")
    return dc->get_storage("disks").on(node->name).erase("505/vm-505-disk-0.raw") > 0;
  if (what == "storage temp1 (dir, images) is added") {
    Storage storage;
    storage.id = "temp1";
    storage.type = "dir";
    storage.options["path"] = "/var/lib/vz/temp1";
    storage.content = {"images"};
    return dc->storages.emplace(storage.id, storage).second;
  }
  if (what == "storage temp1 is removed from the configuration")
    return dc->storages.erase("temp1") > 0;
  if (what.starts_with("storage small (dir on a file system of 20 MB")) {
    Storage storage;
    storage.id = "small";
    storage.type = "dir";
    storage.options["path"] = "/var/lib/vz/small";
    storage.content = {"images", "import", "iso"};
    storage.total = 20'000'000;
    return dc->storages.emplace(storage.id, storage).second;
  }
  if (what == "storage small is removed") return dc->storages.erase("small") > 0;
  if (what.starts_with("VM ") && what.find(" is removed again") != std::string::npos) {
    const auto id = static_cast<unsigned>(parse_uint(split(what, ' ').at(1)).value_or(0));
    return remove_vm(id);
  }
  return false;
}

}  // namespace rocca::lab::pve
