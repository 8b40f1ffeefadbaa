#pragma once

namespace rocca::cli {

/// Secrets live in this process's memory: from now on it leaves no core file, and no other process
/// of the same user may look into it.
void close_memory();

}  // namespace rocca::cli
