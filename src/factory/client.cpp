#include "factory/client.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"
#include "text/answer.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace rocca::factory {

namespace {

constexpr Duration quick = std::chrono::seconds{30};
constexpr int most_redirects = 5;
// A whole image: a few hundred megabytes by whatever line there is. It may be slow, but not silent.
constexpr Duration whole_image = std::chrono::hours{2};
constexpr Duration longest_silence = std::chrono::minutes{1};

/// Takes the digest of a body as it arrives; of an answer that is no image the first words are
/// kept.
class DigestSink final : public net::BodySink {
 public:
  explicit DigestSink(const Heard& heard) : heard_(heard), context_(EVP_MD_CTX_new()) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) fail();
  }
  void begin(const net::Response& head) override {
    is_image_ = head.status == 200;
    if (const auto length = head.headers.find("content-length"))
      if (const auto size = parse_uint(*length)) all_ = Bytes{*size};
  }
  bool write(std::string_view bytes) override {
    if (!is_image_) {
      words_ += bytes.substr(0, most_words - words_.size());
      return words_.size() < most_words;
    }
    if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) fail();
    size_ += bytes.size();
    if (heard_) heard_(Bytes{size_}, all_);
    return true;
  }

  std::string take_words() { return std::move(words_); }
  ImageDigest finish(const std::string& path) {
    if (all_ && all_->count() != size_)
      throw Error(Fault::Lost,
                  fmt::format("{} bytes of {} came, and it has {}", size_, path, all_->count()))
          .hint("the line was cut, or a proxy in between gave up: run it again");
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    if (EVP_DigestFinal_ex(context_.get(), digest.data(), &length) != 1) fail();
    return {Bytes{size_}, to_hex({reinterpret_cast<const char*>(digest.data()), length})};
  }

 private:
  static constexpr std::size_t most_words = 1024;
  [[noreturn]] static void fail() { throw Error(Fault::Bug, "the crypto library failed: SHA-256"); }

  const Heard& heard_;
  Handle<EVP_MD_CTX, EVP_MD_CTX_free> context_;
  bool is_image_ = false;
  std::optional<Bytes> all_;
  std::uint64_t size_ = 0;
  std::string words_;
};

std::string text_or(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  return value != nullptr && value->is_scalar() && !value->is_null() ? value->text()
                                                                     : std::string{};
}

std::string tag(const Version& version) {
  return "v" + rocca::to_string(version);
}

}  // namespace

const char* to_string(Platform platform) noexcept {
  return platform == Platform::NoCloud ? "nocloud" : "metal";
}

std::string image_path(const std::string& schematic, const Version& talos,
                       const Artifact& artifact) {
  return fmt::format("/image/{}/{}/{}-{}{}.{}", schematic, tag(talos), to_string(artifact.platform),
                     artifact.arch, artifact.secure_boot ? "-secureboot" : "", artifact.ending);
}

std::string image_file(const std::string& schematic, const Version& talos,
                       const Artifact& artifact) {
  return fmt::format("talos-{}-{}-{}-{}{}.{}", tag(talos), schematic.substr(0, 12),
                     to_string(artifact.platform), artifact.arch,
                     artifact.secure_boot ? "-secureboot" : "", artifact.ending);
}

Client::Client(net::Transport& transport, std::string url, net::Tls tls, std::stop_token stop)
    : transport_(transport), url_(std::move(url)), tls_(std::move(tls)), stop_(std::move(stop)) {
  while (url_.ends_with('/')) url_.pop_back();
  if (!net::Url::parse(url_))
    throw Error(Fault::Usage, fmt::format("'{}' is no Image Factory", url_))
        .hint("write it as https://factory.talos.dev");
}

net::Request Client::request(const std::string& method, const std::string& path,
                             Duration timeout) const {
  net::Request request;
  request.method = method;
  request.url = path.starts_with('/') ? url_ + path : path;
  request.tls = tls_;
  request.timeout = timeout;
  return request;
}

net::Answer Client::send(const std::string& method, const std::string& path,
                         const std::string& body, Duration timeout) {
  net::Request asked = request(method, path, timeout);
  if (!body.empty()) {
    asked.headers.add("Content-Type", "application/yaml");
    asked.body = body;
  }
  return net::fetch(transport_, asked, stop_);
}

