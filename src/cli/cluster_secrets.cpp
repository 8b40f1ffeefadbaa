#include "cli/cluster_secrets.hpp"

#include "base/diagnostics.hpp"
#include "base/visible.hpp"
#include "cli/context.hpp"
#include "cli/terminal/live_screen.hpp"
#include "cli/terminal/program.hpp"
#include "net/transport.hpp"
#include "session/load.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

spec::Spec load_cluster(Context& context, const std::optional<std::string>& cluster) {
  const std::string file = cluster_file(context, cluster);
  spec::Loaded loaded = session::load_file(context.files, file);
  if (loaded.diagnostics.has_errors()) {
    context.err << loaded.diagnostics.render();
    loaded.diagnostics.throw_if_errors(file);
  }
  return std::move(loaded.spec);
}

session::ReportProblems report_to(Context& context) {
  return [&context](const Diagnostics& problems) { context.err << problems.render(); };
}

session::RunProgram program_runner(Context& context, std::stop_token stop) {
  return [&context, stop = std::move(stop)](const std::vector<std::string>& words) {
    Patience patience;
    patience.tell = [&context](const std::string& program) {
      if (!LiveScreen::is_shown())
        context.err << fmt::format("waiting for `{}` …\n", visible(program));
    };
    return run_program(words, context.environment, stop, patience);
  };
}

std::shared_ptr<session::Keys> keys_of(Context& context, std::stop_token stop) {
  if (!context.keys)
    context.keys = std::make_shared<session::Keys>(
        session::KeySources{.files = context.files,
                            .environment = context.environment,
                            .run = program_runner(context, std::move(stop)),
                            .ask = context.ask_secret,
                            .report = report_to(context)});
  return context.keys;
}

std::shared_ptr<session::SecretLookup> secrets_of(Context& context, const spec::Spec& spec,
                                                  net::Transport& transport, std::stop_token stop) {
  return std::make_shared<session::SecretLookup>(
      spec,
      session::LookupInputs{.files = context.files,
                            .clock = context.clock,
                            .transport = transport,
                            .keys = keys_of(context, stop),
                            .environment = context.environment,
                            .run = program_runner(context, stop)},
      stop);
}

secrets::Bundle get_bundle(Context& context, const spec::Spec& spec) {
  return session::get_bundle(context.files, *keys_of(context), spec, report_to(context));
}

secrets::Bundle bundle_of_file(Context& context, const std::string& path) {
  return session::bundle_of_file(
      context.files, *keys_of(context),
      path.starts_with('/') ? path : fmt::format("{}/{}", context.folder, path), path,
      report_to(context));
}

}  // namespace rocca::cli
