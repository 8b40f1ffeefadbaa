#include "lab/services/external_downloads.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"
#include "lab/services/compression.hpp"
#include "net/transport.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace rocca::lab {

namespace {

constexpr std::array algorithms{"md5", "sha1", "sha224", "sha256", "sha384", "sha512"};
constexpr std::size_t beginning_size = 64 * 1024;  // far enough for the mark of an ISO

using Digest = Handle<EVP_MD_CTX, EVP_MD_CTX_free>;

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

/// Looks at a file as it comes: nothing of it stays but its digests, its sizes and its beginning.
class Examiner final : public net::BodySink {
 public:
  explicit Examiner(const std::string& compression)
      : compression_(compression),
        unpack_(compression.empty() ? nullptr : Decompressor::make(compression)) {
    for (const char* name : algorithms) {
      digests_.emplace_back(EVP_MD_CTX_new());
      EVP_DigestInit_ex(digests_.back().get(), EVP_get_digestbyname(name), nullptr);
    }
    if (!compression.empty() && unpack_ == nullptr)
      broken_ = fmt::format("the lab cannot unpack {}", compression);
  }

  bool write(std::string_view bytes) override {
    size_ += bytes.size();
    for (const Digest& each : digests_) EVP_DigestUpdate(each.get(), bytes.data(), bytes.size());
    const auto look = [this](std::string_view inner) {
      inner_size_ += inner.size();
      if (beginning_.size() < beginning_size)
        beginning_ += inner.substr(0, beginning_size - beginning_.size());
    };
    if (unpack_ == nullptr)
      look(bytes);
    else if (broken_.empty() && !unpack_->feed(bytes, look))
      broken_ = "the file is not in that format";
    return true;
  }

  void tell(Outside::Fetched& fetched, std::string_view path) {
    WebFile& file = fetched.file;
    file.size = size_;
    file.inner_size = inner_size_;
    file.image = examine_image(beginning_, path);
    file.unpacking_fails = broken_;
    if (broken_.empty() && unpack_ != nullptr && !unpack_->complete())
      file.unpacking_fails = "unexpected end of file";
    if (file.unpacking_fails.empty()) file.compression = compression_;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
      unsigned length = 0;
      EVP_DigestFinal_ex(digests_[i].get(), out.data(), &length);
      file.digests[algorithms[i]] = to_hex({reinterpret_cast<const char*>(out.data()), length});
    }
  }

 private:
  std::string compression_;
  std::vector<Digest> digests_;
  std::unique_ptr<Decompressor> unpack_;
  std::uint64_t size_ = 0;
  std::uint64_t inner_size_ = 0;
  std::string beginning_;
  std::string broken_;
};

/// `attachment; filename="talos.qcow2"`, or else the last part of the path.
std::string name_of(const net::Response& head, const net::Url& url) {
  constexpr std::string_view mark = "filename=";
  if (const auto header = head.headers.find("Content-Disposition"))
    if (const std::size_t at = header->find(mark); at != std::string_view::npos) {
      std::string_view name = header->substr(at + mark.size());
      name = trim(name.substr(0, name.find(';')));
      if (name.size() > 1 && name.front() == '"') name = name.substr(1, name.size() - 2);
      return std::string(name);
    }
  const std::string path = url.target.substr(0, url.target.find('?'));
  return percent_decode(path.substr(path.rfind('/') + 1));
}

}  // namespace

Outside::Outside(std::unique_ptr<net::Transport> transport, const std::vector<std::string>& hosts,
                 Post post)
    : transport_(std::move(transport)), post_(std::move(post)) {
  for (const std::string& host : hosts) {
    const auto url = net::Url::parse("http://" + host + "/");
    if (!url || url->target != "/" || host.find('/') != std::string::npos)
      throw Error(Fault::Usage, fmt::format("'{}' is no host to download from", host))
          .hint("write it as HOST or HOST:PORT");
    const bool has_port = host.ends_with(fmt::format(":{}", url->port));
    hosts_.push_back({url->host, has_port ? std::optional(url->port) : std::nullopt});
  }
}

Outside::~Outside() {
  for (Errand& errand : errands_) errand.thread.request_stop();
}

bool Outside::leads_to(std::string_view url) const {
  const auto parts = net::Url::parse(url);
  if (!parts) return false;
  for (const Host& host : hosts_)
    if (host.name == parts->host && host.port.value_or(parts->port) == parts->port) return true;
  return false;
}

