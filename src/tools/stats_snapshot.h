// The counters of every RDMA process of this network namespace, as read at one moment, and their
// three printed forms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::tools {

struct Counter {
  std::string name;
  uint64_t value = 0;
};

struct QpStats {
  uint32_t qpn = 0;
  uint32_t peer_qpn = 0;  // 0: not connected, or datagram
  std::string type;       // "RC"
  std::string state;      // "RTS"
  std::string path;       // "wire", "local", "any"
  std::vector<Counter> counters;
};

struct ProcessStats {
  uint32_t slot = 0;
  int pid = 0;  // as the process sees itself
  uint32_t uid = 0;
  std::string program;
  std::vector<Counter> device;
  std::vector<QpStats> queue_pairs;
};

struct Snapshot {
  int broker_pid = 0;  // 0: no broker, so no RDMA process
  uint64_t takeovers = 0;
  std::vector<ProcessStats> processes;  // by slot
};

// Reads the broker's pages. No broker is an empty snapshot, not an error. Errors: the broker does
// not answer, or is of another build.
Result<Snapshot> read_snapshot();

// For people: counters that are not 0. `before` and `seconds` add rates; nullptr leaves them out.
std::string stats_text(const Snapshot& now, const Snapshot* before, double seconds);
std::string stats_json(const Snapshot& now);
// The exposition format of Prometheus: verbena_NAME_total and verbena_qp_NAME_total.
std::string stats_prometheus(const Snapshot& now);

// Numbers as ibv_qp_type and ibv_qp_state have them; "type 9" when unknown.
std::string qp_type_name(uint32_t type);
std::string qp_state_name(uint32_t state);

}  // namespace verbena::tools
