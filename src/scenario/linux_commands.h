// The commands that set up a host's RoCE, line by line: dcb, mlnx_qos, cma_roce_tos,
// cma_roce_mode, ip link, ethtool -A, values written into sysfs and configfs, and the environment
// variables by which NCCL and UCX choose their traffic class.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "scenario/import.h"
#include "scenario/linux_device.h"

namespace verbena::scenario {

bool is_linux_setting(std::string_view word);

class LinuxCommands {
 public:
  LinuxCommands(Diagnostics& diagnostics, Imported& out) : diagnostics_(diagnostics), out_(out) {}

  void command(int line, const std::vector<std::string>& words);
  const std::map<std::string, LinuxDevice>& devices() const { return devices_; }
  // Whether a line set something of the adapter itself: its traffic class, congestion control.
  bool has_adapter() const { return has_adapter_; }

 private:
  using Words = std::span<const std::string>;

  void dcb(Words words);
  void dcb_object(const std::string& object, const std::string& verb, LinuxDevice& device,
                  Words words);
  bool dcb_pfc(LinuxDevice& device, const std::string& word, Words values);
  bool dcb_ets(LinuxDevice& device, const std::string& word, Words values);
  bool dcb_buffer(LinuxDevice& device, const std::string& word, Words values);
  bool dcb_app(const std::string& verb, LinuxDevice& device, const std::string& word, Words values);
  void mlnx_qos(Words words);
  void mlnx_option(LinuxDevice& device, const std::string& option, const std::string& value);
  void dscp2prio(LinuxDevice& device, const std::string& value);
  void roce_tos(Words words);
  void roce_mode(Words words);
  void ip_link(Words words);
  void write_file(const std::string& value, const std::string& path);
  void ecn_file(const std::string& half, const std::string& name, const std::string& value);
  void congestion_control(const std::string& name, uint64_t value);
  void environment(const std::string& assignment);

  void traffic_class(const std::string& value);
  void refuse(std::string what, std::string to_do = "");
  // Key and value of each "3:on"; "all" is every key. Refuses what is none, up to these numbers.
  std::vector<std::pair<uint32_t, std::string>> pairs(Words values, uint32_t most);
  // Eight values between commas.
  std::vector<uint64_t> eight(const std::string& option, const std::string& value, uint64_t most);

  Diagnostics& diagnostics_;
  Imported& out_;
  std::map<std::string, LinuxDevice> devices_;
  bool has_adapter_ = false;
  int line_ = 0;
};

}  // namespace verbena::scenario
