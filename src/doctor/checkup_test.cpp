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
    if (request.method != "GET") ++changes;
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

  static Wish wish() {
    Wish wish;
    wish.scope.hosts = {"atlas"};
    wish.scope.vmid = 9001;
    wish.scope.image_storage = "local";
    wish.scope.disk_storages = {"local-lvm"};
    wish.scope.links = {{"vmbr0", std::nullopt, "localnetwork"}};
    wish.machines = {{"cp-1", 9001, {*MacAddress::parse("BC:24:11:00:00:02")}, std::nullopt}};
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
  EXPECT_THAT(texts, Contains(HasSubstr("bridge 'vmbr0' is not there")));
}

TEST(Doctor, SeesTakenIdsAndMacsButNotItsOwn) {
  Host host;
  Wish wish = Host::wish();
  wish.machines = {{"cp-1", 200, {*MacAddress::parse("BC:24:11:00:00:01")}, std::nullopt}};
  const auto texts = complaints(examine(host, wish));
  EXPECT_THAT(texts, Contains(HasSubstr("VM id 200 for cp-1 is taken by 'db-1'")));
  EXPECT_THAT(texts, Contains(HasSubstr("BC:24:11:00:00:01 of cp-1 is in use by VM 200")));
  wish.machines[0].uuid = Uuid::parse("11111111-2222-4333-8444-555555555555");
  EXPECT_THAT(complaints(examine(host, wish)), testing::IsEmpty());
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
