#include "base/error.hpp"
#include "base/strings.hpp"
#include "factory/client.hpp"
#include "resources/kinds.hpp"
#include "resources/survey.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// A web page or an error text that was stored under the name of an image is smaller than this.
constexpr Bytes smallest_image = Bytes::kib(4);
constexpr const char* warming = "warming";

/// Where an image lies: what reading and taking away need.
struct Lair {
  std::string storage;
  std::string host;  // through which it is reached; for a shared storage any that has it
  std::string content;
  std::string file;

  std::string volume() const { return fmt::format("{}:{}/{}", storage, content, file); }
};

std::optional<proxmox::Volume> find_volume(World& world, const Lair& lair) {
  for (proxmox::Volume& volume :
       world.survey.volumes(world.proxmox(), lair.host, lair.storage, lair.content))
    if (volume.id == lair.volume()) return std::move(volume);
  return std::nullopt;
}

Live observed(const Lair& lair, const proxmox::Volume& volume) {
  const std::string size = std::to_string(volume.size.count());
  return {volume.id,
          {{"size", size}},
          {{"volume", volume.id},
           {"size", size},
           {"host", lair.host},
           {"storage", lair.storage},
           {"content", lair.content},
           {"file", lair.file}}};
}

/// An image file on one storage. Proxmox downloads it; what came must be as large as what was
/// pinned, because Proxmox calls a nine-byte error text a successful download.
class ImageKind final : public Thing {
 public:
  struct Wish {
    Lair lair;
    std::string schematic;
    Version talos;
    factory::Artifact artifact;
    std::string url;
    std::optional<std::uint64_t> size;  // pinned
    std::string sha256;                 // pinned, or empty
  };
  ImageKind(About about, Wish wish) : Thing(std::move(about)), wish_(std::move(wish)) {}

  std::optional<Live> read(World& world) const override {
    const auto volume = find_volume(world, wish_.lair);
    if (!volume) return std::nullopt;
    return observed(wish_.lair, *volume);
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create(fmt::format("{} is not there", wish_.lair.volume()));
    const auto size = parse_uint(live->fields.at("size")).value_or(0);
    if (const std::string why = wrong_size(size, wish_.size); !why.empty())
      return refuse(why, fmt::format("remove {} from the storage, and it is fetched again",
                                     wish_.lair.volume()));
    return {};
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>&) const override {
    world.survey.forget_volumes(wish_.lair.host, wish_.lair.storage);
    if (find_volume(world, wish_.lair)) return {};
    // Our own question first: a factory builds an image when it is first asked for, and the host's
    // question would block one of the three workers of its API meanwhile.
    const auto offered = offer(world);
    if (!offered) return {warming};
    if (wish_.size && offered->size && offered->size->count() != *wish_.size)
      throw Error(Fault::Conflict,
                  fmt::format("the Image Factory offers {} bytes for {}, and {} are pinned",
                              offered->size->count(), wish_.lair.file, *wish_.size))
          .hint(
              "an image of one version never changes: is talos.factory what it should be? "
              "Remove the entry from rocca.lock to pin it anew");
    proxmox::Download download;
    download.storage = wish_.lair.storage;
    download.content = wish_.lair.content;
    download.filename = wish_.lair.file;
    download.url = wish_.url;
    if (!wish_.sha256.empty()) {
      download.checksum_algorithm = "sha256";
      download.checksum = wish_.sha256;
    }
    const proxmox::Upid task = world.proxmox().start_download(wish_.lair.host, download);
    return {task.text, "", world.survey.first_ask(task, 150ms)};
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    if (receipt.token == warming) {
      if (offer(world)) return Ready{};
      return NotYet{fmt::format("the Image Factory to build {}", wish_.lair.file), 5s};
    }
    const Progress progress =
        follow_task(world, receipt.token, "downloading " + wish_.lair.volume());
    if (std::holds_alternative<NotYet>(progress) || receipt.token.empty()) return progress;
    world.survey.forget_volumes(wish_.lair.host, wish_.lair.storage);
    check_download(world);
    return progress;
  }

  Receipt destroy(World&, const Live&) const override {
    throw Error(Fault::Bug, address() + " is wanted");
  }

  std::vector<Lane> lanes(const Change* change) const override {
    std::vector<Lane> lanes{host_lane(wish_.lair.host)};
    if (change != nullptr)
      lanes.push_back(
          {fmt::format("download/{}@{}", wish_.lair.storage, wish_.lair.host), 2, Lane::Hold::Act});
    return lanes;
  }
  Duration patience(const Change&) const override { return 45min; }

 protected:
  Fields wishes() const override {
    return {{"volume", wish_.lair.volume()}, {"url", wish_.url}, {"sha256", wish_.sha256}};
  }

 private:
  /// What the factory says of it; nothing while it is still being built.
  std::optional<factory::ImageFacts> offer(World& world) const {
    try {
      return world.factory().image(wish_.schematic, wish_.talos, wish_.artifact, 20s);
    } catch (const Error& error) {
      if (error.fault() == Fault::Timeout || error.fault() == Fault::Lost) return std::nullopt;
      throw;
    }
  }

  std::string wrong_size(std::uint64_t size, std::optional<std::uint64_t> expected) const {
    if (expected && size != *expected)
      return fmt::format("{} has {} bytes, and the image has {}", wish_.lair.volume(), size,
                         *expected);
    if (size < smallest_image.count())
      return fmt::format("{} has {} bytes: that is no image of Talos", wish_.lair.volume(), size);
    return "";
  }

