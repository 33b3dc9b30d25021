#include "tools/command.h"
namespace verbena::tools {
void add_stats(CLI::App&, Invocation&) {}
}  // namespace verbena::tools