void Client::fail(const net::Answer& answer, const std::string& doing) const {
  // Errors are plain text; of a proxy's page only the status says something.
  const bool plain = answer.head.headers.find("content-type").value_or("text/plain").find("html") ==
                     std::string_view::npos;
  const std::string why = plain ? std::string(trim(answer.body)).substr(0, 400) : "";
  Error error{answer.head.status == 404   ? Fault::NotFound
              : answer.head.status >= 500 ? Fault::Unreachable
                                          : Fault::Rejected,
              fmt::format("the Image Factory at {} refused {}: status {}{}{}", url_, doing,
                          answer.head.status, why.empty() ? "" : ": ", why)};
  if (answer.head.status == 404)
    error.hint(
        "check the Talos version and the extensions' names; `talos.factory` names another factory");
  throw error;
}

std::string Client::register_schematic(const Schematic& schematic) {
  const std::string id = schematic.id();
  const net::Answer answer = send("POST", "/schematics", schematic.canonical(), quick);
  if (answer.head.status != 201 && answer.head.status != 200) fail(answer, "the schematic");
  const std::string given = text_or(text::parse_answer(answer.body, "factory's answer"), "id");
  if (given != id)
    throw Error(Fault::Conflict,
                fmt::format("the Image Factory at {} calls the schematic {}, and it is {}", url_,
                            given, id))
        .hint(
            "its version hashes schematics in another way; pin talos.schematic to the id it gives");
  return id;
}

bool Client::knows(const std::string& schematic_id) {
  const net::Answer answer = send("GET", "/schematics/" + schematic_id, "", quick);
  if (answer.head.status == 404) return false;
  if (answer.head.status != 200) fail(answer, "to look the schematic up");
  return true;
}

std::vector<Version> Client::versions() {
  const net::Answer answer = send("GET", "/versions", "", quick);
  if (answer.head.status != 200) fail(answer, "to list its versions");
  const text::Value list = text::parse_answer(answer.body, "versions");
  std::vector<Version> versions;
  for (const text::Value& item : list.items())
    if (const auto version = Version::parse(item.text())) versions.push_back(*version);
  return versions;
}

std::vector<ExtensionInfo> Client::extensions(const Version& talos) {
  const net::Answer answer =
      send("GET", fmt::format("/version/{}/extensions/official", tag(talos)), "", quick);
  if (answer.head.status != 200)
    fail(answer, fmt::format("to list the extensions of Talos {}", tag(talos)));
  const text::Value list = text::parse_answer(answer.body, "extensions");
  std::vector<ExtensionInfo> extensions;
  for (const text::Value& item : list.items())
    extensions.push_back({text_or(item, "name"), text_or(item, "ref"), text_or(item, "digest")});
  return extensions;
}

net::Answer Client::follow(const std::string& path,
                           const std::function<net::Answer(const std::string& place)>& ask) {
  std::string place = path;
  for (int hop = 0; hop <= most_redirects; ++hop) {
    net::Answer answer = ask(place);
    if (answer.head.status == 200) return answer;
    const auto next = answer.head.headers.find("location");
    if (answer.head.status < 300 || answer.head.status >= 400 || !next)
      fail(answer, fmt::format("the image {}", path));
    place = std::string(*next);
  }
  throw Error(
      Fault::Rejected,
      fmt::format("the Image Factory at {} sends us from place to place for {}", url_, path));
}

ImageFacts Client::image(const std::string& schematic_id, const Version& talos,
                         const Artifact& artifact, Duration patience) {
  const std::string path = image_path(schematic_id, talos, artifact);
  const net::Answer answer =
      follow(path, [&](const std::string& place) { return send("HEAD", place, "", patience); });
  ImageFacts facts{url_ + path, std::nullopt};
  if (const auto length = answer.head.headers.find("content-length"))
    if (const auto size = parse_uint(*length)) facts.size = Bytes{*size};
  return facts;
}

ImageDigest Client::digest(const std::string& schematic_id, const Version& talos,
                           const Artifact& artifact, const Heard& heard) {
  const std::string path = image_path(schematic_id, talos, artifact);
  std::optional<DigestSink> sink;
  follow(path, [&](const std::string& place) {
    sink.emplace(heard);
    net::Request asked = request("GET", place, whole_image);
    asked.idle_timeout = longest_silence;
    net::Answer answer;
    answer.head = transport_.exchange(asked, *sink, stop_);
    answer.body = sink->take_words();
    return answer;
  });
  return sink->finish(path);
}

}  // namespace rocca::factory
