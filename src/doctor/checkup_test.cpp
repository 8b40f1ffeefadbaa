#include "doctor/checkup.hpp"

#include "base/encoding.hpp"
#include "proxmox/scripted_transport.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

namespace rocca::doctor {
namespace {

using proxmox::json_answer;
using proxmox::ScriptedTransport;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// A small Proxmox: answers GETs from a table of paths, and counts anything else as a crime.
struct Host {
  std::map<std::string, net::Answer> answers;
  std::string date = "Mon, 16 Nov 2026 00:00:00 GMT";
  std::size_t changes = 0;
  net::Answer factory_image = sized(100u << 20);
  net::Answer factory_schematic = json_answer(404, "Not Found", "schematic not found");
  std::map<std::string, std::string> rights;  // path → privileges as JSON; absent: everything

  Host() {
    data("/version", R"({"version":"9.1.4","release":"9.1","repoid":"x"})");
    data("/nodes", R"([{"node":"atlas","status":"online"}])");
    data(
        "/cluster/status",
        R"([{"type":"cluster","name":"home","quorate":1},{"type":"node","name":"atlas","online":1}])");
    data(
        "/nodes/atlas/storage",
        R"([{"storage":"local","type":"dir","content":"iso,import","enabled":1,"active":1,"avail":107374182400},
             {"storage":"local-lvm","type":"lvmthin","content":"images,rootdir","enabled":1,"active":1,"avail":107374182400}])");
    data("/nodes/atlas/network",
         R"([{"iface":"vmbr0","type":"bridge","active":1,"bridge_vlan_aware":1}])");
    data("/cluster/nextid", R"("9001")");
    data("/cluster/resources",
         R"([{"type":"qemu","vmid":200,"node":"atlas","name":"db-1","status":"running"}])");
    data(
        "/nodes/atlas/qemu/200/config",
        R"({"net0":"virtio=BC:24:11:00:00:01,bridge=vmbr0","smbios1":"uuid=11111111-2222-4333-8444-555555555555","digest":"x"})");
  }

  void data(const std::string& path, std::string_view json) {
    answers[path] = json_answer(200, "OK", fmt::format(R"({{"data":{}}})", json));
  }

  net::Answer operator()(const net::Request& request) {
    if (request.method != "GET" && request.method != "HEAD") ++changes;
    if (request.url.starts_with("https://factory.home/"))
      return request.method == "HEAD" ? factory_image : factory_schematic;
    std::string path = request.url.substr(std::string("https://pve.home:8006/api2/json").size());
    std::string query;
    if (const std::size_t mark = path.find('?'); mark != std::string::npos) {
      query = percent_decode(path.substr(mark + 1));
      path = path.substr(0, mark);
    }
    net::Answer answer;
    if (path == "/access/permissions") {
      const std::string about = query.substr(query.find('=') + 1);
      std::string all;
      for (const proxmox::Act act : proxmox::all_acts())
        for (const auto& version : {Version{8, 4, 0}, Version{9, 0, 0}}) {
          proxmox::Scope scope = wish().scope;
          scope.hosts = {"atlas", "bear"};
          scope.version = version;
          for (const auto& need : proxmox::needs(act, scope))
            if (need.path == about)
              for (const std::string& name : need.any_of)
                if (all.find("\"" + name + "\"") == std::string::npos)
                  all += fmt::format("{}\"{}\":1", all.empty() ? "" : ",", name);
        }
      const std::string granted = rights.contains(about) ? rights[about] : "{" + all + "}";
      answer = json_answer(200, "OK", fmt::format(R"({{"data":{{"{}":{}}}}})", about, granted));
    } else if (answers.contains(path)) {
      answer = answers[path];
    } else {
      answer = json_answer(501, fmt::format("Method 'GET {}' not implemented", path),
                           R"({"data":null})");
    }
    answer.head.headers.add("Date", date);
    return answer;
  }

  static net::Answer sized(std::uint64_t bytes) {
    net::Answer answer = json_answer(200, "OK", "");
    answer.head.headers.add("Content-Length", std::to_string(bytes));
    return answer;
  }

