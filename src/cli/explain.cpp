#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "spec/schema.hpp"

#include <ostream>

namespace rocca::cli {

int run_explain(Context& context, const Invocation& invocation) {
  context.out << spec::explain(invocation.argument("FIELD|ERROR").value());
  return 0;
}

}  // namespace rocca::cli
