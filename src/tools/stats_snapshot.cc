// The pages were written by other processes: counts are bounded and names are cut before use.
#include "tools/stats_snapshot.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>

#include <algorithm>

#include "broker/client.h"
#include "engine/address.h"
#include "engine/verbs.h"

namespace verbena::tools {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// The engine's name of a value; what another version knows beyond it is shown as a number.
template <typename Enum>
std::string name_or_number(uint32_t value, const char* what) {
  const std::string known =
      value <= UINT8_MAX ? engine::name(static_cast<Enum>(value)) : engine::kUnknownName;
  return known == engine::kUnknownName ? fmt::format("{} {}", what, value) : known;
}

std::string path_name(uint8_t path) {
  switch (static_cast<engine::Path>(path)) {
    case engine::Path::kWire:
      return "wire";
    case engine::Path::kLocal:
      return "local";
    case engine::Path::kAny:
      return "any";
  }
  return fmt::format("path {}", path);
}

QpStats read_queue_pair(const broker::CountersPage& page, const broker::QpSample& sample) {
  QpStats qp{.qpn = sample.qpn, .peer_qpn = sample.peer_qpn};
  qp.type = qp_type_name(sample.type);
  qp.state = qp_state_name(sample.state);
  qp.path = path_name(sample.path);
  const uint32_t count = std::min(page.qp_count.load(kRelaxed), broker::kQpCounters);
  for (uint32_t i = 0; i < count; ++i)
    qp.counters.push_back({broker::counter_name(page.qp_names[i]), sample.counters[i]});
  return qp;
}

void read_page(const broker::CountersPage& page, ProcessStats& out) {
  out.program = std::string(page.program, strnlen(page.program, sizeof(page.program)));
  const uint32_t count = std::min(page.device_count.load(kRelaxed), broker::kDeviceCounters);
  for (uint32_t i = 0; i < count; ++i)
    out.device.push_back(
        {broker::counter_name(page.device_names[i]), page.device[i].load(kRelaxed)});
  for (const broker::QpRow& row : page.rows) {
    broker::QpSample sample;
    if (broker::read_row(row, sample)) out.queue_pairs.push_back(read_queue_pair(page, sample));
  }
}

}  // namespace

Result<Snapshot> read_snapshot() {
  auto observer = broker::Observer::open();
  if (!observer) {
    if (observer.error().code == ECONNREFUSED) return Snapshot{};
    return tl::unexpected(observer.error());
  }
  const link::HostPage& host = observer->host_page();
  Snapshot snapshot{.broker_pid = host.broker_pid.load(kRelaxed),
                    .takeovers = host.takeovers.load(kRelaxed)};
  for (uint32_t slot = 0; slot < link::kSlots; ++slot) {
    const link::SlotRow& row = host.rows[slot];
    if (!link::is_process_slot(slot) || (row.flags.load(kRelaxed) & link::kSlotAlive) == 0)
      continue;
    auto peer = observer->open_peer(static_cast<uint8_t>(slot));
    if (!peer) continue;  // it left meanwhile
    ProcessStats process{
        .slot = slot, .pid = row.pid.load(kRelaxed), .uid = row.uid.load(kRelaxed)};
    read_page(peer->segment->counters, process);
    snapshot.processes.push_back(std::move(process));
  }
  return snapshot;
}

std::string qp_type_name(uint32_t type) {
  return name_or_number<engine::QpType>(type, "type");
}

std::string qp_state_name(uint32_t state) {
  return name_or_number<engine::QpState>(state, "state");
}

}  // namespace verbena::tools
