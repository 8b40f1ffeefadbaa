// Real servers, from which the lab's Proxmox downloads when it was told that it may.

#include "lab/services/external_downloads.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "lab/data_centre.hpp"
#include "lab/services/compression.hpp"
#include "lab/sim/sockets.hpp"
#include "net/curl_transport.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <openssl/evp.h>

#include <future>

namespace rocca::lab {
namespace {

using testing::HasSubstr;

std::string big_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  return out;
}

/// The beginning of a qcow2 file and some more; with a name in it, it leans on another file.
std::string qcow2(std::uint64_t size, const std::string& backing = "") {
  std::string header = std::string("QFI\xfb") + big_endian(3, 4) +
                       big_endian(backing.empty() ? 0 : 104, 8) + big_endian(backing.size(), 4) +
                       big_endian(16, 4) + big_endian(size, 8);
  header.resize(104);
  return header + backing + std::string(3000, 'x');
}

std::string sha256(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha256(), nullptr);
  return to_hex({reinterpret_cast<const char*>(out.data()), size});
}

class OutsideTest : public testing::Test {
 protected:
  OutsideTest() {
    net::Listen listen;
    listen.address = "127.0.0.1";
    listen.handler = [this](net::Incoming request, std::shared_ptr<net::Responder> responder) {
      serve(request, *responder);
    };
    port = server.port(server.listen(std::move(listen)));
    origin = fmt::format("http://127.0.0.1:{}", port);
    Sockets::Options options;
    options.speed = 100;
    options.download_from = {fmt::format("127.0.0.1:{}", port)};
    sockets.emplace(home.world, clock, options);
  }

  void serve(const net::Incoming& request, net::Responder& responder) {
    const std::string path = request.target;
    if (path == "/moved.qcow2") return responder.answer(302, "", {{"Location", "/tiny.qcow2"}}, "");
    if (path == "/away.qcow2")
      return responder.answer(302, "", {{"Location", "http://images.example/tiny.qcow2"}}, "");
    const auto found = files.find(path);
    if (found == files.end()) return responder.answer(404, "Not Found", {}, "no such file\n");
    responder.answer(200, "OK",
                     {{"Content-Type", "application/x-qemu-disk"},
                      {"Content-Length", std::to_string(found->second.size())}},
                     request.method == "HEAD" ? "" : found->second);
  }

  net::Answer ask(const std::string& method, const std::string& path,
                  const std::vector<std::pair<std::string, std::string>>& form = {}) {
    const auto door = sockets->find("pve1", 8006);
    std::string pairs;
    for (const auto& [key, value] : form)
      pairs += (pairs.empty() ? "" : "&") + key + "=" + percent_encode(value);
    net::Request one;
    one.method = method;
    one.url = fmt::format("https://{}:{}/api2/json{}{}", door->address, door->port, path,
                          method == "GET" && !pairs.empty() ? "?" + pairs : "");
    one.tls = net::Tls::pinned(home.first().fingerprint);
    one.authorization = Secret{"PVEAPIToken=" + home.root_token};
    if (method == "POST") one.body = pairs;
    return net::fetch(curl, one);
  }

  /// How the download ended.
  std::string download(const std::string& url, const std::string& file,
                       std::vector<std::pair<std::string, std::string>> more = {}) {
    std::vector<std::pair<std::string, std::string>> form{
        {"content", file.ends_with(".qcow2") ? "import" : "iso"}, {"filename", file}, {"url", url}};
    form.insert(form.end(), more.begin(), more.end());
    const net::Answer answer = ask("POST", "/nodes/pve1/storage/local/download-url", form);
    if (answer.head.status != 200) return answer.head.reason + answer.body;
    const std::string upid = text::parse_json(answer.body, "answer").find("data")->text();
    std::promise<std::string> ended;
    sockets->run([&] { home.world.spawn(wait_for(upid, ended)); });
    return ended.get_future().get();
  }

  Routine<void> wait_for(std::string upid, std::promise<std::string>& ended) {
    pve::Task* task = home.dc.find_node("pve1")->find_task(upid);
    while (task->running()) co_await home.world.wait(task->ended);
    ended.set_value(task->status);
  }

