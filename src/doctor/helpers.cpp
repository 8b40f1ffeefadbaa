#include "doctor/helpers.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

namespace rocca::doctor {

namespace {

using proxmox::Need;

/// The name behind `!` of the token that the lines make.
std::string token_id(const resources::HelperRights& rights) {
  return rights.user + "!" + rights.user.substr(6, rights.user.find('@') - 6);
}

}  // namespace

std::vector<Helper> helpers_of(const spec::Spec& spec, const Version& proxmox) {
  std::vector<Helper> all;
  for (resources::HelperRights& rights : resources::helper_rights(spec, proxmox)) {
    Helper helper;
    helper.rights = std::move(rights);
    all.push_back(std::move(helper));
  }
  return all;
}

std::vector<std::string> helper_lines(const Helper& helper) {
  const resources::HelperRights& rights = helper.rights;
  const std::string all = join(rights.privileges(), " ");
  const std::string id = token_id(rights);
  std::vector<std::string> lines{
      fmt::format(
          "pveum role modify {0} --privs \"{1}\" --append 1 || pveum role add {0} --privs \"{1}\"",
          rights.role, all),
      fmt::format("pveum user add {}", rights.user),
      fmt::format("pveum user token add {} {}", rights.user, id.substr(id.find('!') + 1))};
  // A token with privilege separation may do what both it and its user may.
  for (const std::string& who : {"--users " + rights.user, fmt::format("--tokens '{}'", id)})
    for (const std::string& path : rights.paths())
      lines.push_back(fmt::format("pveum acl modify {} {} --roles {}{}", path, who, rights.role,
                                  path == "/" ? " --propagate 0" : ""));
  return lines;
}

std::vector<Finding> examine_helper(net::Transport& transport, const proxmox::Access& access,
                                    const Helper& helper, std::stop_token stop) {
  std::vector<Finding> all;
  const auto add = [&](Grade grade, const std::string& text) -> Finding& {
    all.push_back({"add-ons", grade, fmt::format("{}: {}", helper.rights.key, text), {}, false});
    return all.back();
  };
  const auto lines = [&](Finding& finding) {
    finding.fix.emplace_back("as root on a Proxmox host:");
    for (std::string& line : helper_lines(helper)) finding.fix.push_back(std::move(line));
    finding.fix.push_back(fmt::format(
        "then give it what `token add` prints, as {}={}, under {}.token: {{ secret: … }}",
        token_id(helper.rights), "UUID", helper.rights.key));
  };
  try {
    if (!helper.token && !helper.trouble.empty()) {
      add(Grade::Bad, helper.trouble);
      return all;
    }
    if (!helper.token) {
      proxmox::Client ours{transport, access, stop};
      if (resources::missing_to_mint(ours, helper.rights).empty()) {
        add(Grade::Good, "it has no token yet; `rocca up` makes one with just its rights");
        return all;
      }
      Finding& finding =
          add(Grade::Bad,
              fmt::format("it has no token ({} is nowhere), and rocca's own may not make one",
                          helper.rights.token.path));
      finding.about_rights = true;
      lines(finding);
      return all;
    }
    proxmox::Access theirs = access;
    theirs.token = Secret{trim(helper.token->reveal())};
    proxmox::Client client{transport, theirs, stop};
    proxmox::Permissions effective;
    for (const std::string& path : helper.rights.paths()) effective.merge(client.permissions(path));
    const std::vector<Need> gaps = proxmox::missing(helper.rights.needs, effective);
    for (const Need& gap : gaps) {
      Finding& finding = add(Grade::Bad, fmt::format("{} on {} is missing: {}", gap.any_of.front(),
                                                     gap.path, gap.why));
      finding.about_rights = true;
    }
    if (gaps.empty())
      add(Grade::Good, "its token may do all that it needs");
    else
      lines(all.back());
  } catch (const Error& error) {
    if (error.fault() == Fault::Interrupted) throw;
    Finding& finding = add(Grade::Bad, error.message());
    finding.about_rights = error.fault() == Fault::Denied;
    lines(finding);
  }
  return all;
}

}  // namespace rocca::doctor
