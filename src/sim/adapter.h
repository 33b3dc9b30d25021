// A host in the fabric: the real engine behind a port. What the engine wants to send becomes frames
// one at a time, when the port is free, so that its pacing and its classes decide and nothing waits
// behind it; what arrives becomes packets again. Payload travels as a length unless the run carries
// real bytes.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "engine/completion_queue.h"
#include "engine/device.h"
#include "fabric/network.h"
#include "scenario/scenario.h"

namespace verbena::sim {

// The GID of a host in the fabric: ::ffff:10.x.y.z, its number and one in the last three bytes.
engine::Gid fabric_gid(uint32_t host);

struct AdapterCounters {
  uint64_t data_bytes = 0;  // payload received
  uint64_t cnps = 0;        // sent
  uint64_t acknowledgements = 0;
};

class Adapter final : public fabric::HostPort, public engine::PacketSink {
 public:
  Adapter(fabric::Network& network, uint32_t host, const scenario::Host& settings,
          uint64_t bits_per_second, uint64_t seed);
  ~Adapter() override;

  engine::Device& device() { return *device_; }
  const engine::Device& device() const { return *device_; }
  const scenario::Adapter& settings() const { return settings_; }
  engine::CompletionQueue& completions() { return *completions_; }
  memory::ProtectionDomain* domain() { return &domain_; }
  uint32_t key() const { return region_.key; }           // of a region of endless absent memory
  static constexpr uint64_t kAbsentMemory = 1ull << 44;  // where it begins
  // Something was posted, or time has passed: sends and arms the timer.
  void kick();
  // Called with every completion that was polled.
  std::function<void(const engine::WorkCompletion&)> on_completion;

  const AdapterCounters& counters() const { return counters_; }

  // fabric::HostPort
  void receive(fabric::Time now, fabric::PacketId id) override;
  fabric::PacketId next(fabric::Time now, uint8_t open) override;
  void on_time(fabric::Time now) override;
  // engine::PacketSink
  bool send(const engine::TxPacket& packet) override;

 private:
  void after_step();
  void arm();
  uint32_t frame_bytes(const engine::TxPacket& packet) const;
  bool collects(const engine::TxPacket& packet) const;
  uint8_t priority_of(const engine::TxPacket& packet) const;

  fabric::Network& network_;
  uint32_t host_;
  scenario::Adapter settings_;
  std::unique_ptr<engine::Device> device_;
  std::unique_ptr<engine::CompletionQueue> completions_;
  memory::ProtectionDomain domain_;
  memory::MemoryRegion region_;
  fabric::Scheduler scheduler_;
  std::array<fabric::PacketQueue, fabric::kPriorities> waiting_;  // made, but not yet on the link
  uint8_t waiting_mask_ = 0;
  fabric::PacketId taken_ = fabric::kNoPacket;  // the frame that next() is about to return
  bool to_queue_ = false;                       // send() puts frames into waiting_
  engine::Gid gid_;
  AdapterCounters counters_;
};

}  // namespace verbena::sim