  std::optional<pve::Volume> find(const std::string& name) {
    std::optional<pve::Volume> found;
    sockets->run([&] {
      const pve::Volume* volume = home.dc.find_volume("local:" + name, *home.dc.find_node("pve1"));
      if (volume != nullptr) found = *volume;
    });
    return found;
  }

  static Home::Options present(const Clock& clock) {
    Home::Options options;
    options.start = clock.now();
    return options;
  }

  std::map<std::string, std::string> files{{"/tiny.qcow2", qcow2(64u << 20)}};
  SystemClock clock;
  net::CurlTransport curl;
  net::Server server;
  unsigned port = 0;
  std::string origin;
  Home home{present(clock)};
  std::optional<Sockets> sockets;  // last: its thread ends before what it uses
};

TEST_F(OutsideTest, AFileIsFetchedAndKnownByItsBytes) {
  EXPECT_EQ(download(origin + "/tiny.qcow2", "a.qcow2"), "OK");
  const auto volume = find("import/a.qcow2");
  ASSERT_TRUE(volume);
  EXPECT_EQ(volume->used, files["/tiny.qcow2"].size());
  EXPECT_EQ(volume->size, 64u << 20) << "the size a VM would see";
  EXPECT_EQ(volume->format, "qcow2");
}

TEST_F(OutsideTest, AChecksumIsChecked) {
  const std::string right = sha256(files["/tiny.qcow2"]);
  EXPECT_EQ(download(origin + "/tiny.qcow2", "a.qcow2",
                     {{"checksum", right}, {"checksum-algorithm", "sha256"}}),
            "OK");
  EXPECT_THAT(download(origin + "/tiny.qcow2", "b.qcow2",
                       {{"checksum", std::string(64, '0')}, {"checksum-algorithm", "sha256"}}),
              HasSubstr("checksum mismatch: got '" + right + "'"));
  EXPECT_FALSE(find("import/b.qcow2"));
  EXPECT_EQ(download(origin + "/tiny.qcow2", "a.qcow2",
                     {{"checksum", right}, {"checksum-algorithm", "sha256"}}),
            "OK")
      << "the right one is there already";
  EXPECT_THAT(download(origin + "/tiny.qcow2", "a.qcow2"), HasSubstr("refusing to override"));
}

