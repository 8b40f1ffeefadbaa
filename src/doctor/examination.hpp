#pragma once

#include "doctor/checkup.hpp"

#include <map>
#include <set>

// Private to this folder: one look at a Proxmox, check by check.

namespace rocca::doctor {

double in_gib(Bytes bytes);

class Examination {
 public:
  Examination(net::Transport& transport, const Clock& clock, const proxmox::Access& access,
              const Wish& wish, std::stop_token stop)
      : transport_(transport),
        clock_(clock),
        access_(access),
        wish_(wish),
        scope_(wish.scope),
        stop_(stop),
        client_(transport, access, stop) {}

  Checkup run();

 private:
  Finding& add(std::string check, Grade grade, std::string text) {
    checkup_.findings.push_back({std::move(check), grade, std::move(text), {}, false});
    return checkup_.findings.back();
  }

  /// Runs one check; an Error in it is a finding, not the end.
  template <class Body>
  void attempt(const std::string& check, Body body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted) throw;
      Finding& finding = add(check, Grade::Bad, error.message());
      if (!error.hint().empty()) finding.fix.push_back(error.hint());
      finding.about_rights = error.fault() == Fault::Denied;
    }
  }

  // Who answers, and what we may do there (checkup.cpp).
  bool reach();
  /// The certificate the endpoint shows, asked for without our token: whoever answers learns
  /// nothing from us.
  std::optional<net::Fingerprint> shown_certificate(const std::string& endpoint);
  void clock_skew();
  void rights();
  /// What a path allows our token, asked once per path.
  const std::vector<std::string>& allowed_on(const std::string& path);
  /// A bridge may be a VNet, whose rights stand in its own zone. Hosts' own bridges are in
  /// localnetwork; and what may not be seen is taken for one of them.
  void zones();
  bool hosts();
  void quorum();
  void pools();

  // Where disks and NICs go (checkup_places.cpp).
  /// A storage, and what is still to be written to it.
  struct Place {
    proxmox::StorageInfo storage;
    std::string host;  // empty: all of them
    Bytes wanted;
    bool has_images = false;
  };

  void storage();
  void content(const std::string& host, const std::vector<proxmox::StorageInfo>& storages,
               const std::string& name, const std::string& type);
  void space(const Place& place);
  void network();
  void bridge(const std::string& host, const proxmox::Scope::Link& link,
              const std::vector<proxmox::Bridge>& bridges);

  // What VMs boot (checkup_images.cpp).
  /// Every host must be able to fetch what its VMs boot. The factory is asked from here first: it
  /// may have to build the image, and a host that waits for it blocks one of its three workers.
  void images();
  /// What the factory has; nothing while it does not have it yet, and that is no mistake.
  std::optional<factory::ImageFacts> offer(factory::Client& factory, const Wish::Image& image);
  void fetchable(const std::string& host, const std::string& url, const Wish::Image& image,
                 const std::optional<factory::ImageFacts>& offered);
  void find_template();

  // The VMs that are there (checkup_machines.cpp).
  /// All VMs there are, and which of them are already ours.
  bool inventory();
  void clashes();
  /// Ids that a VM has which the token may not see.
  void hidden_ids(std::size_t& found);
  /// Addresses and the VIP that another VM has, as its cloud-init settings or its agent tell.
  void addresses(std::size_t& found);
  void clash(std::string text, std::string fix);
  void add_link(const std::string& bridge, std::optional<std::uint64_t> tag);
  /// The addresses of another VM, as its agent tells them.
  void ask_agent(const proxmox::VmRow& vm, const proxmox::VmConfig& config);

  net::Transport& transport_;
  const Clock& clock_;
  const proxmox::Access& access_;
  const Wish& wish_;
  proxmox::Scope scope_;
  std::stop_token stop_;
  proxmox::Client client_;
  Checkup checkup_;
  std::vector<std::string> online_;
  std::vector<proxmox::VmRow> vms_;
  std::map<proxmox::Vmid, std::optional<Uuid>> uuid_of_;
  std::map<MacAddress, const proxmox::VmRow*> by_mac_;
  std::map<IpAddress, std::pair<const proxmox::VmRow*, std::string>> by_address_;  // who, how known
  proxmox::Permissions allowed_;
  std::set<std::string> unusable_;  // ACL paths of names that are wrong: not a matter of rights
  std::set<std::string> there_;     // nodes whose machines exist
  std::set<std::string> asked_;     // hosts that were asked for the factory only
  bool told_of_schematic_ = false;
  bool factory_failed_ = false;
  bool image_is_late_ = false;
  std::map<std::string, Bytes> image_bytes_;  // by host: what it has still to fetch
};

}  // namespace rocca::doctor
