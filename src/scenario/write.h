// Settings as a scenario file writes them: the sections [switch] and [host], with what differs from
// where the reader begins. Reading them back gives the same settings.
#pragma once

#include <map>
#include <string>

#include "scenario/import.h"
#include "scenario/profiles.h"

namespace verbena::scenario {

// [switch], and [switch.NAME.port.N] for ports that differ; `port_names` are comments beside the
// numbers.
std::string switch_toml(const fabric::SwitchSettings& settings, SwitchForm::Formula formula,
                        const std::string& name,
                        const std::map<uint32_t, std::string>& port_names = {});
// [host].
std::string host_toml(const Host& host);

// The sections of what was read; `name` is the switch that a file's ports belong to.
std::string import_toml(const Imported& imported, const std::string& name);

// The text of a scenario without its [switch...] (or [host...]) sections, and these put behind it.
std::string replace_sections(std::string_view text, std::string_view section,
                             const std::string& with);

}  // namespace verbena::scenario
