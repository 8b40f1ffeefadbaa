#include "cli/terminal/private_folder.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

namespace rocca::cli {

void write_private_folder(Files& files, std::string path,
                          const std::vector<std::pair<std::string, Secret>>& contents) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/.")))
    path.resize(path.rfind('/'));
  if (const auto there = files.status(path); there && (!there->folder || !files.list(path).empty()))
    throw Error(Fault::Conflict, fmt::format("{} is not empty", path))
        .hint("name a folder that is not there yet: nothing is overwritten");
  const auto slash = path.rfind('/');
  const std::string made =
      fmt::format("{}/.{}.exporting", path.substr(0, slash), path.substr(slash + 1));
  files.remove_folder(made);
  try {
    files.make_folder(made, 0700);
    files.write(made + "/.gitignore", "*\n", 0600);
    for (const auto& [name, text] : contents) {
      if (const auto end = name.rfind('/'); end != std::string::npos)
        files.make_folder(made + "/" + name.substr(0, end), 0700);
      files.write(made + "/" + name, text.reveal(), 0600);
    }
    files.rename(made, path);
  } catch (const Error&) {
    try {
      files.remove_folder(made);
    } catch (const Error&) {
      // ignored: the first error is the one that the user must read; the next export removes the
      // rest.
    }
    throw;
  }
}

}  // namespace rocca::cli
