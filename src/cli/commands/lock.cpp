#include "spec/lock.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/new_cluster.hpp"
#include "cli/proxmox_access.hpp"
#include "factory/client.hpp"
#include "locking/resolve.hpp"
#include "net/transport.hpp"
#include "spec/load.hpp"
#include "spec/locate.hpp"
#include "text/value.hpp"

#include <fmt/format.h>

#include <optional>
#include <ostream>

namespace rocca::cli {

namespace {

/// A Proxmox that is asked only if it must be: its token may be behind a passphrase.
class LazyProxmox {
 public:
  LazyProxmox(Context& context, const Invocation& invocation, const spec::Spec& spec,
              net::Transport& transport, std::stop_token stop)
      : context_(context),
        invocation_(invocation),
        spec_(spec),
        transport_(transport),
        stop_(std::move(stop)) {}

  proxmox::Client& client() {
    if (!client_)
      client_.emplace(transport_,
                      spec_access(context_, invocation_, spec_,
                                  *secrets_of(context_, spec_, transport_, stop_)),
                      stop_);
    return *client_;
  }

 private:
  Context& context_;
  const Invocation& invocation_;
  const spec::Spec& spec_;
  net::Transport& transport_;
  std::stop_token stop_;
  std::optional<proxmox::Client> client_;
};

text::Value to_value(const std::string& file, const std::vector<spec::LockChange>& list,
                     bool written) {
  text::Value changes = text::Value::list();
  for (const spec::LockChange& change : list) {
    text::Value one = text::Value::map();
    one.set("path", text::Value::string(change.path));
    one.set("before", text::Value::string(change.before));
    one.set("after", text::Value::string(change.after));
    changes.append(std::move(one));
  }
  text::Value data = text::Value::map();
  data.set("file", text::Value::string(file));
  data.set("written", text::Value::boolean(written));
  data.set("changes", std::move(changes));
  return data;
}

/// Says on stderr how far the reading of images is: a line when one begins, and one for each
/// quarter of it, because hundreds of megabytes take their time.
class Reading {
 public:
  explicit Reading(std::ostream& err) : err_(err) {}
  void heard(const std::string& file, Bytes so_far, std::optional<Bytes> all) {
    if (file != file_) {
      file_ = file;
      quarters_ = 0;
      err_ << fmt::format("reading {}{}\n", visible(file),
                          all ? fmt::format(", {}", to_string(*all)) : "")
           << std::flush;
    }
    if (!all || all->count() == 0) return;
    const std::uint64_t now = so_far.count() * 4 / all->count();
    if (now <= quarters_) return;
    quarters_ = now;
    err_ << fmt::format("reading {}: {} %\n", visible(file), now * 25) << std::flush;
  }

 private:
  std::ostream& err_;
  std::string file_;
  std::uint64_t quarters_ = 0;
};

std::string for_people(const std::vector<spec::LockChange>& list) {
  if (list.empty()) return "rocca.lock is up to date\n";
  std::string text;
  for (const spec::LockChange& change : list) {
    const auto shown = [](const std::string& value) -> std::string {
      std::string all = visible(value);
      if (all.size() <= 160) return all.empty() ? "(none)" : all;
      std::size_t end = 157;
      while ((static_cast<unsigned char>(all[end]) & 0xC0u) == 0x80u) --end;  // whole characters
      return all.substr(0, end) + "…";
    };
    text += fmt::format("{}: {} → {}\n", visible(change.path), shown(change.before),
                        shown(change.after));
  }
  return text + fmt::format("rocca.lock is written: {}\n", plural(list.size(), "change"));
}

}  // namespace

std::set<std::uint64_t> vmids_of_others(Context& context, const std::string& root,
                                        const std::string& cluster) {
  std::set<std::uint64_t> taken;
  for (const std::string& file : spec::find_specs(context.files, root + "/clusters")) {
    const spec::Loaded other = spec::load(context.files, file);
    if (*other.spec.name == cluster) continue;
    for (const spec::Node& node : other.spec.nodes)
      if (node.machine && node.machine->vmid)
        taken.insert(static_cast<std::uint64_t>(**node.machine->vmid));
    if (const auto lock = spec::find_lock(context.files, other.spec.folder))
      for (const auto& [name, node] : lock->nodes)
        if (node.vmid) taken.insert(*node.vmid);
  }
  return taken;
}

static int run_lock(Context& context, const Invocation& invocation) {
  const spec::Spec spec = load_cluster(context, invocation.argument("CLUSTER"));
  const std::stop_token stop = context.stop();
  const auto transport = context.transport();
  const spec::Lock before = spec::find_lock(context.files, spec.folder).value_or(spec::Lock{});
  factory::Client factory{*transport, *spec.talos.factory, net::Tls::system(), stop};
  LazyProxmox proxmox{context, invocation, spec, *transport, stop};
  Reading reading{context.err};
  const locking::Sources sources{
      .factory = factory,
      .look =
          [&] {
            locking::Occupied there = locking::occupied(proxmox.client());
            there.vmids.merge(vmids_of_others(context, repository(context), *spec.name));
            return there;
          },
      .is_free =
          [&](std::uint64_t vmid) {
            return proxmox.client().vmid_is_free(static_cast<proxmox::Vmid>(vmid));
          },
      .refresh = invocation.is_set("refresh"),
      .digests = invocation.is_set("digest"),
      .heard = [&](const std::string& file, Bytes so_far,
                   std::optional<Bytes> all) { reading.heard(file, so_far, all); }};
  const spec::Lock after = locking::resolve(context.files, spec, before, sources);
  if (invocation.is_set("locked")) spec::require_unchanged(before, after);
  const auto list = spec::changes(before, after);
  if (!list.empty()) spec::write_lock(context.files, spec.folder, after);
  print(context, invocation, to_value(spec.folder + "/rocca.lock", list, !list.empty()),
        for_people(list));
  return 0;
}

Command lock_command() {
  return {
      .name = "lock",
      .group = "Create a cluster",
      .summary = "pin versions, images and VM ids",
      .description =
          "Writes rocca.lock beside the spec: versions, schematic ids, URLs and sizes of the "
          "images, the list of available extensions, and the host and VM id of every node, chosen "
          "from what is free on Proxmox. What is locked already stays as long as the spec allows "
          "it and is not looked up again. Changes nothing on Proxmox.\n\nThe Image Factory "
          "publishes no checksums. With --digest, rocca downloads every image once, some hundred "
          "megabytes each, and pins its SHA-256; Proxmox then checks each download against it. "
          "Nothing of the image is kept.\n\nWith --locked nothing is written: exit code 3 if "
          "anything would change.",
      .arguments = {cluster_argument()},
      .flags =
          {{.name = "locked", .help = "refuse every change"},
           {.name = "digest", .help = "read each image once and pin its SHA-256"},
           {.name = "refresh",
            .help = "look up extensions and sizes again; with --digest, download the images again"},
           {.name = "token-file",
            .kind = FlagKind::Text,
            .value = "FILE",
            .help = "file that holds USER@REALM!TOKENID=SECRET"},
           output_flag()},
      .examples = {{"rocca lock blue", "choose and pin everything"},
                   {"rocca lock blue --digest", "also pin the digests of the images"},
                   {"rocca lock blue --locked", "in a pipeline: is rocca.lock up to date"}},
      .run = run_lock};
}

}  // namespace rocca::cli
