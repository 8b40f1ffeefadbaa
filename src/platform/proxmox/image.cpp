#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "factory/client.hpp"
#include "locking/resolve.hpp"
#include "platform/kinds.hpp"
#include "platform/proxmox/kinds.hpp"
#include "platform/survey.hpp"
#include "platform/volume_guard.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// A web page or an error text that was stored under the name of an image is smaller than this.
constexpr Bytes smallest_image = Bytes::kib(4);
constexpr const char* warming = "warming";
constexpr const char* made_by_us = "made";

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

/// Did this cluster fetch it? The state remembers; where it was lost or went with an earlier
/// `down`, the host's log tells of downloads by our token.
bool is_our_download(World& world, const Lair& lair, const proxmox::Volume& volume) {
  constexpr Duration slack = 2s;  // both tell whole seconds
  proxmox::TaskFilter filter;
  filter.type = "download";
  const std::string us = our_name(world);
  for (const proxmox::TaskRow& task : world.proxmox().tasks(lair.host, filter)) {
    if (task.user != us || task.upid.id != percent_encode(lair.file)) continue;
    if (!proxmox::Task{task.upid, task.running(), task.status}.ok()) continue;
    // It may have gone since, and somebody else have put it there again.
    if (volume.created && (*volume.created < task.started - slack ||
                           *volume.created > task.ended.value_or(world.clock.now()) + slack))
      continue;
    return true;
  }
  return false;
}

/// A VM that shows that somebody else may need this image: one of another cluster, or one that is
/// being made, which has no mark yet. No VM names the image it was made of.
std::string other_user(World& world, const proxmox::VmRow& row) {
  std::optional<proxmox::VmConfig> config;
  try {
    config = world.survey.config(world.proxmox(), row.node, row.vmid);
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    return fmt::format("{} cannot be asked whose it is ({})", describe(row), error.message());
  }
  if (!config) return "";
  const engine::Shown shown = shown_of(row, *config);
  if (shown.family == engine::ownership_family) {
    const std::string cluster = shown.sku.substr(0, shown.sku.find('/'));
    return cluster == world.cluster.name() ? ""
                                           : fmt::format(
                                                 "{} is of the cluster {}, which may have "
                                                 "been made of the same image",
                                                 shown.where, cluster);
  }
  if (config->value_or("lock", "") == "create")
    return fmt::format("{} is being made, perhaps of this image", describe(row));
  return "";
}

