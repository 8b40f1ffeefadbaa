#include "cli/context.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/invocation.hpp"
#include "spec/locate.hpp"
#include "text/json.hpp"
#include "text/valid.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <istream>
#include <ostream>

namespace rocca::cli {

namespace {

constexpr std::string_view spec_name = spec::spec_file_name;

bool is_file(Context& context, const std::string& path) {
  const auto status = context.files.status(path);
  return status && !status->folder;
}

std::string below(const std::string& folder, std::string_view name) {
  return folder.ends_with('/') ? folder + std::string{name} : fmt::format("{}/{}", folder, name);
}

/// Calls `look` for the working directory and each folder above it until it returns a path.
template <class Look>
std::optional<std::string> upward(const Context& context, Look look) {
  for (std::string folder = context.folder;;) {
    if (auto found = look(folder)) return found;
    const std::size_t slash = folder.find_last_of('/');
    if (slash == std::string::npos || folder == "/") return std::nullopt;
    folder = slash == 0 ? "/" : folder.substr(0, slash);
  }
}

}  // namespace

std::optional<std::string> Context::variable(const std::string& name) const {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::string paint(bool on, Colour colour, std::string_view text) {
  if (!on) return std::string{text};
  constexpr std::string_view codes[] = {"31", "32", "33", "36", "1", "2"};
  return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<std::size_t>(colour)], text);
}

std::string ask_line(Context& context, std::string_view question, std::string_view flag) {
  if (!context.terminal.in || !context.terminal.err)
    throw Error(
        Fault::Refused,
        fmt::format("this needs an answer, and there is no terminal to ask on: {}", question))
        .hint(fmt::format("pass {} to say so beforehand", flag));
  context.err << visible(question) << ' ' << std::flush;
  std::string answer;
  if (!std::getline(context.in, answer)) context.err << '\n';
  return std::string{trim(answer)};
}

void confirm(Context& context, std::string_view question, bool yes, std::string_view flag) {
  if (yes) return;
  const std::string answer = to_lower(ask_line(context, fmt::format("{} [y/N]", question), flag));
  if (answer != "y" && answer != "yes")
    throw Error(Fault::Refused, "not confirmed; nothing was done");
}

void confirm_name(Context& context, std::string_view question, std::string_view name,
                  const std::optional<std::string>& given, std::string_view flag) {
  const std::string answer =
      given ? *given
            : ask_line(context, fmt::format("{} Type {} to go on:", question, name),
                       fmt::format("{} {}", flag, name));
  if (answer != name)
    throw Error(Fault::Refused, fmt::format("'{}' is not '{}'; nothing was done", answer, name));
}

void print(Context& context, const Invocation& invocation, const text::Value& value,
           std::string_view for_people) {
  const std::string format = invocation.get("output");
  if (format == "json") {
    context.out << text::emit_json(text::with_valid_text(value), {.pretty = true}) << '\n';
  } else if (format == "yaml") {
    context.out << text::emit_yaml(text::with_valid_text(value));
  } else {
    context.out << for_people;
  }
}

std::string cluster_file(Context& context, const std::optional<std::string>& given) {
  if (!given) {
    const auto found =
        upward(context, [&](const std::string& folder) -> std::optional<std::string> {
          std::string path = below(folder, spec_name);
          return is_file(context, path) ? std::optional{std::move(path)} : std::nullopt;
        });
    if (found) return *found;
    throw Error(Fault::NotFound, fmt::format("no {} in {} or above it", spec_name, context.folder))
        .hint("name a cluster, or go into its folder; `rocca new NAME` makes one");
  }
  const std::string path = given->starts_with('/') ? *given : below(context.folder, *given);
  if (const auto status = context.files.status(path)) {
    if (!status->folder) return path;
    if (is_file(context, below(path, spec_name))) return below(path, spec_name);
  }
  std::vector<std::string> names;
  if (given->find('/') == std::string::npos) {
    const auto found =
        upward(context, [&](const std::string& folder) -> std::optional<std::string> {
          const std::string clusters = below(folder, "clusters");
          const auto there = context.files.status(clusters);
          if (!there || !there->folder) return std::nullopt;
          std::string file = below(below(clusters, *given), spec_name);
          if (is_file(context, file)) return file;
          // The folder may lie deeper: clusters/blue/proxmox/cluster.yaml.
          const auto deeper = spec::find_specs(context.files, below(clusters, *given));
          if (deeper.size() == 1) return deeper.front();
          if (deeper.size() > 1)
            throw Error(Fault::Usage,
                        fmt::format("`{}` may be {}", *given, enumerate(deeper, "or")))
                .hint("name the file");
          for (std::string& name : context.files.list(clusters)) names.push_back(std::move(name));
          return std::nullopt;
        });
    if (found) return *found;
  }
  throw Error(
      Fault::NotFound,
      fmt::format("no cluster `{}`: no such file, no folder with {}, and no clusters/{} from {} "
                  "upward{}",
                  *given, spec_name, *given, context.folder, did_you_mean(*given, names)));
}

}  // namespace rocca::cli
