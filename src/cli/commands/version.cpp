#include "cli/build_info.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "text/value.hpp"

#include <fmt/format.h>

namespace rocca::cli {

static int run_version(Context& context, const Invocation& invocation) {
  auto value = text::Value::map();
  value.set("version", text::Value::string(build_info::version));
  value.set("commit", text::Value::string(build_info::commit));
  value.set("build", text::Value::string(build_info::type));
  value.set("compiler", text::Value::string(build_info::compiler));
  print(context, invocation, value,
        fmt::format("rocca {}\ncommit    {}\nbuild     {}\ncompiler  {}\n", build_info::version,
                    build_info::commit, build_info::type, build_info::compiler));
  return 0;
}

Command version_command() {
  return {.name = "version",
          .group = "About rocca",
          .summary = "show the version",
          .description = "Shows the version, the commit, the build type and the compiler.",
          .flags = {output_flag()},
          .examples = {{"rocca version", "for people"}, {"rocca version -o json", "for programs"}},
          .run = run_version};
}

}  // namespace rocca::cli
