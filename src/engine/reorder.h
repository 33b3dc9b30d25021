// What a queue pair needs to live with packets that overtake each other, where the fabric spreads
// one connection over several paths: the agreed bounds, the packets that a responder holds back,
// and which answers a requester has. Decision 0008 has the reasons.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/psn.h"
#include "base/time.h"
#include "engine/transfer.h"

namespace verbena::engine {

inline constexpr uint32_t kMostReorderPackets = 65536;
// A NAK names this many packets at most: one, and seven bits of more.
inline constexpr uint32_t kMostNamedMissing = 128;

// Agreed by both ends, like a path MTU.
struct ReorderSettings {
  // Packets beyond a missing one that the responder holds back, and the most that a requester has
  // in flight: 1..kMostReorderPackets. 0: what comes behind a missing packet is dropped and sent
  // again.
  uint32_t packets = 0;
  // So long a gap may be mere disorder; then what is missing is asked for. Above zero.
  Duration wait = microseconds(100);
};

// Asks for what is missing: after the wait, then, should that be lost too, after four times as
// long, three times in all. Behind that is the requester's own timeout.
class GapTimer {
 public:
  Instant deadline() const { return deadline_; }
  bool due(Instant now) const { return now >= deadline_; }
  bool asked() const { return asked_ > 0; }
  // Something has been missing since `since`.
  void notice(Instant since, Duration wait) {
    if (asked_ == 0 && deadline_ == kNever) deadline_ = since + wait;
  }
  void ask(Instant now, Duration wait) {
    ++asked_;
    deadline_ = asked_ < kMostAsked ? now + wait * (int64_t{1} << 2 * asked_) : kNever;
  }
  void close() {
    deadline_ = kNever;
    asked_ = 0;
  }

 private:
  static constexpr uint32_t kMostAsked = 3;
  Instant deadline_ = kNever;
  uint32_t asked_ = 0;
};

// Requests behind a gap, whole, until their turn comes. Memory is taken for what is held and given
// back with it: at most `packets` times the path MTU.
class HeldPackets {
 public:
  struct Held {
    wire::Packet header;
    uint32_t length = 0;
    std::vector<uint8_t> bytes;  // of the payload; empty where payload is a length only
    Instant at;                  // when it arrived
  };
  enum class Added : uint8_t { kHeld, kAlready, kLost };

  // 1..kMostReorderPackets.
  explicit HeldPackets(uint32_t packets);

  uint32_t limit() const { return limit_; }
  bool empty() const { return count_ == 0; }
  // A packet 1..limit() behind the expected one. kLost: its payload vanished meanwhile.
  Added add(Instant now, const RxPacket& packet);
  // The one with this PSN, which is held no longer; null when there is none.
  std::unique_ptr<Held> take(Psn psn);
  // Takes away whatever has one of `count` PSNs from `from` on.
  void drop(Psn from, uint32_t count);
  // The first one behind `expected`. Not of nothing, and nothing held lies before `expected`.
  const Held& first_behind(Psn expected) const;
  void clear();

 private:
  std::unique_ptr<Held>& slot(Psn psn) { return slots_[psn.value() & mask_]; }

  uint32_t limit_;
  uint32_t mask_;
  uint32_t count_ = 0;
  std::vector<std::unique_ptr<Held>> slots_;
};

// One bit for each PSN of a window: whether its answer is here.
class AnsweredWindow {
 public:
  explicit AnsweredWindow(uint32_t packets);

  bool test(Psn psn) const { return (words_[index(psn)] >> bit(psn) & 1) != 0; }
  void set(Psn psn) { words_[index(psn)] |= uint64_t{1} << bit(psn); }
  void reset(Psn psn) { words_[index(psn)] &= ~(uint64_t{1} << bit(psn)); }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }

 private:
  size_t index(Psn psn) const { return (psn.value() & mask_) / 64; }
  static uint32_t bit(Psn psn) { return psn.value() % 64; }

  uint32_t mask_;
  std::vector<uint64_t> words_;
};

// The responder's side of it.
struct ReorderedRequests {
  explicit ReorderedRequests(const ReorderSettings& settings)
      : held(settings.packets), wait(settings.wait) {}
  void clear() {
    held.clear();
    gap.close();
  }

  HeldPackets held;
  GapTimer gap;  // while something is missing
  Duration wait;
};

// The requester's.
struct SelectiveRepeat {
  SelectiveRepeat(const ReorderSettings& settings, Psn first)
      : answered(settings.packets),
        acknowledged(first),
        heard(first),
        narrowed(first),
        wait(settings.wait) {}

  AnsweredWindow answered;  // READs, atomics and the like: responses that are here
  Psn acknowledged;         // the peer has executed everything before it
  Psn heard;                // nothing was heard about it or what is behind it
  Psn narrowed;             // a loss before it has halved the window already
  bool repairing = false;   // sends what is missing before `repair_end`, then goes on at `resume`
  bool exact = false;       // and asks for no answer behind it
  Psn repair_end, resume;
  bool probing = false;  // after a timeout one packet asks what is missing
  GapTimer gap;          // while answers are missing that others overtook
  Duration wait;
  // The peer refused a request, and answers to READs before it are still on their way.
  std::optional<wire::Packet> refused;
};

}  // namespace verbena::engine
