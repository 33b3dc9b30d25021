// One draw per kind and packet, in a fixed order: the same seed and packets give the same faults.
#include "link/fault_lens.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

namespace verbena::link {
namespace {

constexpr char kHelp[] =
    " (VERBENA_FAULT is a list like drop=1%,duplicate=0.5%,reorder=2%,corrupt=100ppm,delay=50us,"
    "seed=7: shares of 0% to 100%, of 0ppm to 1000000ppm or from 0.0 to 1.0, a delay of at most "
    "10s)";

// What follows the number at the start of `text`; -1 is the number where there is none. Read by
// hand, because strtod() goes by the program's locale, whose numbers may have a comma.
std::string_view take_number(std::string_view text, double& value) {
  value = -1;
  double place = 1;
  bool point = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point && value >= 0) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      if (point) place /= 10;
      value = (value < 0 ? 0 : value) * (point ? 1 : 10) + (c - '0') * place;
    } else {
      break;
    }
  }
  return text.substr(at);
}

// Without a unit it is a fraction and needs its point: "drop=1" means 1% to one reader and
// everything to another.
bool parse_share(const std::string& text, uint32_t& ppm) {
  double value;
  const std::string_view unit = take_number(text, value);
  const bool fraction = unit.empty() && (value == 0 || text.find('.') != text.npos);
  double scale = unit == "%" ? 1e4 : unit == "ppm" ? 1 : fraction ? 1e6 : 0;
  if (scale == 0 || !(value >= 0) || value * scale > 1e6) return false;
  ppm = static_cast<uint32_t>(value * scale + 0.5);
  return true;
}

bool parse_delay(const std::string& text, Duration& delay) {
  double value;
  const std::string_view name = take_number(text, value);
  double ps = name == "ns" ? 1e3 : name == "us" ? 1e6 : name == "ms" ? 1e9 : name == "s" ? 1e12 : 0;
  if (ps == 0 || !(value >= 0) || value * ps > 1e13) return false;
  delay = picoseconds(static_cast<int64_t>(value * ps));
  return true;
}

bool parse_part(const std::string& name, const std::string& value, FaultPlan& plan) {
  if (name == "drop") return parse_share(value, plan.drop_ppm);
  if (name == "duplicate" || name == "dup") return parse_share(value, plan.duplicate_ppm);
  if (name == "reorder") return parse_share(value, plan.reorder_ppm);
  if (name == "corrupt") return parse_share(value, plan.corrupt_ppm);
  if (name == "delay") return parse_delay(value, plan.delay);
  if (name != "seed" || value.empty()) return false;
  char* end = nullptr;
  plan.seed = std::strtoull(value.c_str(), &end, 0);
  return *end == 0;
}

}  // namespace

Result<FaultPlan> parse_fault_plan(std::string_view text) {
  FaultPlan plan;
  while (!text.empty()) {
    std::string part(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (part.empty()) continue;
    size_t equals = part.find('=');
    if (equals == std::string::npos ||
        !parse_part(part.substr(0, equals), part.substr(equals + 1), plan)) {
      return fail(EINVAL, "cannot understand fault \"" + part + "\"" + kHelp);
    }
  }
  return plan;
}

FaultLens::FaultLens(engine::PacketSink& below, const FaultPlan& plan,
                     std::function<void()> spoil_next)
    : below_(below), plan_(plan), spoil_next_(std::move(spoil_next)), prng_(plan.seed) {}

bool FaultLens::send(const engine::TxPacket& packet) {
  const Prng before = prng_;
  const bool drop = prng_.chance_ppm(plan_.drop_ppm);
  const bool corrupt = prng_.chance_ppm(plan_.corrupt_ppm);
  const bool duplicate = prng_.chance_ppm(plan_.duplicate_ppm);
  const bool reorder = prng_.chance_ppm(plan_.reorder_ppm);
  const uint32_t overtakers = 1 + static_cast<uint32_t>(prng_.below(8));
  if (drop) {
    ++counters_.offered;
    ++counters_.dropped;
    return true;
  }
  if (corrupt) {
    if (spoil_next_ && packet.path != engine::Path::kLocal) {
      spoil_next_();
      if (!below_.send(packet)) {
        prng_ = before;
        return false;
      }
    }
    ++counters_.offered;
    ++counters_.corrupted;
    return true;
  }
  if (reorder && hold(reordered_, packet, now_ + kMaxReorder, overtakers, counters_.reordered)) {
    ++counters_.offered;
    return true;
  }
  if (!pass(packet)) {
    prng_ = before;  // offered again, the packet meets the same fate
    return false;
  }
  ++counters_.offered;
  if (duplicate) {
    ++counters_.duplicated;
    pass(packet);
  }
  overtake();
  return true;
}

// On the way down: at once, or after the delay, behind what is already waiting.
bool FaultLens::pass(const engine::TxPacket& packet) {
  if (plan_.delay > Duration{} && hold(delayed_, packet, now_ + plan_.delay, 0, counters_.delayed))
    return true;
  return below_.send(packet);
}

// The bytes are copied: whoever sent them may be gone when they leave. Who is gone already has lost
// the packet, as on the roads below: zeros under a good ICRC would be data.
bool FaultLens::hold(std::deque<Held>& where, const engine::TxPacket& packet, Instant due,
                     uint32_t overtakers, uint64_t& held_packets) {
  if (where.size() >= kMaxHeld || packet.payload.length > kMaxHeldBytes || !packet.route) {
    return false;
  }
  Held held;
  held.packet = packet;
  held.route = *packet.route;
  held.bytes.resize(packet.payload.length);
  if (!packet.payload.copy_out(0, held.bytes.data(), held.bytes.size())) {
    ++counters_.dropped;
    return true;
  }
  held.due = due;
  held.overtakers = overtakers;
  where.push_back(std::move(held));
  ++held_packets;
  return true;
}

bool FaultLens::release(Held& held) {
  held.segment = {held.bytes.data(), held.bytes.size()};
  held.packet.route = &held.route;
  held.packet.payload = {{&held.segment, 1}, static_cast<uint32_t>(held.bytes.size()), nullptr};
  held.packet.by_reference = false;
  return below_.send(held.packet);
}

// A packet has passed: the held-back ones it overtook may follow.
void FaultLens::overtake() {
  for (Held& held : reordered_) {
    if (held.overtakers > 0) --held.overtakers;
  }
  while (!reordered_.empty() && reordered_.front().overtakers == 0 && release(reordered_.front())) {
    reordered_.pop_front();
  }
}

void FaultLens::on_time(Instant now) {
  now_ = now;
  for (std::deque<Held>* held : {&delayed_, &reordered_}) {
    while (!held->empty() && held->front().due <= now && release(held->front())) {
      held->pop_front();
    }
  }
}

Instant FaultLens::next_deadline() const {
  Instant next = kNever;
  if (!delayed_.empty()) next = std::min(next, delayed_.front().due);
  if (!reordered_.empty()) next = std::min(next, reordered_.front().due);
  return next;
}

}  // namespace verbena::link