  static Wish wish() {
    Wish wish;
    wish.scope.hosts = {"atlas"};
    wish.scope.vmid = 9001;
    wish.scope.image_storage = "local";
    wish.scope.disk_storages = {"local-lvm"};
    wish.scope.links = {{"vmbr0", std::nullopt, "localnetwork"}};
    wish.machines = {
        {"cp-1", 9001, {*MacAddress::parse("BC:24:11:00:00:02")}, {}, std::nullopt, false}};
    return wish;
  }
};

proxmox::Access access() {
  return {
      {"https://pve.home:8006"}, Secret("rocca@pve!cli=0000-canary-0000"), net::Tls::pinned({})};
}

Checkup examine(Host& host, const Wish& wish = Host::wish()) {
  ScriptedTransport transport{[&](const net::Request& request) { return host(request); }};
  VirtualClock clock{*parse_instant("2026-11-16T00:00:05Z")};
  return doctor::examine(transport, clock, access(), wish);
}

std::vector<std::string> complaints(const Checkup& checkup) {
  std::vector<std::string> texts;
  for (const Finding& finding : checkup.findings)
    if (finding.grade == Grade::Bad || finding.grade == Grade::Warning)
      texts.push_back(finding.check + ": " + finding.text);
  return texts;
}

std::vector<std::string> fixes(const Checkup& checkup) {
  std::vector<std::string> lines;
  for (const Finding& finding : checkup.findings)
    lines.insert(lines.end(), finding.fix.begin(), finding.fix.end());
  return lines;
}

TEST(Doctor, FindsNothingWrongWithAGoodHostAndChangesNothing) {
  Host host;
  const Checkup checkup = examine(host);
  EXPECT_THAT(complaints(checkup), testing::IsEmpty());
  EXPECT_EQ(checkup.exit_code(), 0);
  EXPECT_EQ(host.changes, 0u);
  EXPECT_THAT(render_text(checkup, false), HasSubstr("\nready\n"));
}

TEST(Doctor, NamesAMissingRightAndTheLinesThatGrantIt) {
  Host host;
  host.rights["/storage/local"] = R"({"Datastore.Audit":1})";
  const Checkup checkup = examine(host);
  EXPECT_THAT(complaints(checkup),
              Contains(HasSubstr("Datastore.AllocateTemplate on /storage/local is missing")));
  EXPECT_THAT(
      fixes(checkup),
      Contains("pveum acl modify /storage/local --tokens 'rocca@pve!cli' --roles RoccaImage"));
  EXPECT_EQ(checkup.exit_code(), 4);
}

TEST(Doctor, TakesARightGrantedHereButNotBelowForGranted) {
  Host host;
  host.rights["/"] = R"({"Sys.Audit":0})";  // the number is the propagate flag
  EXPECT_EQ(examine(host).exit_code(), 0);
}

TEST(Doctor, NamesAStorageWithoutTheContentAndTheLineThatAddsIt) {
  Host host;
  host.data(
      "/nodes/atlas/storage",
      R"([{"storage":"local","type":"dir","content":"iso,backup","enabled":1,"active":1,"avail":1},
                {"storage":"local-lvm","type":"lvmthin","content":"images","enabled":1,"active":0,"avail":1}])");
  const Checkup checkup = examine(host);
  EXPECT_THAT(complaints(checkup), Contains(HasSubstr("does not take 'import'")));
  EXPECT_THAT(complaints(checkup), Contains(HasSubstr("'local-lvm' on atlas is not active")));
  EXPECT_THAT(fixes(checkup), Contains("pvesm set local --content backup,iso,import"));
  EXPECT_EQ(checkup.exit_code(), 1);
}

