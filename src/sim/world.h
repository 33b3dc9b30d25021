// A world of engines in simulated time: devices joined by roads that lose, repeat, reorder and
// damage packets as one seed says. Packets travel as the bytes of the wire, with a real ICRC, or
// (between processes of one machine) with their payload by reference. One seed, one trace.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "engine/device.h"
#include "sim/faults.h"

namespace verbena::sim {

struct WorldOptions {
  uint64_t seed = 1;
  Faults faults;          // of every road that is not set apart with road()
  bool local = false;     // all hosts are processes of one machine
  uint32_t lose_ppm = 0;  // local: payloads that vanish while they are fetched
  uint64_t max_steps = 20'000'000;
};

struct WorldCounters {
  uint64_t packets = 0;  // handed to the roads
  uint64_t delivered = 0;
  uint64_t bad_icrc = 0;
  uint64_t unparsable = 0;
  uint64_t payload_lost = 0;
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Hosts are numbered from 0; host n has the GID ::ffff:10.0.0.(n+1).
  size_t add_host(engine::DeviceOptions options = {});
  engine::Device& device(size_t host) { return *hosts_[host].device; }
  size_t hosts() const { return hosts_.size(); }
  static engine::Gid gid(size_t host);
  engine::Path path() const { return options_.local ? engine::Path::kLocal : engine::Path::kWire; }
  Road& road(size_t from, size_t to);

  Instant now() const { return now_; }
  // Calls `action` at `when` (not before now); actions of one instant run in the order given.
  void at(Instant when, std::function<void()> action);
  // Lets the host send what was posted. Called for it after every event that concerns it.
  void service(size_t host);

  // After each step of a host: poll its completion queues, post more.
  std::function<void(size_t host)> on_step;
  // Sees every packet a road took (and perhaps loses).
  std::function<void(size_t host, const engine::TxPacket&)> on_send;
  // Sees every event the engines report.
  std::function<void(size_t host, const engine::Event&)> on_event;

  // Runs until nothing is left to happen, or `until`. False: max_steps were not enough.
  bool run(Instant until = kNever);
  bool quiet() const;

  // Folds a value of the caller's into the trace hash.
  void note(uint64_t value) { hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15ull ^ (hash_ >> 29); }
  uint64_t trace_hash() const { return hash_; }
  const WorldCounters& counters() const { return counters_; }

 private:
  class Sink;
  class Fetcher;
  struct Flight;
  struct Event;
  struct Host {
    std::unique_ptr<engine::Device> device;
    std::map<uint32_t, uint32_t> epochs;  // by queue pair number: how often it left service
    bool retry_planned = false;           // a refused packet is offered again
  };

  bool send(size_t from, const engine::TxPacket& packet);
  bool send_to(size_t from, size_t to, const engine::TxPacket& packet);
  std::vector<uint8_t> encode(const engine::TxPacket& packet) const;
  void deliver(Flight& flight);
  void deliver_bytes(Flight& flight);
  void deliver_local(Flight& flight);
  void push(Event event);
  Instant next_deadline(size_t& host) const;
  void take_events(size_t host);

  WorldOptions options_;
  Prng prng_;
  Instant now_{};
  uint64_t order_ = 0;
  uint64_t steps_ = 0;
  uint64_t hash_;
  std::vector<Host> hosts_;
  std::map<std::pair<size_t, size_t>, Road> roads_;
  std::vector<Event> queue_;  // binary heap by (time, order)
  WorldCounters counters_;
};

}  // namespace verbena::sim
