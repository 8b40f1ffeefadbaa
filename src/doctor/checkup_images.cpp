#include "base/strings.hpp"
#include "doctor/examination.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rocca::doctor {

namespace {

// A web page or an error text that stands under the name of an image is smaller than this.
constexpr Bytes smallest_image = Bytes::kib(4);
// Long enough for what is built already; a factory builds the rest in minutes.
constexpr auto factory_patience = std::chrono::seconds{20};

}  // namespace

void Examination::images() {
  if (!wish_.clone_of.empty()) attempt("images", [&] { find_template(); });
  if (wish_.images.empty()) return;
  factory::Client factory{transport_, wish_.factory, {}, stop_};
  for (const Wish::Image& image : wish_.images)
    attempt("images", [&] {
      const std::string path = factory::image_path(image.schematic, image.talos, image.artifact);
      const auto offered = offer(factory, image);
      if (!offered && image_is_late_) return;  // a host that waits would block its API
      for (const std::string& host : image.hosts) {
        if (std::find(online_.begin(), online_.end(), host) == online_.end()) continue;
        if (!offered && !asked_.insert(host).second) continue;  // one question says it
        attempt("images", [&] { fetchable(host, wish_.factory + path, image, offered); });
      }
    });
}

std::optional<factory::ImageFacts> Examination::offer(factory::Client& factory,
                                                      const Wish::Image& image) {
  if (factory_failed_) return std::nullopt;
  try {
    return factory.image(image.schematic, image.talos, image.artifact, factory_patience);
  } catch (const Error& error) {
    if (error.fault() == Fault::NotFound && image.can_be_told && !factory.knows(image.schematic)) {
      if (std::exchange(told_of_schematic_, true)) return std::nullopt;
      add("images", Grade::Note,
          fmt::format("{} does not know the schematic {} yet; `rocca up` tells it", wish_.factory,
                      image.schematic.substr(0, 12)));
      return std::nullopt;
    }
    if (error.fault() == Fault::Interrupted) throw;
    if (error.fault() != Fault::Timeout && error.fault() != Fault::Lost) {
      // Hosts may reach it all the same, and what they say helps to find out why we do not.
      factory_failed_ = true;
      add("images", Grade::Bad, "asked from here, " + error.message()).fix = {
          error.fault() == Fault::Denied
              ? "SSL_CERT_FILE names the file of the authorities to trust, for your own factory"
              : error.hint()};
      return std::nullopt;
    }
    image_is_late_ = true;
    add("images", Grade::Warning,
        fmt::format("{} has not answered for the image of schematic {} in {}", wish_.factory,
                    image.schematic.substr(0, 12), to_rough_string(factory_patience)))
        .fix = {"it builds an image when it is first asked for, in minutes: ask again"};
    return std::nullopt;
  }
}

void Examination::fetchable(const std::string& host, const std::string& url,
                            const Wish::Image& image,
                            const std::optional<factory::ImageFacts>& offered) {
  if (!offered) {
    // What is not there cannot be found; to be told so is to reach it.
    client_.find_url(host, url);
    add("images", Grade::Good, fmt::format("{} reaches {}", host, wish_.factory));
    return;
  }
  const auto found = client_.url_metadata(host, url);
  std::optional<std::uint64_t> expected = image.size;
  if (!expected && offered->size) expected = offered->size->count();
  if (found.size < smallest_image || (expected && found.size.count() != *expected)) {
    add("images", Grade::Bad,
        fmt::format("{} gets {} bytes from {}{}", host, found.size.count(), url,
                    expected ? fmt::format(", and the image has {}", *expected) : ""))
        .fix = {
        "that is not the image: check the schematic, the version, rocca.lock and a proxy "
        "in between"};
    return;
  }
  add("images", Grade::Good,
      fmt::format("{} can fetch the image of Talos v{} ({:.1f} MiB)", host,
                  rocca::to_string(image.talos), in_gib(found.size) * 1024));
  const std::string file = factory::image_file(image.schematic, image.talos, image.artifact);
  const auto stored = client_.volumes(host, scope_.image_storage, wish_.image_content);
  if (std::none_of(stored.begin(), stored.end(),
                   [&](const proxmox::Volume& v) { return v.id.ends_with("/" + file); }))
    image_bytes_[host] = image_bytes_[host] + found.size;
}

void Examination::find_template() {
  if (scope_.template_vmid == 0) {
    add("images", Grade::Bad, fmt::format("there is no template '{}'", wish_.clone_of)).fix = {
        "talos.boot names it: make a VM of that name and convert it to a template, and let the "
        "token see it (VM.Audit)"};
    return;
  }
  add("images", Grade::Good,
      fmt::format("the template '{}' is VM {}", wish_.clone_of, scope_.template_vmid));
}

}  // namespace rocca::doctor