TEST(Doctor, SeesClocksApartAnOldVersionNoQuorumAndAMissingBridge) {
  Host host;
  host.date = "Mon, 16 Nov 2026 01:00:00 GMT";
  host.data("/version", R"({"version":"7.4-3","release":"7.4"})");
  host.data(
      "/cluster/status",
      R"([{"type":"cluster","name":"home","quorate":0},{"type":"node","name":"b","online":0}])");
  host.data("/nodes/atlas/network", "[]");
  const auto texts = complaints(examine(host));
  EXPECT_THAT(texts, Contains(HasSubstr("clock: the clocks are")));
  EXPECT_THAT(texts, Contains(HasSubstr("version: Proxmox VE 7.4.0 is too old")));
  EXPECT_THAT(texts, Contains(HasSubstr("has no quorum; offline: b")));
  EXPECT_THAT(texts, Contains(HasSubstr("bridge 'vmbr0' does not exist")));
}

TEST(Doctor, SeesTakenIdsAndMacsButNotItsOwn) {
  Host host;
  Wish wish = Host::wish();
  wish.machines = {
      {"cp-1", 200, {*MacAddress::parse("BC:24:11:00:00:01")}, {}, std::nullopt, false}};
  const auto texts = complaints(examine(host, wish));
  EXPECT_THAT(texts, Contains(HasSubstr("VM id 200 for cp-1 is taken by 'db-1'")));
  EXPECT_THAT(texts, Contains(HasSubstr("BC:24:11:00:00:01 of cp-1 is in use by VM 200")));
  wish.machines[0].uuid = Uuid::parse("11111111-2222-4333-8444-555555555555");
  EXPECT_THAT(complaints(examine(host, wish)), testing::IsEmpty());
}

TEST(Doctor, DoesNotCallItAClashWhereItCannotKnowItsOwn) {
  Host host;
  Wish wish = Host::wish();
  wish.machines = {{"cp-1", 200, {}, {}, std::nullopt, true}};
  EXPECT_THAT(fixes(examine(host, wish)), Contains(HasSubstr("nodes.cp-1.vmid from rocca.lock")));
  EXPECT_EQ(examine(host, wish).exit_code(), 1);
  wish.identities_unknown = "no bundle is there";
  EXPECT_EQ(examine(host, wish).exit_code(), 0);
  EXPECT_THAT(fixes(examine(host, wish)), Contains(HasSubstr("no bundle is there")));
}

/// A host with one storage of a kind, 100 GiB free.
Host with_storage(const std::string& type, bool shared) {
  Host host;
  host.data("/nodes", R"([{"node":"atlas","status":"online"},{"node":"bear","status":"online"}])");
  for (const char* name : {"atlas", "bear"}) {
    host.data(
        fmt::format("/nodes/{}/storage", name),
        fmt::format(
            R"([{{"storage":"local","type":"{}","content":"images,import,iso","enabled":1,"active":1,
                 "avail":107374182400,"shared":{}}}])",
            type, shared ? 1 : 0));
    host.data(fmt::format("/nodes/{}/network", name),
              R"([{"iface":"vmbr0","type":"bridge","active":1,"bridge_vlan_aware":1}])");
    host.data(fmt::format("/nodes/{}/storage/local/content", name), "[]");
    host.data(fmt::format("/nodes/{}/query-url-metadata", name),
              R"({"filename":"x.qcow2","size":104857600,"mimetype":"x"})");
  }
  return host;
}

Wish disks(std::uint64_t on_atlas, std::uint64_t on_bear) {
  Wish wish = Host::wish();
  wish.scope.hosts = {"atlas", "bear"};
  wish.scope.disk_storages = {"local"};
  wish.machines = {{"cp-1", std::nullopt, {}, {}, std::nullopt, false},
                   {"cp-2", std::nullopt, {}, {}, std::nullopt, false}};
  wish.space = {{"cp-1", "atlas", "local", Bytes::gib(on_atlas)},
                {"cp-2", "bear", "local", Bytes::gib(on_bear)}};
  return wish;
}

TEST(Doctor, ComparesEachHostsSpaceWithWhatGoesThere) {
  Host host = with_storage("dir", /*shared=*/false);
  EXPECT_THAT(complaints(examine(host, disks(99, 99))), testing::IsEmpty());
  const Checkup full = examine(host, disks(99, 101));
  EXPECT_THAT(
      complaints(full),
      testing::ElementsAre(
          "storage: storage 'local' on bear has 100.0 GiB free and the cluster wants 101.0 GiB"));
  EXPECT_EQ(full.exit_code(), 1);
}

