// The tables behind the verbs' codes: RNR timers, AETH credits, names.
#include "engine/verbs.h"

#include <cstddef>
#include <iterator>

namespace verbena::engine {

namespace {

// IBA table 45, in units of 10 us.
constexpr uint32_t kRnrTimers[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                     16,    24,   32,   48,    64,    96,    128,   192,
                                     256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                     4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

// IBA table 44.
constexpr uint32_t kCredits[31] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

}  // namespace

Duration rnr_timeout(uint8_t code) {
  return microseconds(10) * kRnrTimers[code & 31];
}

uint32_t credits_of_code(uint8_t code) {
  return kCredits[code < 31 ? code : 30];
}

uint8_t code_of_credits(uint32_t credits) {
  uint8_t code = 0;
  while (code < 30 && kCredits[code + 1] <= credits) ++code;
  return code;
}

const char* name(QpState state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  auto index = static_cast<size_t>(state);
  return index < std::size(kNames) ? kNames[index] : kUnknownName;
}

const char* name(QpType type) {
  switch (type) {
    case QpType::kRc:
      return "RC";
    case QpType::kUc:
      return "UC";
    case QpType::kUd:
      return "UD";
    case QpType::kXrcSend:
      return "XRC_SEND";
    case QpType::kXrcRecv:
      return "XRC_RECV";
  }
  return kUnknownName;
}

const char* name(WcStatus status) {
  switch (status) {
    case WcStatus::kSuccess:
      return "SUCCESS";
    case WcStatus::kLocLenErr:
      return "LOC_LEN_ERR";
    case WcStatus::kLocQpOpErr:
      return "LOC_QP_OP_ERR";
    case WcStatus::kLocProtErr:
      return "LOC_PROT_ERR";
    case WcStatus::kWrFlushErr:
      return "WR_FLUSH_ERR";
    case WcStatus::kMwBindErr:
      return "MW_BIND_ERR";
    case WcStatus::kBadRespErr:
      return "BAD_RESP_ERR";
    case WcStatus::kLocAccessErr:
      return "LOC_ACCESS_ERR";
    case WcStatus::kRemInvReqErr:
      return "REM_INV_REQ_ERR";
    case WcStatus::kRemAccessErr:
      return "REM_ACCESS_ERR";
    case WcStatus::kRemOpErr:
      return "REM_OP_ERR";
    case WcStatus::kRetryExcErr:
      return "RETRY_EXC_ERR";
    case WcStatus::kRnrRetryExcErr:
      return "RNR_RETRY_EXC_ERR";
    case WcStatus::kGeneralErr:
      return "GENERAL_ERR";
  }
  return kUnknownName;
}

const char* name(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kRdmaWrite:
      return "RDMA_WRITE";
    case WrOpcode::kRdmaWriteWithImm:
      return "RDMA_WRITE_WITH_IMM";
    case WrOpcode::kSend:
      return "SEND";
    case WrOpcode::kSendWithImm:
      return "SEND_WITH_IMM";
    case WrOpcode::kRdmaRead:
      return "RDMA_READ";
    case WrOpcode::kAtomicCmpAndSwp:
      return "ATOMIC_CMP_AND_SWP";
    case WrOpcode::kAtomicFetchAndAdd:
      return "ATOMIC_FETCH_AND_ADD";
    case WrOpcode::kLocalInv:
      return "LOCAL_INV";
    case WrOpcode::kBindMw:
      return "BIND_MW";
    case WrOpcode::kSendWithInv:
      return "SEND_WITH_INV";
    case WrOpcode::kFlush:
      return "FLUSH";
    case WrOpcode::kAtomicWrite:
      return "ATOMIC_WRITE";
  }
  return kUnknownName;
}

}  // namespace verbena::engine
