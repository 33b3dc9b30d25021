// One port's settings from CONFIG_DB's tables: maps, PFC, queues, buffers, watchdog.
#pragma once

#include <string>

#include "scenario/import.h"
#include "scenario/sonic_file.h"

namespace verbena::scenario {

// Makes the settings of one port after the other; says each thing once, however many ports it is
// about.
class SonicPorts {
 public:
  SonicPorts(const SonicFile& file, const ImportDefaults& defaults, Diagnostics& diagnostics,
             Imported& out)
      : file_(file), defaults_(defaults), diagnostics_(diagnostics), out_(out) {}

  fabric::PortSettings port(const std::string& name, uint32_t number);

 private:
  // The row of `table` whose key names this port (and, when given, the queue or group).
  const SonicRow* row(const std::string& table, int number = -1) const;
  // A number in a field, `usual` when it is not there; an error when it is none or above `most`.
  uint64_t number(const SonicRow& row, const std::string& table, const std::string& field,
                  uint64_t usual, uint64_t most = UINT64_MAX);
  // The mask of "3,4".
  uint8_t mask(const SonicRow& row, const std::string& field);
  // The row that a field refers to; null, and an error, when there is none of that name.
  const SonicRow* refer(const SonicRow& row, const std::string& field, const std::string& table);
  void remember(std::string_view setting, int line);

  void link(fabric::PortSettings& port);
  void maps(fabric::PortSettings& port, const SonicRow& qos);
  void map(const SonicRow& qos, const std::string& field, const std::string& table,
           std::span<uint8_t> to, uint32_t keys, std::string_view setting);
  void pfc(fabric::PortSettings& port, const SonicRow& qos);
  void queues(fabric::PortSettings& port);
  void ecn(fabric::QueueSettings& queue, uint32_t number, const SonicRow& profile);
  void groups(fabric::PortSettings& port);
  void group(fabric::GroupSettings& group, const SonicRow& profile, uint32_t mtu);
  void computed(fabric::GroupSettings& group, int line, uint32_t mtu);
  void threshold(const SonicRow& profile, double& alpha, uint64_t& bytes, bool& dynamic);
  void watchdog(fabric::PortSettings& port);

  const SonicFile& file_;
  const ImportDefaults& defaults_;
  Diagnostics& diagnostics_;
  Imported& out_;
  std::string name_;
  uint32_t number_ = 0;
  uint64_t rate_ = 0;
  double cable_ = 0;
};

}  // namespace verbena::scenario
