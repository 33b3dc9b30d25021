// Operators' own configuration, read into the structs that the simulator runs: what the three
// readers (NVUE commands, SONiC's CONFIG_DB, Linux' dcb and mlnx_qos lines) give back, and the
// small parsers they share. Nothing is ignored silently: each line or field is applied, or named in
// a diagnostic as without effect here, or refused with its line and the nearest form known.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/profiles.h"
#include "scenario/scenario.h"

namespace verbena::scenario {

enum class Severity : uint8_t { kNote, kWarning, kError };
std::string_view severity_name(Severity severity);  // "note", "warning", "error"

// What a reader or a rule of lint has to say about one line.
struct Diagnostic {
  int line = 0;  // from 1; 0: about no single line
  Severity severity = Severity::kNote;
  std::string what;
  std::string to_do;  // "" when there is nothing to do
  int rule = 0;       // of lint, when it is one of its mistakes (docs/fabric-operators.md)

  bool operator==(const Diagnostic&) const = default;
};

// "FILE:LINE: error: WHAT; TO_DO", without LINE when it is 0.
std::string text_of(const std::string& file, const Diagnostic& diagnostic);

enum class Format : uint8_t { kNvue, kSonic, kLinux };

struct Imported {
  Format format = Format::kNvue;
  // Which halves the text spoke of; the other half is all defaults.
  bool has_switch = false;
  bool has_host = false;
  fabric::SwitchSettings settings;
  std::map<uint32_t, std::string> port_names;  // by port number: "swp1", "Ethernet0"
  uint64_t least_rate = 0;  // of the ports, bits per second; 0: the text does not say
  // For groups whose headroom is kAutoHeadroom: their cable is in the port's pfc.cable_metres.
  SwitchForm::Formula formula = SwitchForm::kSonicFormula;
  Host host;
  // Where a setting was written, by the scenario file's own key ("switch.ecn.min", or
  // "switch.port.3.ecn.min" for one port) -> line.
  std::map<std::string, int> lines;
  std::vector<Diagnostic> diagnostics;  // by line

  bool failed() const;  // an error is among the diagnostics
};

// Guesses the format: JSON is SONiC's; a line that begins with "nv" is NVUE's; dcb, mlnx_qos,
// cma_roce_tos, echo and ip are Linux'. Nothing when none of these occurs.
std::optional<Format> format_of(std::string_view text);

// The rate of ports for which the text gives none.
struct ImportDefaults {
  uint64_t bits_per_second = 100'000'000'000;
};
// The reader for `format`; never fails as a whole: what was wrong is in the diagnostics.
Imported import_text(Format format, std::string_view text, const ImportDefaults& defaults = {});

// --- what the readers share -----------------------------------------------------------------

inline constexpr size_t kMostPorts = 1024;  // of a switch

// Collects diagnostics, each once, and gives them by line.
class Diagnostics {
 public:
  void note(int line, std::string what, std::string to_do = "");
  void warn(int line, std::string what, std::string to_do = "", int rule = 0);
  void error(int line, std::string what, std::string to_do = "");
  const std::vector<Diagnostic>& all() const { return all_; }
  // More are not kept: the last one is an error that says so, of the line INT_MAX.
  static constexpr size_t kMost = 10'000;

 private:
  void add(Diagnostic diagnostic);
  std::vector<Diagnostic> all_;
};

// The words of a line, without a comment ("#" at the begin of a word) and without quotes around a
// word.
std::vector<std::string> words_of(std::string_view line);
std::vector<std::string_view> lines_of(std::string_view text);
// Without what a copy from a terminal begins with: "cumulus@switch:~$", "$", "sudo".
std::vector<std::string> without_prompt(std::vector<std::string> words);

// Decimal, or 0x..., of at most 64 bits; nothing for anything else.
std::optional<uint64_t> number_of(std::string_view text);
// Bytes: a number alone, or with a unit: B, K, KB, M, MB, G, GB (1024 each, as switches show them).
std::optional<uint64_t> bytes_of(std::string_view text);
// A rate: "100G", "400Gbit", "25000" (Mb/s, as SONiC writes it); bits per second.
std::optional<uint64_t> rate_of(std::string_view text);
// "3", "0-2,5" or "3,4": numbers up to `most`, ascending and each once. Nothing for anything else.
std::optional<std::vector<uint32_t>> number_list(std::string_view text, uint32_t most);
// "swp1-4,swp7", "swp1-swp3", "swp1s0-3", "Ethernet0,Ethernet4": names, at most 1024, as written.
std::optional<std::vector<std::string>> interface_list(std::string_view text);
// Whether `a` comes before `b` as people count: swp2 before swp10.
bool natural_before(std::string_view a, std::string_view b);

// The member of `known` that `word` is a slip of (a third of its letters and one more at most),
// else "".
std::string_view meant_word(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace verbena::scenario