std::string find_other_user(World& world) {
  world.survey.refresh_soon(world.proxmox());
  std::vector<proxmox::VmRow> rows = world.survey.rows(world.proxmox());
  std::erase_if(rows, [](const proxmox::VmRow& row) { return row.is_container; });
  // Those with a tag of ours and not of our cluster's first: one of them is enough.
  std::stable_partition(rows.begin(), rows.end(), [&](const proxmox::VmRow& row) {
    return has_our_tags(row, engine::ownership_family) && !has_our_tags(row, world.cluster.name());
  });
  for (const proxmox::VmRow& row : rows)
    if (std::string who = other_user(world, row); !who.empty()) return who;
  return "";
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
    bool made = false;                  // by us, as an earlier run remembers
  };
  ImageKind(About about, Wish wish) : Thing(std::move(about)), wish_(std::move(wish)) {}

  std::optional<Live> read(World& world) const override {
    const auto volume = find_volume(world, wish_.lair);
    if (!volume) return std::nullopt;
    Live live = observed(wish_.lair, *volume);
    if (wish_.made || world.survey.fetched(wish_.lair.host, volume->id))
      live.facts[made_by_us] = "yes";
    return live;
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
    // Said before it is sent: when the answer is lost, it may be ours all the same.
    world.survey.fetches(wish_.lair.host, wish_.lair.volume());
    try {
      const proxmox::Upid task = world.proxmox().start_download(wish_.lair.host, download);
      return {task.text, "", world.survey.first_ask(task, 150ms)};
    } catch (const Error& error) {
      if (error.fault() != Fault::Lost)
        world.survey.fetch_failed(wish_.lair.host, wish_.lair.volume());
      throw;
    }
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    if (receipt.token == warming) {
      if (offer(world)) return Ready{};
      return NotYet{fmt::format("the Image Factory to build {}", wish_.lair.file), 5s};
    }
    const std::string doing = "downloading " + wish_.lair.volume();
    const auto upid = proxmox::Upid::parse(receipt.token);
    const auto task = upid ? world.survey.task(world.proxmox(), *upid) : std::nullopt;
    if (task && !task->running && !wish_.sha256.empty())
      if (const auto failure = task->failure();
          failure && failure->reason == proxmox::Reason::BadImage)
        throw failure->error(doing).hint(fmt::format(
            "{} got something else from {} than rocca.lock pins: does a proxy answer in the "
            "factory's place? If the factory has built the image anew, `rocca lock --refresh "
            "--digest` pins that one",
            wish_.lair.host, wish_.url));
    const Progress progress = follow_task(world, receipt.token, doing);
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
    if (change == nullptr) return lanes;
    Lane storage{fmt::format("download/{}@{}", wish_.lair.storage, wish_.lair.host), 2,
                 Lane::Hold::Act};
    // Another cluster may want the same file: it finds it there when this download is over.
    Lane file{"download/" + address(), 1, Lane::Hold::Act};
    storage.shared = file.shared = true;
    lanes.push_back(std::move(storage));
    lanes.push_back(std::move(file));
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
    std::string why = wrong_size(volume->size.count(), expected);
    if (why.empty()) return;
    VolumeFacts facts{wish_.lair.host, wish_.lair.volume(), volume};
    if (world.survey.fetched(wish_.lair.host, volume->id)) {
      facts.origin = VolumeOrigin::ThisRun;
    } else if (wish_.made) {  // an earlier run asked for it
      facts.origin = VolumeOrigin::Remembered;
      facts.other_user = find_other_user(world);
    }
    const VolumeVerdict verdict = VolumeGuard::may_delete(facts);
    try {
      if (verdict.volume) world.proxmox().start_delete_volume(*verdict.volume);
    } catch (const Error& error) {
      if (!is_external(error.fault())) throw;
      why += fmt::format("; {} cannot be deleted: {}", volume->id, error.message());
    }
    world.survey.forget_volumes(wish_.lair.host, wish_.lair.storage);
    throw Error(Fault::Rejected, why)
        .hint(fmt::format("what does {} get from {}? A proxy or a portal may answer in the "
                          "factory's place",
                          wish_.lair.host, wish_.url));
  }

  Wish wish_;
};

/// An image that nothing of ours needs any more. VMs have copies of it, so it may go at any time;
/// but it is named by what is in it, so that other clusters of this Proxmox have the same one.
class LeftoverImage final : public Thing {
 public:
  struct Traits {
    Lair lair;
    bool made = false;   // by us, as the state remembers
    bool asked = false;  // for this image to go: whoever asked hears why it stays
  };
  LeftoverImage(About about, Traits traits)
      : Thing(std::move(about)),
        lair_(std::move(traits.lair)),
        made_(traits.made),
        asked_(traits.asked) {}