Outside::Fetched Outside::run(const Order& order, std::stop_token stop) const {
  constexpr int most_redirects = 20;  // wget's own limit
  Fetched fetched;
  net::Request request;
  request.method = order.method;
  request.url = order.url;
  request.timeout = std::nullopt;
  request.idle_timeout = std::chrono::seconds{30};
  if (!order.verify) request.tls = net::Tls::unverified();
  try {
    for (int hops = 0; hops < most_redirects; ++hops) {
      const auto url = net::Url::parse(request.url);
      if (!url || !leads_to(request.url)) {
        fetched.trouble =
            fmt::format("redirected to {}, from which nothing may be downloaded", request.url);
        return fetched;
      }
      fetched.host = fmt::format("{}:{}", url->host, url->port);
      Examiner examiner{order.compression};
      const net::Response head = transport_->exchange(request, examiner, stop);
      const auto location = head.headers.find("Location");
      if (head.status >= 300 && head.status < 400 && location) {
        request.url = location->starts_with('/') ? url->origin() + std::string(*location)
                                                 : std::string(*location);
        continue;
      }
      fetched.file.status = head.status;
      fetched.file.reason = head.reason;
      fetched.file.mime = head.headers.find("Content-Type").value_or("");
      fetched.file.bytes_per_second = 0;  // it came in real time already
      fetched.name = name_of(head, *url);
      examiner.tell(fetched, url->target);
      if (order.method == "HEAD")
        fetched.file.size =
            parse_uint(head.headers.find("Content-Length").value_or("")).value_or(0);
      return fetched;
    }
    fetched.trouble = "20 redirections exceeded.";
  } catch (const Error& error) {
    fetched.trouble = error.message();
  }
  return fetched;
}

void Outside::fetch(Order order, std::function<void(Fetched)> done, std::stop_token stop) {
  errands_.remove_if([](const Errand& errand) { return errand.over; });
  Errand& errand = errands_.emplace_back();
  errand.thread = std::jthread([this, &errand, order = std::move(order), done = std::move(done),
                                stop = std::move(stop)](const std::stop_token& end) {
    std::stop_source either;
    const std::stop_callback first{stop, [&] { either.request_stop(); }};
    const std::stop_callback second{end, [&] { either.request_stop(); }};
    Fetched fetched = run(order, either.get_token());
    if (end.stop_requested()) return;
    post_([&errand, done, fetched = std::move(fetched)] {
      errand.over = true;
      done(fetched);
    });
  });
}

ImageFacts examine_image(std::string_view beginning, std::string_view path) {
  ImageFacts facts;
  facts.format = "raw";
  constexpr std::size_t qcow2_header = 72;
  constexpr std::size_t iso_mark = 32769;
  if (beginning.starts_with("QFI\xfb") && beginning.size() >= qcow2_header) {
    facts.format = "qcow2";
    facts.virtual_size = big_endian(beginning.substr(24, 8));
    const std::uint64_t at = big_endian(beginning.substr(8, 8));
    const std::uint64_t length = big_endian(beginning.substr(16, 4));
    if (at != 0)
      facts.backing_file = at + length <= beginning.size()
                               ? std::string(beginning.substr(at, length))
                               : "another file";
  } else if (beginning.starts_with("KDMV")) {
    facts.format = "vmdk";
  } else if (beginning.size() > iso_mark && beginning.substr(iso_mark).starts_with("CD001")) {
    facts.format = "iso";
  }
  // /image/SCHEMATIC/v1.11.5/nocloud-amd64.qcow2, on the public factory or on a mirror of it
  const std::vector<std::string> parts = split(path.substr(0, path.find('?')), '/');
  facts.identity = parts.back();
  if (parts.size() < 5 || parts[parts.size() - 4] != "image") return facts;
  std::string file = parts.back().substr(0, parts.back().find('.'));
  std::string more;
  if (file.ends_with("-secureboot")) {
    file.resize(file.size() - std::string_view("-secureboot").size());
    more = " secureboot";
  }
  const std::size_t dash = file.rfind('-');
  if (dash == std::string::npos) return facts;
  if (file.substr(dash + 1) == "arm64") more = " arm64" + more;
  facts.identity = fmt::format("talos {} {} {}{}", parts[parts.size() - 2], file.substr(0, dash),
                               parts[parts.size() - 3], more);
  return facts;
}

}  // namespace rocca::lab
