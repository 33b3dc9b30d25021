// The table of queue pair transitions.
#include "engine/transitions.h"

namespace verbena::engine {

namespace {

enum Service : uint8_t { kForRc = 1, kForUc = 2, kForUd = 4, kForXrcSend = 8, kForXrcRecv = 16 };
constexpr uint8_t kForXrc = kForXrcSend | kForXrcRecv;
constexpr uint8_t kForReliable = kForRc | kForXrc;
constexpr uint8_t kForConnected = kForReliable | kForUc;

struct Row {
  QpState from, to;
  uint8_t services;
  uint32_t required, optional;
};

using enum QpState;

constexpr uint32_t kInitConnected = kAttrPkeyIndex | kAttrPort | kAttrAccessFlags;
constexpr uint32_t kInitDatagram = kAttrPkeyIndex | kAttrPort | kAttrQkey;
constexpr uint32_t kRtrCommon = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
constexpr uint32_t kRtrResponder = kRtrCommon | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
constexpr uint32_t kRtrOptional = kAttrAltPath | kAttrAccessFlags | kAttrPkeyIndex;
constexpr uint32_t kRtsRequester =
    kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic;
constexpr uint32_t kRtsOptionalUc =
    kAttrCurState | kAttrAltPath | kAttrAccessFlags | kAttrPathMigState;
constexpr uint32_t kRtsOptional = kRtsOptionalUc | kAttrMinRnrTimer;
constexpr uint32_t kSqdUc =
    kAttrAv | kAttrAltPath | kAttrAccessFlags | kAttrPkeyIndex | kAttrPathMigState;
constexpr uint32_t kSqdReliable = kSqdUc | kAttrPort | kAttrTimeout | kAttrRetryCnt |
                                  kAttrRnrRetry | kAttrMaxQpRdAtomic | kAttrMaxDestRdAtomic |
                                  kAttrMinRnrTimer;

constexpr Row kRows[] = {
    {kReset, kInit, kForConnected, kInitConnected, 0},
    {kReset, kInit, kForUd, kInitDatagram, 0},
    {kInit, kInit, kForConnected, 0, kInitConnected},
    {kInit, kInit, kForUd, 0, kInitDatagram},
    {kInit, kRtr, kForRc | kForXrcRecv, kRtrResponder, kRtrOptional},
    {kInit, kRtr, kForUc | kForXrcSend, kRtrCommon, kRtrOptional},
    {kInit, kRtr, kForUd, 0, kAttrPkeyIndex | kAttrQkey},
    {kRtr, kRts, kForRc | kForXrcSend, kRtsRequester, kRtsOptional},
    {kRtr, kRts, kForXrcRecv, kAttrTimeout | kAttrSqPsn, kRtsOptional},
    {kRtr, kRts, kForUc, kAttrSqPsn, kRtsOptionalUc},
    {kRtr, kRts, kForUd, kAttrSqPsn, kAttrCurState | kAttrQkey},
    {kRts, kRts, kForReliable, 0, kRtsOptional},
    {kRts, kRts, kForUc, 0, kRtsOptionalUc},
    {kRts, kRts, kForUd, 0, kAttrCurState | kAttrQkey},
    {kRts, kSqd, kForConnected | kForUd, 0, kAttrEnSqdAsyncNotify},
    {kSqd, kRts, kForReliable, 0, kRtsOptional},
    {kSqd, kRts, kForUc, 0, kRtsOptionalUc},
    {kSqd, kRts, kForUd, 0, kAttrCurState | kAttrQkey},
    {kSqd, kSqd, kForReliable, 0, kSqdReliable},
    {kSqd, kSqd, kForUc, 0, kSqdUc},
    {kSqd, kSqd, kForUd, 0, kAttrPkeyIndex | kAttrQkey},
    {kSqe, kRts, kForUc, 0, kAttrCurState | kAttrAccessFlags},
    {kSqe, kRts, kForUd, 0, kAttrCurState | kAttrQkey},
};

constexpr uint8_t service_of(QpType type) {
  switch (type) {
    case QpType::kRc:
      return kForRc;
    case QpType::kUc:
      return kForUc;
    case QpType::kUd:
      return kForUd;
    case QpType::kXrcSend:
      return kForXrcSend;
    case QpType::kXrcRecv:
      return kForXrcRecv;
  }
  return 0;
}

}  // namespace

Transition transition(QpType type, QpState from, QpState to) {
  if (to == kReset) return {true, 0, 0};
  if (to == kErr) return {from != kReset, 0, 0};
  for (const Row& row : kRows)
    if (row.from == from && row.to == to && (row.services & service_of(type)))
      return {true, row.required, row.optional};
  return {};
}

const char* attribute_name(uint32_t mask) {
  constexpr const char* kNames[] = {"IBV_QP_STATE",
                                    "IBV_QP_CUR_STATE",
                                    "IBV_QP_EN_SQD_ASYNC_NOTIFY",
                                    "IBV_QP_ACCESS_FLAGS",
                                    "IBV_QP_PKEY_INDEX",
                                    "IBV_QP_PORT",
                                    "IBV_QP_QKEY",
                                    "IBV_QP_AV",
                                    "IBV_QP_PATH_MTU",
                                    "IBV_QP_TIMEOUT",
                                    "IBV_QP_RETRY_CNT",
                                    "IBV_QP_RNR_RETRY",
                                    "IBV_QP_RQ_PSN",
                                    "IBV_QP_MAX_QP_RD_ATOMIC",
                                    "IBV_QP_ALT_PATH",
                                    "IBV_QP_MIN_RNR_TIMER",
                                    "IBV_QP_SQ_PSN",
                                    "IBV_QP_MAX_DEST_RD_ATOMIC",
                                    "IBV_QP_PATH_MIG_STATE",
                                    "IBV_QP_CAP",
                                    "IBV_QP_DEST_QPN"};
  if (mask == 0) return "none";
  auto bit = static_cast<uint32_t>(__builtin_ctz(mask));
  if (bit < sizeof(kNames) / sizeof(kNames[0])) return kNames[bit];
  return bit == 25 ? "IBV_QP_RATE_LIMIT" : "an unknown attribute";
}

}  // namespace verbena::engine
