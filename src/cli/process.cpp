#include "cli/process.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>

namespace rocca::cli {

void close_memory() {
  ::prctl(PR_SET_DUMPABLE, 0);
  // The limit too: a core_pattern that is a pipe asks for no file, but still honours dumpable; and
  // the other way round with some sandboxes.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

}  // namespace rocca::cli
