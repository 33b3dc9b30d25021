// Hosts without an adapter: one sends frames of one size as fast as its port takes them, or a list
// of frames at given times; both note what arrives. And a star of them.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "fabric/network.h"

namespace verbena::fabric::test {

struct Arrival {
  Time at;
  Packet packet;
};

class Generator : public HostPort {
 public:
  Generator(Network& network, uint32_t host) : network_(network), host_(host) {
    network.attach(host, this);
  }
  // `count` frames to `destination`, all ready now.
  void send(uint32_t destination, uint64_t count, uint32_t bytes = 1048, uint8_t priority = 3,
            uint8_t ecn = kEct0) {
    batches_.push_back({destination, count, bytes, priority, ecn});
    network_.wake(host_);
  }
  void receive(Time now, PacketId id) override {
    const Packet& packet = network_.pool()[id];
    received_bytes += packet.bytes;
    marks += packet.ecn == kCongestionExperienced;
    if (keep) arrivals.push_back({now, packet});
    network_.release(id);
  }
  PacketId next(Time, uint8_t open) override {
    for (Batch& batch : batches_) {
      if ((open >> batch.priority & 1) == 0 || batch.count == 0) continue;
      --batch.count;
      PacketId id = network_.pool().take();
      Packet& packet = network_.pool()[id];
      packet.bytes = batch.bytes;
      packet.source = host_;
      packet.destination = batch.destination;
      packet.priority = packet.pcp = batch.priority;
      packet.dscp = static_cast<uint8_t>(batch.priority * 8);
      packet.ecn = batch.ecn;
      packet.ttl = ttl;
      packet.flow_hash = flow_hash(host_, batch.destination, source_port);
      if (new_port_each_time) ++source_port;
      ++sent;
      return id;
    }
    return kNoPacket;
  }
  void on_time(Time) override {}

  bool keep = true;
  bool new_port_each_time = false;
  uint8_t ttl = 64;
  uint16_t source_port = 0xc000;
  uint64_t sent = 0, received_bytes = 0, marks = 0;
  std::vector<Arrival> arrivals;

 private:
  struct Batch {
    uint32_t destination;
    uint64_t count;
    uint32_t bytes;
    uint8_t priority, ecn;
  };
  Network& network_;
  uint32_t host_;
  std::deque<Batch> batches_;
};

inline constexpr uint64_t kEndlessCount = UINT64_MAX;

// Links without gaps, so that figures are those of frames alone.
inline LinkSettings plain_link(uint64_t gigabits = 100, Time delay = kMicrosecond) {
  return {gigabits * 1'000'000'000, delay, 0};
}

// A switch whose priority 3 is lossless: threshold alpha, headroom for a microsecond of cable.
inline SwitchSettings lossless_switch(double alpha = 0.125, uint64_t buffer = 32ull << 20) {
  SwitchSettings settings;
  settings.buffer_bytes = buffer;
  GroupSettings& group = settings.port.groups[3];
  group.lossless = true;
  group.alpha = alpha;
  group.headroom_bytes = 40'000;
  group.xon_offset_bytes = 3'000;
  settings.port.pfc.rx_mask = settings.port.pfc.tx_mask = 1 << 3;
  return settings;
}

struct Star {
  Star(uint32_t hosts, const SwitchSettings& settings, const LinkSettings& link = plain_link(),
       uint64_t seed = 1, HostSettings host = obeying())
      : network(seed) {
    for (uint32_t h = 0; h < hosts; ++h) network.add_host(host);
    network.add_switch(settings);
    for (uint32_t h = 0; h < hosts; ++h) network.connect(h, hosts, link);
    network.finish();
    for (uint32_t h = 0; h < hosts; ++h)
      generators.push_back(std::make_unique<Generator>(network, h));
  }
  static HostSettings obeying() {
    HostSettings host;
    host.pfc.rx_mask = 1 << 3;
    return host;
  }
  Generator& host(uint32_t h) { return *generators[h]; }
  // The switch's port toward a host.
  PortId egress(uint32_t h) const { return network.port(network.host_port(h)).peer; }

  Network network;
  std::vector<std::unique_ptr<Generator>> generators;
};

}  // namespace verbena::fabric::test