TEST(Doctor, OnlyWarnsOfAThinStorage) {
  Host host = with_storage("lvmthin", /*shared=*/false);
  const Checkup checkup = examine(host, disks(99, 101));
  EXPECT_THAT(complaints(checkup), testing::ElementsAre(HasSubstr("the cluster wants 101.0 GiB")));
  EXPECT_EQ(checkup.exit_code(), 0);
}

TEST(Doctor, ComparesASharedStorageOnceWithTheWholeCluster) {
  Host host = with_storage("nfs", /*shared=*/true);
  EXPECT_THAT(
      complaints(examine(host, disks(60, 60))),
      testing::ElementsAre(
          "storage: shared storage 'local' has 100.0 GiB free and the cluster wants 120.0 GiB"));
}

TEST(Doctor, DoesNotCountWhatIsThereAlready) {
  Host host = with_storage("dir", /*shared=*/false);
  Wish wish = disks(500, 10);
  wish.machines[0].uuid = Uuid::parse("11111111-2222-4333-8444-555555555555");
  EXPECT_THAT(complaints(examine(host, wish)), testing::IsEmpty());
}

Wish image_wish() {
  Wish wish = disks(1, 1);
  wish.factory = "https://factory.home";
  wish.images = {{"376567988ad370138ad8", {1, 11, 5}, {}, true, std::nullopt, {"atlas", "bear"}}};
  return wish;
}

std::vector<std::string> about_images(const Checkup& checkup) {
  std::vector<std::string> texts;
  for (const Finding& finding : checkup.findings)
    if (finding.check == "images")
      texts.push_back(fmt::format("{}: {}", to_string(finding.grade), finding.text));
  return texts;
}

TEST(Doctor, AsksEveryHostForTheImage) {
  Host host = with_storage("dir", /*shared=*/false);
  EXPECT_THAT(about_images(examine(host, image_wish())),
              testing::ElementsAre("ok: atlas can fetch the image of Talos v1.11.5 (100.0 MiB)",
                                   "ok: bear can fetch the image of Talos v1.11.5 (100.0 MiB)"));
  host.answers["/nodes/bear/query-url-metadata"] =
      json_answer(500, "invalid server response: '500 Can't connect'", R"({"data":null})");
  const Checkup checkup = examine(host, image_wish());
  EXPECT_THAT(about_images(checkup),
              testing::ElementsAre(HasSubstr("ok: atlas"), HasSubstr("bad: asking bear")));
  EXPECT_EQ(checkup.exit_code(), 1);
}

TEST(Doctor, SeesAnImageThatIsNone) {
  Host host = with_storage("dir", /*shared=*/false);
  host.data("/nodes/atlas/query-url-metadata", R"({"filename":"x","size":9,"mimetype":"x"})");
  EXPECT_THAT(about_images(examine(host, image_wish())),
              Contains(HasSubstr("bad: atlas gets 9 bytes from https://factory.home/image/3765")));
  Wish pinned = image_wish();
  pinned.images[0].size = 12345678;
  EXPECT_THAT(about_images(examine(host, pinned)),
              Contains(HasSubstr("bad: bear gets 104857600 bytes")));
}

TEST(Doctor, TellsASchematicThatIsNotTheFactorysYetFromOneItNeverWillKnow) {
  Host host = with_storage("dir", /*shared=*/false);
  host.factory_image = json_answer(404, "Not Found", "schematic not found");
  for (const char* name : {"atlas", "bear"})
    host.answers[fmt::format("/nodes/{}/query-url-metadata", name)] =
        json_answer(500, "invalid server response: '404 Not Found'", R"({"data":null})");
  const Checkup later = examine(host, image_wish());
  EXPECT_THAT(about_images(later),
              testing::ElementsAre(HasSubstr("note: https://factory.home does not know"),
                                   "ok: atlas reaches https://factory.home",
                                   "ok: bear reaches https://factory.home"));
  EXPECT_EQ(later.exit_code(), 0);
  Wish wish = image_wish();
  wish.images[0].can_be_told = false;  // the spec names only an id
  const Checkup never = examine(host, wish);
  EXPECT_THAT(about_images(never), Contains(HasSubstr("bad: asked from here, the Image Factory")));
  EXPECT_EQ(never.exit_code(), 1);
  // The factory knows it and has no such image: the Talos version is wrong.
  host.factory_schematic = json_answer(200, "OK", "customization: {}");
  EXPECT_EQ(examine(host, image_wish()).exit_code(), 1);
}

