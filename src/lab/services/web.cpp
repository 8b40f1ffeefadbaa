#include "lab/services/web.hpp"

#include "base/encoding.hpp"
#include "net/http.hpp"

#include <openssl/evp.h>

#include <array>

namespace rocca::lab {

void Web::put(std::string url, WebFile file) {
  if (file.bytes) file.size = file.bytes->size();
  if (const auto parts = net::Url::parse(url)) hosts_.push_back(parts->origin());
  files_.insert_or_assign(std::move(url), std::move(file));
}

void Web::remove(std::string_view url) {
  if (const auto found = files_.find(url); found != files_.end()) files_.erase(found);
}

void Web::add_source(std::function<std::optional<WebFile>(const std::string& url)> source) {
  sources_.push_back(std::move(source));
}

bool Web::knows_host(std::string_view url) const {
  const auto parts = net::Url::parse(url);
  if (!parts) return false;
  for (const std::string& host : hosts_)
    if (const auto known = net::Url::parse(host); known && known->origin() == parts->origin())
      return true;
  return false;
}

std::optional<WebFile> Web::find(const std::string& url) const {
  if (const auto found = files_.find(url); found != files_.end()) return found->second;
  for (const auto& source : sources_)
    if (auto file = source(url)) return file;
  return std::nullopt;
}

std::optional<std::string> Web::digest(const WebFile& file, std::string_view algorithm) {
  if (file.bytes) {
    const EVP_MD* kind = EVP_get_digestbyname(std::string(algorithm).c_str());
    if (kind == nullptr) return std::nullopt;
    std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
    unsigned size = 0;
    EVP_Digest(file.bytes->data(), file.bytes->size(), out.data(), &size, kind, nullptr);
    return to_hex({reinterpret_cast<const char*>(out.data()), size});
  }
  const auto found = file.digests.find(std::string(algorithm));
  if (found == file.digests.end()) return std::nullopt;
  return found->second;
}

}  // namespace rocca::lab
