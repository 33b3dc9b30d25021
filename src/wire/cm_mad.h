// Management datagrams of the IB connection manager as structs of endian integers (IBA volume 1,
// 13.4 and 12.6), and rdma_cm's IP header in front of a REQ's private data (IBA A11.4). Each body
// follows the 24-byte header; load() and store() of headers.h read and write them whole.
#pragma once

#include "wire/headers.h"

namespace verbena::wire {

inline constexpr size_t kMadBytes = 256;
inline constexpr size_t kCmBodyBytes = 232;

struct MadHeader {  // IBA 13.4.3
  uint8_t base_version;
  uint8_t management_class;
  uint8_t class_version;
  uint8_t method;
  be16 status;
  be16 class_specific;
  be64 transaction_id;
  be16 attribute;
  be16 reserved;
  be32 modifier;

  static constexpr uint8_t kBaseVersion = 1;
  static constexpr uint8_t kClassCm = 7;
  static constexpr uint8_t kCmVersion = 2;
  static constexpr uint8_t kMethodSend = 3;
};

enum class CmAttribute : uint16_t {  // IBA 16.7.3
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1a,
};

struct CmPath {  // primary and alternate path of a REQ
  be16 local_lid;
  be16 remote_lid;
  uint8_t local_gid[16];
  uint8_t remote_gid[16];
  be32 flow_rate;  // flow label 31:12, packet rate 5:0
  uint8_t traffic_class;
  uint8_t hop_limit;
  uint8_t sl;           // service level 7:4, subnet local 3
  uint8_t ack_timeout;  // 7:3
};

struct CmReq {  // IBA 12.6.5
  be32 local_comm_id;
  be32 vendor;
  be64 service_id;
  be64 ca_guid;
  be32 reserved;
  be32 qkey;
  be24 qpn;
  uint8_t responder_resources;
  be24 eecn;
  uint8_t initiator_depth;
  be24 remote_eecn;
  uint8_t
      remote_timeout;  // response timeout given to the receiver 7:3, transport 2:1, flow control 0
  be24 starting_psn;
  uint8_t local_timeout;  // response timeout of the sender 7:3, retry count 2:0
  be16 pkey;
  uint8_t mtu;      // path MTU 7:4, RDC exists 3, RNR retry count 2:0
  uint8_t retries;  // most CM retries 7:4, SRQ 3, extended transport 2:0
  CmPath primary;
  CmPath alternate;
  uint8_t private_data[92];
};

struct CmMra {  // IBA 12.6.6
  be32 local_comm_id;
  be32 remote_comm_id;
  uint8_t message;          // 7:6: 0 REQ, 1 REP, 2 LAP
  uint8_t service_timeout;  // 7:3
  uint8_t private_data[222];
};

struct CmRej {  // IBA 12.6.7
  be32 local_comm_id;
  be32 remote_comm_id;
  uint8_t message;      // 7:6: 0 REQ, 1 REP, 2 no message
  uint8_t info_length;  // 7:1
  be16 reason;
  uint8_t info[72];
  uint8_t private_data[148];
};

struct CmRep {  // IBA 12.6.8
  be32 local_comm_id;
  be32 remote_comm_id;
  be32 qkey;
  be24 qpn;
  uint8_t reserved1;
  be24 eecn;
  uint8_t reserved2;
  be24 starting_psn;
  uint8_t reserved3;
  uint8_t responder_resources;
  uint8_t initiator_depth;
  uint8_t ack_delay;  // target ACK delay 7:3, failover 2:1, flow control 0
  uint8_t rnr_retry;  // RNR retry count 7:5, SRQ 4
  be64 ca_guid;
  uint8_t private_data[196];
};

struct CmRtu {  // IBA 12.6.9
  be32 local_comm_id;
  be32 remote_comm_id;
  uint8_t private_data[224];
};

struct CmDreq {  // IBA 12.6.10
  be32 local_comm_id;
  be32 remote_comm_id;
  be24 remote_qpn;
  uint8_t reserved;
  uint8_t private_data[220];
};

struct CmDrep {  // IBA 12.6.11
  be32 local_comm_id;
  be32 remote_comm_id;
  uint8_t private_data[224];
};

struct CmSidrReq {  // IBA 12.11.1
  be32 request_id;
  be16 pkey;
  be16 reserved;
  be64 service_id;
  uint8_t private_data[216];
};

struct CmSidrRep {  // IBA 12.11.2
  be32 request_id;
  uint8_t status;
  uint8_t info_length;
  be16 reserved1;
  be24 qpn;
  uint8_t reserved2;
  be64 service_id;
  be32 qkey;
  uint8_t info[72];
  uint8_t private_data[136];
};

struct CmIpHeader {    // IBA A11.4.2
  uint8_t version;     // major 7:4, minor 3:0, both 0
  uint8_t ip_version;  // 7:4: 4 or 6
  be16 source_port;
  uint8_t source[16];  // IPv4: the last 4 bytes, zeros before
  uint8_t destination[16];
};

static_assert(sizeof(MadHeader) == 24 && alignof(MadHeader) == 1);
static_assert(sizeof(CmPath) == 44 && alignof(CmPath) == 1);
static_assert(sizeof(CmReq) == kCmBodyBytes && alignof(CmReq) == 1);
static_assert(offsetof(CmReq, service_id) == 8 && offsetof(CmReq, qpn) == 32);
static_assert(offsetof(CmReq, remote_timeout) == 43 && offsetof(CmReq, local_timeout) == 47);
static_assert(offsetof(CmReq, primary) == 52 && offsetof(CmReq, private_data) == 140);
static_assert(sizeof(CmMra) == kCmBodyBytes && alignof(CmMra) == 1);
static_assert(sizeof(CmRej) == kCmBodyBytes && alignof(CmRej) == 1);
static_assert(offsetof(CmRej, reason) == 10 && offsetof(CmRej, private_data) == 84);
static_assert(sizeof(CmRep) == kCmBodyBytes && alignof(CmRep) == 1);
static_assert(offsetof(CmRep, ack_delay) == 26 && offsetof(CmRep, private_data) == 36);
static_assert(sizeof(CmRtu) == kCmBodyBytes && alignof(CmRtu) == 1);
static_assert(sizeof(CmDreq) == kCmBodyBytes && alignof(CmDreq) == 1);
static_assert(sizeof(CmDrep) == kCmBodyBytes && alignof(CmDrep) == 1);
static_assert(sizeof(CmSidrReq) == kCmBodyBytes && alignof(CmSidrReq) == 1);
static_assert(sizeof(CmSidrRep) == kCmBodyBytes && alignof(CmSidrRep) == 1);
static_assert(offsetof(CmSidrRep, service_id) == 12 && offsetof(CmSidrRep, private_data) == 96);
static_assert(sizeof(CmIpHeader) == 36 && alignof(CmIpHeader) == 1);

inline CmAttribute attribute_of(const MadHeader& header) {
  return static_cast<CmAttribute>(static_cast<uint16_t>(header.attribute));
}

// Whether this is a connection manager's MAD: its size, version, class, method and attribute.
inline bool is_cm_mad(std::span<const uint8_t> mad) {
  if (mad.size() != kMadBytes) return false;
  const MadHeader header = load<MadHeader>(mad.data());
  return header.base_version == MadHeader::kBaseVersion &&
         header.management_class == MadHeader::kClassCm &&
         header.class_version == MadHeader::kCmVersion && header.method == MadHeader::kMethodSend &&
         attribute_of(header) >= CmAttribute::kReq && attribute_of(header) <= CmAttribute::kApr;
}

}  // namespace verbena::wire
