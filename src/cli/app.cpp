#include "cli/app.hpp"

#include "base/error.hpp"
#include "cli/commands/help.hpp"
#include "cli/invocation.hpp"
#include "cli/terminal/output_filter.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

namespace {

/// `--color` as far as it can be known before the words are understood: errors in them are coloured
/// too.
std::string colour_wish(const Context& context, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i].starts_with("--color=")) return words[i].substr(8);
    if (words[i] == "--color" && i + 1 < words.size()) return words[i + 1];
  }
  return context.variable("ROCCA_COLOR").value_or("auto");
}

bool colour_on(const Context& context, const std::string& wish, bool terminal) {
  if (wish == "always" || wish == "never") return wish == "always";
  return terminal && !context.variable("NO_COLOR") && context.variable("TERM") != "dumb";
}

void show(Context& context, const Error& error) {
  std::string text = error.render();
  const bool colour = context.terminal.colour_err;
  if (colour && text.starts_with("error:")) text.replace(0, 6, paint(true, Colour::Red, "error:"));
  if (const std::size_t hint = text.rfind("\nhint:"); colour && !error.hint().empty())
    text.replace(hint + 1, 5, paint(true, Colour::Cyan, "hint:"));
  context.err << text;
}

int dispatch(const Catalog& catalog, Context& context, const std::vector<std::string>& words) {
  const HelpStyle style{context.terminal.width, context.terminal.colour_out};
  if (words.empty()) {
    context.out << short_help(catalog, style);
    return 0;
  }
  const Request request = parse(catalog, words, context.environment);
  if (request.kind == Request::Kind::Help) {
    context.out << help_text(catalog, request.topic, style);
    return 0;
  }
  return request.invocation.command().run(context, request.invocation);
}

/// Every error becomes a message and an exit code.
int attempt(const Catalog& catalog, Context& context, const std::vector<std::string>& words) {
  try {
    return dispatch(catalog, context, words);
  } catch (const Error& error) {
    show(context, error);
    return exit_code(error.fault());
  } catch (const std::bad_alloc&) {
    context.err << "error: out of memory\n";
  } catch (const std::exception& error) {
    show(context, Error(Fault::Bug, error.what()).hint("this is a bug of rocca; please report it"));
  }
  return 1;
}

}  // namespace

int run(const Catalog& catalog, Context& context, std::vector<std::string> words) {
  const std::string wish = colour_wish(context, words);
  context.terminal.colour_out = colour_on(context, wish, context.terminal.out);
  context.terminal.colour_err = colour_on(context, wish, context.terminal.err);
  context.catalog = &catalog;
  context.keys.reset();  // each command looks for its own
  // What other programs answer, rocca answers too.
  if (!words.empty() && words.front() == "--version") words.front() = "version";
  std::ostream exact{context.out.rdbuf()};
  if (!context.terminal.out) context.exact_out = &exact;
  const Filtered out{context.out, /*cursor=*/false};
  const Filtered err{context.err, /*cursor=*/context.terminal.err};
  const int code = attempt(catalog, context, words);
  context.exact_out = nullptr;
  return code;
}

}  // namespace rocca::cli
