// The verbs' numbers, as the engine needs them without any system header. Values equal those of
// infiniband/verbs.h; the Door asserts it.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbena::engine {

enum class QpType : uint8_t { kRc = 2, kUc = 3, kUd = 4, kXrcSend = 9, kXrcRecv = 10 };
enum class QpState : uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr };
enum class MigState : uint8_t { kMigrated, kRearm, kArmed };

enum class WcStatus : uint8_t {
  kSuccess = 0,
  kLocLenErr = 1,
  kLocQpOpErr = 2,
  kLocProtErr = 4,
  kWrFlushErr = 5,
  kMwBindErr = 6,
  kBadRespErr = 7,
  kLocAccessErr = 8,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
  kGeneralErr = 21,
};

enum class WcOpcode : uint8_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInv = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kRecv = 128,
  kRecvRdmaWithImm = 129,
};

enum class WrOpcode : uint8_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kAtomicCmpAndSwp = 5,
  kAtomicFetchAndAdd = 6,
  kLocalInv = 7,
  kBindMw = 8,
  kSendWithInv = 9,
  kFlush = 14,
  kAtomicWrite = 15,
};

enum SendFlags : uint32_t { kFence = 1, kSignaled = 2, kSolicited = 4, kInline = 8 };
enum WcFlags : uint32_t { kWcGrh = 1, kWcWithImm = 2, kWcWithInv = 8 };

enum class AsyncType : uint8_t {
  kCqErr = 0,
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kPortActive = 9,
  kPortErr = 10,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
  kGidChange = 18,
};

// Bits of enum ibv_qp_attr_mask.
enum QpAttrMask : uint32_t {
  kAttrState = 1u << 0,
  kAttrCurState = 1u << 1,
  kAttrEnSqdAsyncNotify = 1u << 2,
  kAttrAccessFlags = 1u << 3,
  kAttrPkeyIndex = 1u << 4,
  kAttrPort = 1u << 5,
  kAttrQkey = 1u << 6,
  kAttrAv = 1u << 7,
  kAttrPathMtu = 1u << 8,
  kAttrTimeout = 1u << 9,
  kAttrRetryCnt = 1u << 10,
  kAttrRnrRetry = 1u << 11,
  kAttrRqPsn = 1u << 12,
  kAttrMaxQpRdAtomic = 1u << 13,
  kAttrAltPath = 1u << 14,
  kAttrMinRnrTimer = 1u << 15,
  kAttrSqPsn = 1u << 16,
  kAttrMaxDestRdAtomic = 1u << 17,
  kAttrPathMigState = 1u << 18,
  kAttrCap = 1u << 19,
  kAttrDestQpn = 1u << 20,
  kAttrRateLimit = 1u << 25,
};

// Path MTU codes 1..5 are 256..4096 bytes.
constexpr uint32_t path_mtu_bytes(uint8_t code) {
  return 128u << code;
}

inline constexpr uint32_t kMulticastQpn = 0xffffff;
inline constexpr uint32_t kPrivilegedQkey = 1u << 31;  // IBA 10.2.5
inline constexpr uint32_t kMaxMessageBytes = 1u << 31;
// One packet of the same-host link: large enough for memcpy speed, small enough that a long
// message shows progress to its timers.
inline constexpr uint32_t kLocalPathMtu = 256 * 1024;

// Packets that `bytes` of one message make on the wire at a path MTU (code 1..5; 0: one packet).
constexpr uint32_t wire_packets(uint8_t path_mtu, uint32_t bytes) {
  uint32_t full = path_mtu ? path_mtu_bytes(path_mtu) : UINT32_MAX;
  return bytes <= full ? 1 : bytes / full + (bytes % full != 0);
}

// Local ACK timeout: 4.096 us * 2^code (IBA 9.7.6.1.3); code 0 means none.
constexpr Duration ack_timeout(uint8_t code) {
  return picoseconds(4'096'000LL << (code & 31));
}
// RNR NAK timer codes 0..31 (IBA table 45).
Duration rnr_timeout(uint8_t code);
// AETH credit codes 0..30; 31 means "no credit information" (IBA table 44).
uint32_t credits_of_code(uint8_t code);
uint8_t code_of_credits(uint32_t credits);

inline constexpr char kUnknownName[] = "unknown";
// kUnknownName for a value that is none.
const char* name(QpState state);
const char* name(QpType type);
const char* name(WcStatus status);
const char* name(WrOpcode opcode);

}  // namespace verbena::engine
