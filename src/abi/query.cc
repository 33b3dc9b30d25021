// What a device, its port and its tables say about themselves: the device model in the verbs'
// words.
#include <algorithm>
#include <climits>
#include <cstring>

#include "abi/errors.h"
#include "abi/operations.h"
#include "abi/query.h"
#include "base/endian.h"
#include "engine/verbs.h"

namespace verbena::abi {
namespace {

constexpr uint32_t kPorts = 1;
constexpr uint8_t kAckDelayCode = 15;  // 4.096 us * 2^15: what software RoCE reports
constexpr uint8_t kPhysicalDisabled = 3;
constexpr uint8_t kPhysicalLinkUp = 5;
constexpr uint8_t kSubnetTimeout = 18;
constexpr uint16_t kDefaultPkey = 0xffff;

int as_int(uint64_t value) {
  return static_cast<int>(std::min<uint64_t>(value, INT_MAX));
}

// The memory management extensions are local invalidation, SEND with invalidate and registration by
// work request. The verbs have no call for the last, so who asks for the flag gets all there is.
unsigned capability_flags() {
  return IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CURR_QP_STATE_MOD |
         IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
         IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC | IBV_DEVICE_MEM_MGT_EXTENSIONS |
         IBV_DEVICE_MEM_WINDOW_TYPE_2B;
}

void fill_device_attr(const host::DeviceModel& model, ibv_device_attr& attr) {
  const host::Limits& limits = model.limits;
  std::memset(&attr, 0, sizeof attr);
  std::strncpy(attr.fw_ver, model.firmware_version.c_str(), sizeof attr.fw_ver - 1);
  attr.node_guid = attr.sys_image_guid = byteswap64(model.node_guid);
  attr.max_mr_size = limits.max_mr_size;
  attr.page_size_cap = ~uint64_t{4095};
  attr.vendor_id = model.vendor_id;
  attr.vendor_part_id = model.vendor_part_id;
  attr.hw_ver = model.hardware_version;
  attr.max_qp = as_int(limits.max_qp);
  attr.max_qp_wr = as_int(limits.max_qp_wr);
  attr.device_cap_flags = capability_flags();
  attr.max_sge = attr.max_sge_rd = as_int(limits.max_sge);
  attr.max_cq = as_int(limits.max_cq);
  attr.max_cqe = as_int(limits.max_cqe);
  attr.max_mr = as_int(limits.max_mr);
  attr.max_pd = as_int(limits.max_pd);
  attr.max_qp_rd_atom = as_int(limits.max_qp_rd_atom);
  attr.max_res_rd_atom = as_int(uint64_t{limits.max_qp} * limits.max_qp_rd_atom);
  attr.max_qp_init_rd_atom = as_int(limits.max_qp_init_rd_atom);
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mw = as_int(limits.max_mw);
  attr.max_mcast_grp = as_int(limits.max_mcast_grp);
  attr.max_mcast_qp_attach = kMulticastQpAttach;
  attr.max_total_mcast_qp_attach = as_int(uint64_t{limits.max_mcast_grp} * kMulticastQpAttach);
  attr.max_ah = as_int(limits.max_ah);
  attr.max_srq = as_int(limits.max_srq);
  attr.max_srq_wr = as_int(limits.max_srq_wr);
  attr.max_srq_sge = as_int(limits.max_srq_sge);
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = kAckDelayCode;
  attr.phys_port_cnt = kPorts;
}

// Entries the table shows: as on adapters there is room for more addresses than there are now.
size_t gid_table_length(const host::DeviceModel& model) {
  constexpr size_t kShownAtLeast = 16;
  return std::max(kShownAtLeast, model.gids.size());
}

// Null behind the end of the table; entries beyond the model's are empty.
const host::GidEntry* gid_entry(const host::DeviceModel& model, uint64_t index) {
  static const host::GidEntry* const kEmpty = new host::GidEntry;
  if (index < model.gids.size()) return &model.gids[index];
  return index < gid_table_length(model) ? kEmpty : nullptr;
}

void fill_port_attr(const host::DeviceModel& model, NewestPortAttr& attr) {
  std::memset(&attr, 0, sizeof attr);
  ibv_port_attr& port = attr.base;
  port.state = model.port_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = static_cast<ibv_mtu>(path_mtu_code(model.path_mtu));
  port.gid_tbl_len = static_cast<int>(gid_table_length(model));
  port.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  port.max_msg_sz = engine::kMaxMessageBytes;
  port.pkey_tbl_len = 1;
  port.max_vl_num = 1;
  port.subnet_timeout = kSubnetTimeout;
  port.active_width = model.active_width();
  port.active_speed = model.active_speed();
  port.phys_state = model.port_active ? kPhysicalLinkUp : kPhysicalDisabled;
  port.link_layer = model.lid() ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  port.flags = model.lid() ? 0 : IBV_QPF_GRH_REQUIRED;
  port.lid = port.sm_lid = model.lid();
}

void fill_gid_entry(const host::GidEntry& from, uint32_t index, ibv_gid_entry& to) {
  std::memset(&to, 0, sizeof to);
  std::memcpy(to.gid.raw, from.gid.bytes.data(), sizeof to.gid.raw);
  to.gid_index = index;
  to.port_num = 1;
  to.gid_type = IBV_GID_TYPE_ROCE_V2;
  to.ndev_ifindex = from.ifindex;
}

}  // namespace

uint8_t path_mtu_code(uint32_t bytes) {
  uint8_t code = 1;
  while (code < 5 && engine::path_mtu_bytes(code + 1) <= bytes) ++code;
  return code;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t attr_size) {
  return shielded([&] {
    // Not EOPNOTSUPP: the headers' inline function would fall back to ibv_query_device() and
    // succeed.
    if (input && input->comp_mask)
      return refuse(EINVAL, "ibv_query_device_ex: input comp_mask {:#x}: no bit is defined",
                    input->comp_mask);
    if (attr_size < sizeof attr->orig_attr)
      return refuse(EINVAL,
                    "ibv_query_device_ex: attr of {} bytes is shorter than "
                    "struct ibv_device_attr",
                    attr_size);
    auto model = model_of(context);
    ibv_device_attr_ex full;
    std::memset(&full, 0, sizeof full);
    fill_device_attr(*model, full.orig_attr);
    constexpr uint32_t kAllOdp = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                 IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                 IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
    constexpr uint32_t kUcOdp = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE;
    full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    full.odp_caps.per_transport_caps.rc_odp_caps = kAllOdp;
    full.odp_caps.per_transport_caps.uc_odp_caps = kUcOdp;
    full.odp_caps.per_transport_caps.ud_odp_caps =
        IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
    full.xrc_odp_caps = kAllOdp & ~uint32_t{IBV_ODP_SUPPORT_RECV};
    full.completion_timestamp_mask = ~uint64_t{0};
    full.hca_core_clock = 1'000'000;  // kHz: completion timestamps count nanoseconds
    full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
    full.max_dm_size = kMaxDeviceMemory;
    full.phys_port_cnt_ex = kPorts;
    std::memset(attr, 0, attr_size);
    std::memcpy(attr, &full, std::min(attr_size, sizeof full));
    return 0;
  });
}

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t attr_size) {
  return shielded([&] {
    if (port != kPorts)
      return refuse(EINVAL, "ibv_query_port: port {} does not exist, the device has port 1", port);
    NewestPortAttr full;
    fill_port_attr(*model_of(context), full);
    std::memset(attr, 0, attr_size);
    std::memcpy(static_cast<void*>(attr), &full, std::min(attr_size, sizeof full));
    return 0;
  });
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if (uint32_t unknown = values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK})
    return shielded([&] {
      return refuse(EOPNOTSUPP, "ibv_query_rt_values_ex: comp_mask bits {:#x} are unknown",
                    unknown);
    });
  if (values->comp_mask) {  // the clock of completion timestamps
    int64_t ns = host::Process::get().now().ns();
    values->raw_clock.tv_sec = ns / 1'000'000'000;
    values->raw_clock.tv_nsec = ns % 1'000'000'000;
  }
  return 0;
}

}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  return shielded([&] {
    fill_device_attr(*model_of(context), *attr);
    return 0;
  });
}

