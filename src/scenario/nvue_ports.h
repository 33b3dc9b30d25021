// One port's settings from the tree of NVUE commands: Cumulus Linux' defaults, then RoCE's, then
// the profiles the port names (or default-global), as the switch applies them.
#pragma once

#include <string>

#include "scenario/import.h"
#include "scenario/nvue_tree.h"

namespace verbena::scenario {

// Makes the settings of one port after the other; says each thing once, however many ports it is
// about.
class NvuePorts {
 public:
  NvuePorts(const NvueTree& tree, Diagnostics& diagnostics, Imported& out)
      : tree_(tree), diagnostics_(diagnostics), out_(out) {}

  // `name` "" is every port that no line names. `key` is what its settings' lines are filed under.
  fabric::PortSettings port(const std::string& name, const std::string& key);

 private:
  const NvueLeaf* leaf(const std::string& path) const { return tree_.find(path); }
  bool switched(const std::string& path, bool usual) const;
  uint64_t number(const std::string& path, uint64_t usual) const;
  void remember(std::string_view setting, int line);
  std::string profile(std::string_view kind);
  std::string roce_mode() const;

  fabric::PortSettings profile_port();
  void mapping(fabric::PortSettings& port);
  void remark(fabric::PortSettings& port);
  void queues(fabric::PortSettings& port);
  void scheduler(fabric::PortSettings& port);
  void congestion(fabric::PortSettings& port);
  void interface_ecn(fabric::PortSettings& port);
  void pfc(fabric::PortSettings& port);
  void link_pause(fabric::PortSettings& port);
  void lossless(fabric::PortSettings& port);
  void thresholds(fabric::PortSettings& port, const std::string& where);
  void buffers(fabric::PortSettings& port);
  void watchdog(fabric::PortSettings& port);
  void check_ecn(int line, const fabric::EcnSettings& ecn, uint32_t queue);

  const NvueTree& tree_;
  Diagnostics& diagnostics_;
  Imported& out_;
  std::string name_, key_;
  std::string flow_control_;  // the branch that gives thresholds: "qos/pfc/P"; "" none
};

}  // namespace verbena::scenario
