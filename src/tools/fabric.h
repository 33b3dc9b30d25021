// The parts of `verbena fabric`: one subcommand each. Exit status: 0 when nothing is to be said but
// notes, 1 when there are findings, 2 for a misuse or a file that cannot be read.
#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "scenario/import.h"
#include "tools/command.h"

namespace verbena::tools {

inline constexpr int kFindings = 1, kFabricMisuse = 2;

void add_fabric_import(CLI::App& fabric, Invocation& invocation);
void add_fabric_lint(CLI::App& fabric, Invocation& invocation);
void add_fabric_headroom(CLI::App& fabric, Invocation& invocation);

// The text of `path`, "-" standard input. Errors: the errno of the file, EFBIG.
Result<std::string> read_text(const std::string& path);

// `chosen` of nvue, sonic, linux, or "" to guess. EINVAL when it cannot be guessed.
Result<scenario::Format> choose_format(const std::string& path, const std::string& text,
                                       const std::string& chosen);

}  // namespace verbena::tools