int ibv_query_port(ibv_context* context, uint8_t port, struct _compat_ibv_port_attr* attr) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr), kExportedPortAttrBytes);
}

int ibv_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed) {
  return shielded([&] {
    if (port != kPorts) return refuse(EINVAL, "ibv_query_port_speed: port {} does not exist", port);
    *speed = uint64_t{model_of(context)->rate_gbps} * 10;  // in 100 Mb/s
    return 0;
  });
}

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  return minus_one(shielded([&] {
    auto model = model_of(context);
    const host::GidEntry* entry = gid_entry(*model, static_cast<uint64_t>(index));
    if (port != kPorts || index < 0 || !entry)
      return refuse(EINVAL, "ibv_query_gid: no GID at port {} index {}; {} has {} entries", port,
                    index, model->name, model->gids.size());
    std::memcpy(gid->raw, entry->gid.bytes.data(), sizeof gid->raw);
    return 0;
  }));
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t entry_size) {
  return shielded([&] {
    auto model = model_of(context);
    const host::GidEntry* found = gid_entry(*model, index);
    if (flags) return refuse(EOPNOTSUPP, "ibv_query_gid_ex: flags {:#x}: no bit is defined", flags);
    if (port != kPorts || !found || entry_size < sizeof entry->gid)
      return refuse(EINVAL, "ibv_query_gid_ex: port {}, index {} of {}, entry of {} bytes", port,
                    index, gid_table_length(*model), entry_size);
    if (found->empty()) return refuse(ENODATA, "ibv_query_gid_ex: index {} is empty", index);
    ibv_gid_entry full;
    fill_gid_entry(*found, index, full);
    std::memset(entry, 0, entry_size);
    std::memcpy(entry, &full, std::min(entry_size, sizeof full));
    return 0;
  });
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                             uint32_t flags, size_t entry_size) {
  size_t count = 0;
  int error = shielded([&] {
    auto model = model_of(context);
    if (flags)
      return refuse(EOPNOTSUPP, "ibv_query_gid_table: flags {:#x}: no bit is defined", flags);
    if (entry_size < sizeof entries->gid)
      return refuse(EINVAL, "ibv_query_gid_table: entries of {} bytes", entry_size);
    for (uint32_t i = 0; i < model->gids.size(); ++i) {
      if (model->gids[i].empty()) continue;
      if (count == max_entries)
        return refuse(EINVAL,
                      "ibv_query_gid_table: room for {} entries is too little; give room "
                      "for gid_tbl_len = {}",
                      max_entries, gid_table_length(*model));
      ibv_gid_entry full;
      fill_gid_entry(model->gids[i], i, full);
      uint8_t* to = reinterpret_cast<uint8_t*>(entries) + count++ * entry_size;
      std::memset(to, 0, entry_size);
      std::memcpy(to, &full, std::min(entry_size, sizeof full));
    }
    return 0;
  });
  return error ? -error : static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context*, uint8_t port, int index, __be16* pkey) {
  if (port != kPorts || index != 0) {
    return minus_one(refuse(EINVAL, "ibv_query_pkey: port {} index {}; RoCE has one P_Key, index 0",
                            port, index));
  }
  *pkey = byteswap16(kDefaultPkey);
  return 0;
}

int ibv_get_pkey_index(ibv_context*, uint8_t port, __be16 pkey) {
  if (port == kPorts && pkey == byteswap16(kDefaultPkey)) return 0;
  return minus_one(refuse(EINVAL,
                          "ibv_get_pkey_index: P_Key {:#06x} is not in the table of port {}",
                          byteswap16(pkey), port));
}

// Exported at the private node: ibv_devinfo of rdma-core 25..56 asks for it. In this interface 0
// stands for InfiniBand or RoCE v1 and 1 for RoCE v2.
int verbena_query_gid_type(ibv_context* context, uint8_t port, unsigned index, uint32_t* type) {
  return minus_one(shielded([&] {
    auto model = model_of(context);
    if (port != kPorts || !gid_entry(*model, index))
      return refuse(EINVAL, "ibv_query_gid_type: port {}, index {} of {}", port, index,
                    gid_table_length(*model));
    *type = 1;
    return 0;
  }));
}

}  // extern "C"