  /// What was downloaded just now and is wrong goes again, so that the next run may try anew.
  void check_download(World& world) const {
    const auto volume = find_volume(world, wish_.lair);
    if (!volume) return;  // the loop sees that, too
    std::optional<std::uint64_t> expected = wish_.size;
    if (!expected)
      if (const auto offered = offer(world); offered && offered->size)
        expected = offered->size->count();
    const std::string why = wrong_size(volume->size.count(), expected);
    if (why.empty()) return;
    try {
      world.proxmox().start_delete_volume(wish_.lair.host, volume->id);
    } catch (const Error&) {
      // Without Datastore.Allocate it stays; the next plan names it.
    }
    world.survey.forget_volumes(wish_.lair.host, wish_.lair.storage);
    throw Error(Fault::Rejected, why)
        .hint(fmt::format("what does {} get from {}? A proxy or a portal may answer in the "
                          "factory's place",
                          wish_.lair.host, wish_.url));
  }

  Wish wish_;
};

/// An image that nothing needs any more. VMs have copies of it, so it may go at any time.
class LeftoverImage final : public Thing {
 public:
  LeftoverImage(About about, Lair lair) : Thing(std::move(about)), lair_(std::move(lair)) {}

  std::optional<Live> read(World& world) const override {
    const auto volume = find_volume(world, lair_);
    return volume ? std::optional{observed(lair_, *volume)} : std::nullopt;
  }
  Change diff(const std::optional<Live>& live) const override {
    if (!live) return {};
    Change change;
    change.action = Action::Destroy;
    change.reason = "no node needs it any more";
    change.effect = Effect::Live;
    return change;
  }
  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    return live ? destroy(world, *live) : Receipt{};
  }
  Progress probe(World& world, const Receipt& receipt) const override {
    const Progress progress = follow_task(world, receipt.token, "deleting " + lair_.volume());
    if (std::holds_alternative<Ready>(progress))
      world.survey.forget_volumes(lair_.host, lair_.storage);
    return progress;
  }
  Receipt destroy(World& world, const Live&) const override {
    const auto task = world.proxmox().start_delete_volume(lair_.host, lair_.volume());
    world.survey.forget_volumes(lair_.host, lair_.storage);
    return {task ? task->text : ""};
  }
  std::vector<Lane> lanes(const Change*) const override { return {host_lane(lair_.host)}; }
  Duration patience(const Change&) const override { return 5min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  Lair lair_;
};

factory::Artifact artifact_of(const Cluster& cluster, const spec::Node& node) {
  factory::Artifact artifact;
  artifact.platform = talos::image_platform(cluster.spec, node) == "metal"
                          ? factory::Platform::Metal
                          : factory::Platform::NoCloud;
  artifact.ending = *cluster.spec.talos.boot == spec::Boot::Iso ? "iso" : "qcow2";
  return artifact;
}

}  // namespace

std::string image_address(const std::string& storage, const std::string& host,
                          const std::string& file) {
  return host.empty() ? fmt::format("image/{}/{}", storage, file)
                      : fmt::format("image/{}@{}/{}", storage, host, file);
}

std::string image_file(const Cluster& cluster, const spec::Node& node) {
  return factory::image_file(cluster.images.at(node.name).id, *cluster.spec.talos.version,
                             artifact_of(cluster, node));
}

Made make_image(const Cluster& cluster, const Ground& ground, const spec::Node& node) {
  const std::string& host = cluster.lock.nodes.at(node.name).host;
  const std::string& storage = *cluster.spec.proxmox->image_storage;
  const bool shared = ground.shared_storages.contains(storage);
  const factory::Artifact artifact = artifact_of(cluster, node);
  const std::string content = artifact.ending == "iso" ? "iso" : "import";
  const std::string& id = cluster.images.at(node.name).id;
  const std::string file = image_file(cluster, node);
  Thing::About about{image_address(storage, shared ? "" : host, file), {schematic_address(id)}, ""};
  std::string base = *cluster.spec.talos.factory;
  while (base.ends_with('/')) base.pop_back();
  ImageKind::Wish wish{{storage, host, content, file},
                       id,
                       *cluster.spec.talos.version,
                       artifact,
                       base + factory::image_path(id, *cluster.spec.talos.version, artifact),
                       {},
                       ""};
  if (const auto pinned = cluster.lock.images.find(file); pinned != cluster.lock.images.end()) {
    wish.size = pinned->second.size;
    wish.sha256 = pinned->second.sha256;
    if (!pinned->second.url.empty()) wish.url = pinned->second.url;
  }
  if (const state::Item* item = ground.item(about.address); item != nullptr && !wish.size)
    wish.size = parse_uint(fact(item->facts, "size"));
  return std::make_shared<ImageKind>(std::move(about), std::move(wish));
}

Made leftover_image(const Cluster& cluster, const Leftover& leftover) {
  Lair lair{fact(leftover.facts, "storage"), fact(leftover.facts, "host"),
            fact(leftover.facts, "content"), fact(leftover.facts, "file")};
  // It was begun and never settled: nothing is known of it, and nothing is to be done.
  if (lair.file.empty() || lair.host.empty()) return leftover_memory(cluster, leftover);
  return std::make_shared<LeftoverImage>(Thing::About{leftover.address, leftover.needs, ""},
                                         std::move(lair));
}

}  // namespace rocca::resources
