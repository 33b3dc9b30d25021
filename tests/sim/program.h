// One seed's program in its world: builds the hosts and ends, lets them post, and judges the end.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "end.h"
#include "plan.h"
#include "sim/world.h"

namespace verbena::sim::test {

class Program {
 public:
  // `log`: prints every packet and every explanation.
  explicit Program(const Plan& plan, bool log = false);
  explicit Program(uint64_t seed, bool log = false) : Program(draw_plan(seed), log) {}

  // True when everything was as it must be; else failure() says what was not.
  bool run();
  const std::string& failure() const { return failure_; }
  uint64_t hash() const { return world_.trace_hash(); }
  const World& world() const { return world_; }
  const Plan& plan() const { return plan_; }

 private:
  struct HostState {
    memory::ProtectionDomain domain;
    engine::XrcDomain xrc_domain;
    Area cells;
    std::vector<SharedCell> shared_cells;
  };
  // What one queue pair has sent, for the window rule.
  struct Stream {
    Psn next;
    bool known = false;
    uint64_t acknowledgements = 0;
  };

  void build();
  void start(End& end);
  void post_later(End& end);
  void receive_later(End& end, int rounds);
  void watch(size_t host, const engine::TxPacket& packet);
  void print(size_t host, const engine::TxPacket& packet);
  void check_cells();
  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }

  bool log_;
  Plan plan_;
  World world_;
  Prng prng_;
  std::vector<std::unique_ptr<HostState>> hosts_;
  std::vector<std::unique_ptr<End>> ends_;
  std::unordered_map<uint64_t, Stream> streams_;
  std::unordered_map<uint64_t, const End*> by_qp_;
  std::string failure_;
};

}  // namespace verbena::sim::test