TEST(Doctor, CountsTheImageUntilItIsThere) {
  Host host = with_storage("dir", /*shared=*/false);
  Wish wish = image_wish();
  wish.space = {{"cp-1", "atlas", "local", Bytes::gib(100)}};
  EXPECT_THAT(complaints(examine(host, wish)),
              testing::ElementsAre(HasSubstr("'local' on atlas has 100.0 GiB free")));
  const std::string file = factory::image_file(wish.images[0].schematic, {1, 11, 5}, {});
  host.data(
      "/nodes/atlas/storage/local/content",
      fmt::format(R"([{{"volid":"local:import/{}","format":"qcow2","size":104857600}}])", file));
  EXPECT_THAT(complaints(examine(host, wish)), testing::IsEmpty());
}

TEST(Doctor, AsksForIsoOrATemplateWhereTheSpecBootsFromOne) {
  Host host = with_storage("dir", /*shared=*/false);
  Wish wish = disks(1, 1);
  host.data(
      "/nodes/bear/storage",
      R"([{"storage":"local","type":"dir","content":"images,import","enabled":1,"active":1,"avail":107374182400}])");
  EXPECT_THAT(complaints(examine(host, wish)), testing::IsEmpty());
  wish.image_content = "iso";
  EXPECT_THAT(complaints(examine(host, wish)),
              testing::ElementsAre(HasSubstr("'local' on bear does not take 'iso'")));
  wish.image_content = "";
  wish.scope.image_storage = "";
  wish.clone_of = "talos";
  EXPECT_THAT(complaints(examine(host, wish)),
              testing::ElementsAre("images: there is no template 'talos'"));
  host.data("/cluster/resources",
            R"([{"type":"qemu","vmid":900,"node":"atlas","name":"talos","template":1}])");
  host.data("/nodes/atlas/qemu/900/config", R"({"digest":"x","template":1})");
  EXPECT_THAT(about_images(examine(host, wish)),
              testing::ElementsAre("ok: the template 'talos' is VM 900"));
}

TEST(Doctor, OffersTheFingerprintWithoutShowingItsToken) {
  const net::Fingerprint shown = net::Fingerprint::of_der("some certificate");
  std::vector<net::Request> asked;
  ScriptedTransport transport{[&](const net::Request& request) -> net::Answer {
    asked.push_back(request);
    if (request.tls.trust != net::Tls::Trust::Unverified)
      throw Error(Fault::Denied, "the certificate does not match its pin");
    net::Answer answer;
    answer.head.status = 401;
    answer.head.peer = shown;
    return answer;
  }};
  VirtualClock clock;
  const Checkup checkup = doctor::examine(transport, clock, access(), Host::wish());
  EXPECT_THAT(fixes(checkup), Contains(HasSubstr(net::to_string(shown))));
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_FALSE(asked[1].authorization) << "the token must not go to somebody we do not trust";
  EXPECT_EQ(checkup.exit_code(), 1);
}

TEST(Doctor, AWrongTokenIsExitFourAndSkipsTheRestByName) {
  Host host;
  host.answers["/version"] = net::Answer{};
  host.answers["/version"].head.status = 401;
  host.answers["/version"].head.reason = "Authentication failed!";
  const Checkup checkup = examine(host);
  EXPECT_EQ(checkup.exit_code(), 4);
  EXPECT_THAT(render_text(checkup, false),
              HasSubstr("not looked at: version, clock, rights, hosts, quorum, storage"));
  for (const std::string& text : {render_text(checkup, true), text::emit_json(to_value(checkup))})
    EXPECT_THAT(text, Not(HasSubstr("canary")));
}

}  // namespace
}  // namespace rocca::doctor
