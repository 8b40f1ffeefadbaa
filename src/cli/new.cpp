#include "cli/cluster_secrets.hpp"
#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/new_cluster.hpp"
#include "spec/locate.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <ostream>
#include <system_error>

namespace rocca::cli {

namespace {

std::string real_path(const std::string& path) {
  std::error_code ignored;
  const auto real = std::filesystem::weakly_canonical(path, ignored);
  return ignored ? path : real.string();
}

}  // namespace

int run_new(Context& context, const Invocation& invocation) {
  const std::string name = invocation.argument("NAME").value();
  const std::string root = repository(context);
  const auto from = invocation.find("from");
  std::optional<secrets::Bundle> bundle;
  if (const auto file = invocation.find("secrets")) bundle = bundle_of_file(context, *file);
  std::string folder;
  const auto make = [&](const std::string& recipient) {
    spec::Scaffold made =
        from ? spec::scaffold_from(context.files, root, name, cluster_file(context, from),
                                   spec::find_specs(context.files, root + "/clusters"), recipient,
                                   real_path)
             : spec::scaffold(root, name, recipient);
    folder = made.folder;
    return made;
  };
  write_cluster(context, root, make, {}, std::move(bundle));
  if (folder.starts_with(context.folder + "/")) folder.erase(0, context.folder.size() + 1);
  context.err << fmt::format("next: edit {}/{}, then `rocca validate {}`\n", folder,
                             spec::spec_file_name, name);
  return 0;
}

}  // namespace rocca::cli