  std::optional<Live> read(World& world) const override {
    const auto volume = find_volume(world, lair_);
    if (!volume) return std::nullopt;
    Live live = observed(lair_, *volume);
    if (made_) live.facts[made_by_us] = "yes";
    const VolumeFacts facts = facts_about(world, *volume);
    // Never ours: there is nothing to remember.
    if (facts.origin == VolumeOrigin::Unknown && !asked_) return std::nullopt;
    if (const VolumeVerdict verdict = VolumeGuard::may_delete(facts); !verdict.volume)
      live.fields["keep"] = verdict.refusal;
    return live;
  }
  Change diff(const std::optional<Live>& live) const override {
    if (!live) return {};
    Change change;
    change.keep = fact(live->fields, "keep");
    if (!change.keep.empty()) return change;
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
    world.survey.forget_volumes(lair_.host, lair_.storage);
    const auto volume = find_volume(world, lair_);
    if (!volume) return {};
    const VolumeVerdict verdict = VolumeGuard::may_delete(facts_about(world, *volume));
    if (!verdict.volume)
      throw Error(Fault::Refused, fmt::format("{} stays: {}", volume->id, verdict.refusal));
    const auto task = world.proxmox().start_delete_volume(*verdict.volume);
    world.survey.forget_volumes(lair_.host, lair_.storage);
    return {task ? task->text : ""};
  }
  std::vector<Lane> lanes(const Change*) const override { return {host_lane(lair_.host)}; }
  Duration patience(const Change&) const override { return 5min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  VolumeFacts facts_about(World& world, const proxmox::Volume& volume) const {
    VolumeFacts facts{lair_.host, lair_.volume(), volume};
    if (made_)
      facts.origin = VolumeOrigin::Remembered;
    else if (is_our_download(world, lair_, volume))
      facts.origin = VolumeOrigin::TaskLog;
    if (facts.origin != VolumeOrigin::Unknown) facts.other_user = find_other_user(world);
    return facts;
  }

  Lair lair_;
  bool made_;
  bool asked_;
};

/// What a node boots from. A cluster that clones a template has none, and nothing of ours uses the
/// name that then comes out.
factory::Artifact artifact_of(const Cluster& cluster, const spec::Node& node) {
  return locking::artifact_of(cluster.spec, node).value_or(factory::Artifact{});
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
  if (const state::Item* item = ground.item(about.address)) {
    if (!wish.size) wish.size = parse_uint(fact(item->facts, "size"));
    wish.made =
        fact(item->facts, made_by_us) == "yes" || proxmox::Upid::parse(item->receipt).has_value();
  }
  return std::make_shared<ImageKind>(std::move(about), std::move(wish));
}

std::map<std::string, Fields> image_facts(const Cluster& cluster, const Ground& ground) {
  std::map<std::string, Fields> all;
  if (!cluster.spec.proxmox || *cluster.spec.talos.boot == spec::Boot::Template) return all;
  const std::string& storage = *cluster.spec.proxmox->image_storage;
  for (const spec::Node& node : cluster.spec.nodes) {
    const auto chosen = cluster.lock.nodes.find(node.name);
    if (!node.machine || cluster.is_adopted(node.name) || !cluster.images.contains(node.name) ||
        chosen == cluster.lock.nodes.end() || chosen->second.host.empty())
      continue;
    const std::string& host = chosen->second.host;
    const std::string file = image_file(cluster, node);
    const bool shared = ground.shared_storages.contains(storage);
    const std::string content = artifact_of(cluster, node).ending == "iso" ? "iso" : "import";
    all.try_emplace(
        image_address(storage, shared ? "" : host, file),
        Fields{{"storage", storage}, {"host", host}, {"content", content}, {"file", file}});
  }
  return all;
}

Made leftover_image(const Cluster& cluster, const Leftover& leftover) {
  LeftoverImage::Traits traits;
  traits.lair = {fact(leftover.facts, "storage"), fact(leftover.facts, "host"),
                 fact(leftover.facts, "content"), fact(leftover.facts, "file")};
  traits.made = fact(leftover.facts, made_by_us) == "yes";
  traits.asked = fact(leftover.facts, "whole cluster") == "yes";
  // It was begun and never settled: nothing is known of it, and nothing is to be done.
  if (traits.lair.file.empty() || traits.lair.host.empty())
    return leftover_memory(cluster, leftover);
  return std::make_shared<LeftoverImage>(Thing::About{leftover.address, leftover.needs, ""},
                                         std::move(traits));
}

}  // namespace rocca::resources