TEST_F(OutsideTest, APackedFileIsUnpackedWhereProxmoxDoesIt) {
  const std::string raw(100'000, 'r');
  files["/talos.raw.gz"] = gzip(raw, "talos.raw", 0);
  EXPECT_EQ(download(origin + "/talos.raw.gz", "a.img", {{"compression", "gz"}}), "OK");
  EXPECT_EQ(find("iso/a.img")->size, raw.size());
  EXPECT_THAT(download(origin + "/talos.raw.gz", "b.img", {{"compression", "zst"}}),
              HasSubstr("decompression failed"));
  EXPECT_FALSE(find("iso/b.img"));
  EXPECT_EQ(download(origin + "/talos.raw.gz", "c.img", {{"compression", "xz"}}),
            "no decompression method found");
  EXPECT_EQ(download(origin + "/talos.raw.gz", "d.qcow2", {{"compression", "gz"}}),
            "decompression not supported for import");
  files["/talos.raw.gz"].resize(50);
  EXPECT_THAT(download(origin + "/talos.raw.gz", "e.img", {{"compression", "gz"}}),
              HasSubstr("unexpected end of file"));
}

TEST_F(OutsideTest, AnImageThatIsNoneOrLeansOnAnotherFileIsRefused) {
  files["/html.qcow2"] = "<html>Not found</html>";
  EXPECT_THAT(download(origin + "/html.qcow2", "a.qcow2"),
              HasSubstr("Image is not in qcow2 format"));
  files["/back.qcow2"] = qcow2(1 << 20, "/etc/passwd");
  EXPECT_THAT(download(origin + "/back.qcow2", "b.qcow2"), HasSubstr("backing file not allowed"));
  EXPECT_FALSE(find("import/a.qcow2"));
  EXPECT_FALSE(find("import/b.qcow2"));
}

TEST_F(OutsideTest, WhatTheServerRefusesIsSaid) {
  EXPECT_EQ(download(origin + "/none.qcow2", "a.qcow2"), "download failed: exit code 8");
  EXPECT_FALSE(find("import/a.qcow2"));
}

TEST_F(OutsideTest, ARedirectIsFollowedOnTheHostsThatWereNamed) {
  EXPECT_EQ(download(origin + "/moved.qcow2", "a.qcow2"), "OK");
  EXPECT_THAT(download(origin + "/away.qcow2", "b.qcow2"),
              HasSubstr("redirected to http://images.example/tiny.qcow2"));
}

TEST_F(OutsideTest, NobodyElseIsReached) {
  EXPECT_THAT(download("http://127.0.0.1:1/tiny.qcow2", "a.qcow2"), HasSubstr("download failed"));
  EXPECT_THAT(download("http://images.example/tiny.qcow2", "a.qcow2"),
              HasSubstr("unable to resolve host address 'images.example'"));
}

TEST_F(OutsideTest, TheServerIsAskedAboutTheFile) {
  const net::Answer answer =
      ask("GET", "/nodes/pve1/query-url-metadata", {{"url", origin + "/moved.qcow2"}});
  ASSERT_EQ(answer.head.status, 200) << answer.head.reason;
  const text::Value json = text::parse_json(answer.body, "answer");
  const text::Value& data = *json.find("data");
  EXPECT_EQ(data.find("filename")->text(), "tiny.qcow2");
  EXPECT_EQ(data.find("size")->as_uint(), files["/tiny.qcow2"].size());
  EXPECT_EQ(data.find("mimetype")->text(), "application/x-qemu-disk");
  EXPECT_THAT(
      ask("GET", "/nodes/pve1/query-url-metadata", {{"url", origin + "/none.qcow2"}}).head.reason,
      HasSubstr("invalid server response: '404 Not Found'"));
}

TEST_F(OutsideTest, ADownloadUnderWayEndsWithTheLab) {
  std::promise<std::shared_ptr<net::Responder>> asked;
  net::Listen listen;
  listen.address = "127.0.0.1";
  listen.handler = [&](const net::Incoming&, std::shared_ptr<net::Responder> responder) {
    asked.set_value(std::move(responder));  // and never an answer
  };
  net::Server silent;
  const unsigned silent_port = silent.port(silent.listen(std::move(listen)));
  Home other{present(clock)};
  Sockets::Options options;
  options.download_from = {"127.0.0.1"};
  auto door = std::make_unique<Sockets>(other.world, clock, options);
  door->run([&] {
    other.world.network().outside()->fetch(
        {"GET", fmt::format("http://127.0.0.1:{}/x", silent_port), true, ""},
        [](const Outside::Fetched&) { ADD_FAILURE() << "the lab was gone"; }, {});
  });
  const auto held = asked.get_future().get();
  door.reset();
}

TEST(OutsideHosts, AreHostsAndPorts) {
  for (const char* wrong : {"http://127.0.0.1", "127.0.0.1/x", "", "a b"})
    EXPECT_THROW(Outside(std::make_unique<net::CurlTransport>(), {wrong}, {}), Error) << wrong;
  const Outside outside{
      std::make_unique<net::CurlTransport>(), {"mirror.home", "127.0.0.1:80"}, {}};
  EXPECT_TRUE(outside.leads_to("https://mirror.home/x"));
  EXPECT_TRUE(outside.leads_to("http://127.0.0.1/x"));
  EXPECT_FALSE(outside.leads_to("http://127.0.0.1:81/x"));
  EXPECT_FALSE(outside.leads_to("http://mirror.home.example/x"));
}

TEST(ExaminedImages, OfAFactoryAreTalos) {
  EXPECT_EQ(examine_image("", "/image/abc/v1.11.5/nocloud-amd64.raw.zst").identity,
            "talos v1.11.5 nocloud abc");
  EXPECT_EQ(examine_image("", "/image/abc/v1.11.5/metal-arm64-secureboot.iso?x=1").identity,
            "talos v1.11.5 metal abc arm64 secureboot");
  EXPECT_EQ(examine_image("", "/cloud/debian-12.qcow2").identity, "debian-12.qcow2");
  std::string iso(40'000, '\0');
  iso.replace(32769, 5, "CD001");
  EXPECT_EQ(examine_image(iso, "/x.iso").format, "iso");
  EXPECT_EQ(examine_image("KDMV", "/x.vmdk").format, "vmdk");
}

}  // namespace
}  // namespace rocca::lab
