// An experiment as plain data: what the TOML file says, with everything that it leaves out filled
// in. Read by read_scenario(), checked by lint(), run by sim::Experiment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/congestion/settings.h"
#include "fabric/settings.h"

namespace verbena::scenario {

using fabric::Time;

// Nodes are numbered hosts first (0..hosts-1), then switches; a flow names hosts by number.
struct Node {
  std::string name;  // "h3", "leaf1", ...; unique
  bool is_switch = false;
  uint32_t tier = 0;  // 0 host, 1 leaf or edge, 2 spine or aggregation, 3 core: for drawing
};

struct Link {
  uint32_t a = 0, b = 0;  // nodes
  fabric::LinkSettings settings;
  double cable_metres = 0;  // 0: not given; the delay then is
  struct Change {
    Time at = 0;
    bool up = false;
  };
  std::vector<Change> changes;  // link down and up again, in time order
};

struct Topology {
  std::string kind;  // "star", "leaf-spine", ...; "links" for a list
  std::vector<Node> nodes;
  std::vector<Link> links;
  uint32_t hosts = 0;
};

// The adapter of one host: what its queue pairs do.
struct Adapter {
  uint32_t path_mtu = 1024;  // 256..4096 bytes of payload in a packet
  uint8_t dscp = 26;         // of RoCE data; ECT(0) is set beside it when congestion control wants
  bool ect = true;
  uint8_t priority = 3;            // PCP, and the adapter's own class
  bool selective_repeat = false;   // toward peers that have it too; else go-back-N
  uint32_t reorder_packets = 512;  // held back at most while one is missing, and in flight
  Time reorder_wait = 100 * fabric::kMicrosecond;  // so long what is missing may just be late
  uint8_t timeout = 14;  // local ACK timeout code: 4.096 us * 2^timeout; 0: none
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  uint64_t window_bytes = 0;  // payload in flight of one queue pair; 0: no limit
  uint32_t ack_every = 0;     // packets; 0: every one with swift and hpcc, else the engine's choice
  // Acknowledgements in a class of their own (the HPCC simulator's highest), or kSame as hardware.
  static constexpr uint8_t kSame = 0xff;
  uint8_t ack_priority = kSame;
  // Frame bytes around the payload: 0 means the real ones; the HPCC simulator counts 48, and 60 for
  // an acknowledgement.
  uint32_t header_bytes = 0;
  uint32_t ack_bytes = 0;
  bool payload = false;  // real bytes, checked by the memory oracle
  engine::CongestionSettings congestion;
};

struct Host {
  fabric::HostSettings port;
  Adapter adapter;
};

enum class Verb : uint8_t { kWrite, kRead, kSend };

// One message of one queue pair. A long flow has `bytes` kEndless: the queue pair never runs dry.
inline constexpr uint64_t kEndless = UINT64_MAX;
struct Flow {
  uint32_t source = 0, destination = 0;  // hosts; a READ moves bytes from destination to source
  uint64_t bytes = 0;
  Time start = 0;  // or, with `after`, this long after the last of them ended
  Verb verb = Verb::kWrite;
  uint8_t dscp = 0xff;  // 0xff: the adapter's
  uint8_t priority = 0xff;
  std::string group;            // the workload it belongs to; reports sum by it
  std::vector<uint32_t> after;  // flows (index) that must end first: collectives
};

// What the file says must come out; `verbena sim` exits 1 when it does not.
struct Expectation {
  std::string key;  // a name in the report's summary: "drops", "ce_marks", "deadlock", ...
  double least = 0, most = 0;
  std::string text;  // as written, for the message
  int line = 0;
};

struct Scenario {
  std::string file, name, description;
  uint64_t seed = 1;
  Time duration = 0;  // 0: until every flow has ended
  Time warm_up = 0;   // queue and goodput figures count from here
  Time sample = 10 * fabric::kMicrosecond;
  Topology topology;
  std::vector<fabric::SwitchSettings> switches;  // by node number less hosts
  std::vector<Host> hosts;
  std::vector<Flow> flows;
  std::vector<Expectation> expectations;
  // Where a setting was written: "switch.ecn.min" -> line. Lint and errors name it.
  std::map<std::string, int> lines;
};

struct Override {  // --set KEY=VALUE, and one point of --sweep
  std::string key, value;
};

// Reads the TOML text of `file` (its name is used in messages and to find files it names). An
// unknown key, a wrong unit, an impossible value is an Error "FILE:LINE: KEY ...".
Result<Scenario> read_scenario(const std::string& file, const std::vector<Override>& overrides);
Result<Scenario> parse_scenario(const std::string& file, std::string_view text,
                                const std::vector<Override>& overrides);

}  // namespace verbena::scenario
