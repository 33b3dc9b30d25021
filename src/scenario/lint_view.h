// A scenario as the rules of lint look at it: ports with their links and peers, the classes in
// which packets travel, and the lines that set things.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/lint.h"

namespace verbena::scenario {

struct PortView {
  uint32_t node = 0;    // a switch
  uint32_t number = 0;  // of the port there
  uint32_t peer = 0;    // node at the other end
  uint32_t peer_number = 0;
  const fabric::PortSettings* settings = nullptr;
  const fabric::SwitchSettings* owner = nullptr;
  const Link* link = nullptr;
};

// Packets that look alike: what a host sends for one or more flows.
struct Stream {
  uint32_t from = 0, to = 0;  // hosts, of the first such flow
  uint8_t dscp = 0, pcp = 0;
  size_t flows = 0;
  std::set<uint32_t> reached;  // hosts that they go to
};

class LintView {
 public:
  explicit LintView(const Scenario& scenario);

  const Scenario& scenario() const { return scenario_; }
  const std::vector<PortView>& ports() const { return ports_; }
  // Ports of one switch, by number.
  const std::vector<PortView>& ports_of(uint32_t node) const { return by_node_[node]; }
  const std::vector<Stream>& streams() const { return streams_; }
  const std::string& name(uint32_t node) const { return scenario_.topology.nodes[node].name; }
  bool is_host(uint32_t node) const { return node < scenario_.topology.hosts; }
  // Whether packets of `stream` may leave by `port`: any port to a switch, or one to their host.
  bool may_leave(const PortView& port, const Stream& stream) const {
    return !is_host(port.peer) || stream.reached.contains(port.peer);
  }
  // "port 2 of s0 (to s1)".
  std::string port_name(const PortView& port) const;

  // The line of the first of these keys that is set, nearest first: of the port, the switch, all
  // switches; 0: none is. Keys are without "switch.": "group.3.headroom".
  int line(const PortView& port, std::initializer_list<std::string_view> keys) const;
  int host_line(uint32_t host, std::initializer_list<std::string_view> keys) const;
  int line(std::initializer_list<std::string_view> whole_keys) const;

  // What is shared: the buffer less reserved bytes and headroom of the ports that have links.
  double shared_bytes(const PortView& port) const;
  // The use at which a group alone sends XOFF, in bytes.
  double xoff_bytes(const PortView& port, const fabric::GroupSettings& group) const;

 private:
  int first_line(const std::vector<std::string>& prefixes,
                 std::initializer_list<std::string_view> keys) const;
  std::vector<std::string> prefixes(std::string_view section, uint32_t node,
                                    const PortView* port) const;

  const Scenario& scenario_;
  std::vector<std::vector<PortView>> by_node_;
  std::vector<PortView> ports_;
  std::vector<Stream> streams_;
};

// The priority of a packet that comes in by a port with these settings.
uint8_t priority_at(const fabric::PortSettings& port, uint8_t dscp, uint8_t pcp);
inline bool has(uint8_t mask, uint32_t bit) {
  return (mask >> bit & 1) != 0;
}

// Collects findings; what is said of several places in the same words is said once.
class Findings {
 public:
  explicit Findings(int rule) : rule_(rule) {}
  void add(Severity severity, int line, const std::string& place, std::string what,
           std::string then, std::string fix);
  std::vector<Finding> take() { return std::move(all_); }

 private:
  int rule_;
  std::vector<Finding> all_;
};

// The rules, by the file they are in.
void lint_headroom(const LintView&, Findings&);  // lint_buffers.cc
void lint_thresholds(const LintView&, Findings&);
void lint_cable(const LintView&, Findings&);
void lint_shared_headroom(const LintView&, Findings&);
void lint_alpha(const LintView&, Findings&);
void lint_mixed_classes(const LintView&, Findings&);  // lint_classes.cc
void lint_one_way(const LintView&, Findings&);
void lint_dscp_map(const LintView&, Findings&);
void lint_trust(const LintView&, Findings&);
void lint_control_class(const LintView&, Findings&);
void lint_no_flow_control(const LintView&, Findings&);  // lint_marks.cc
void lint_no_marks(const LintView&, Findings&);
void lint_few_marks(const LintView&, Findings&);
void lint_roce_v1(const LintView&, Findings&);
void lint_watchdog(const LintView&, Findings&);  // lint_links.cc
void lint_asymmetric(const LintView&, Findings&);
void lint_unheard_pauses(const LintView&, Findings&);
void lint_mtu(const LintView&, Findings&);
void lint_cycle(const LintView&, Findings&);

}  // namespace verbena::scenario
