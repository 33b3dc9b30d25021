// The verbs devices as rdma_cm sees them: opened once and kept, one protection domain each, found
// by the addresses in their GID tables.
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

constexpr uint8_t kPortNumber = 1;  // our devices have one port
constexpr size_t kMaxGids = 1024;

struct Device {
  std::string name;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_xrcd* xrcd = nullptr;
};

// library() held.
std::vector<Device>& known_devices() {
  static auto* devices = new std::vector<Device>;
  return *devices;
}

Device* find_device(const std::string& name) {
  for (Device& device : known_devices())
    if (device.name == name) return &device;
  return nullptr;
}

Device* find_device(ibv_context* context) {
  for (Device& device : known_devices())
    if (device.context == context) return &device;
  return nullptr;
}

// The open context of a device; null with errno.
ibv_context* open_once(ibv_device* device) {
  const std::string name = ibv_get_device_name(device);
  {
    Lock lock(library());
    if (Device* known = find_device(name)) return known->context;
  }
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) return nullptr;
  ibv_context* first = nullptr;
  {
    Lock lock(library());
    if (Device* known = find_device(name)) first = known->context;
    if (first == nullptr) known_devices().push_back({name, context, nullptr, nullptr});
  }
  if (first == nullptr) return context;
  ibv_close_device(context);  // another thread was faster
  return first;
}

// Those that can be opened. When one cannot, `error` says why; ENODEV: there is none.
std::vector<ibv_context*> open_all(int& error) {
  std::vector<ibv_context*> contexts;
  int count = 0;
  error = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) {
    error = errno;
    return contexts;
  }
  for (int i = 0; i < count; ++i) {
    if (ibv_context* context = open_once(list[i]))
      contexts.push_back(context);
    else
      error = errno;
  }
  ibv_free_device_list(list);
  if (count == 0) error = ENODEV;
  return contexts;
}

// Those that are open already.
std::vector<ibv_context*> opened() {
  Lock lock(library());
  std::vector<ibv_context*> contexts;
  for (const Device& device : known_devices()) contexts.push_back(device.context);
  return contexts;
}

std::vector<ibv_gid_entry> gid_table(ibv_context* context) {
  std::vector<ibv_gid_entry> table(kMaxGids);
  const ssize_t entries = ibv_query_gid_table(context, table.data(), table.size(), 0);
  table.resize(static_cast<size_t>(std::max<ssize_t>(entries, 0)));
  return table;
}

// Index of the GID in the device's table, RoCE v2 before others; -1: not there.
int gid_index(ibv_context* context, const engine::Gid& gid, uint32_t interface) {
  int found = -1;
  for (const ibv_gid_entry& entry : gid_table(context)) {
    if (memcmp(entry.gid.raw, gid.bytes.data(), gid.bytes.size()) != 0) continue;
    if (gid.is_link_local() && interface != 0 && entry.ndev_ifindex != 0 &&
        entry.ndev_ifindex != interface)
      continue;
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) return static_cast<int>(entry.gid_index);
    if (found < 0) found = static_cast<int>(entry.gid_index);
  }
  return found;
}

// The one protection domain of the library on this device; null with errno.
ibv_pd* default_pd(ibv_context* context) {
  {
    Lock lock(library());
    Device* device = find_device(context);
    if (device != nullptr && device->pd != nullptr) return device->pd;
  }
  ibv_pd* pd = ibv_alloc_pd(context);
  if (pd == nullptr) return nullptr;
  ibv_pd* first = nullptr;
  {
    Lock lock(library());
    Device* device = find_device(context);
    if (device != nullptr && device->pd != nullptr) first = device->pd;
    if (device != nullptr && device->pd == nullptr) device->pd = pd;
  }
  if (first == nullptr) return pd;
  ibv_dealloc_pd(pd);
  return first;
}

}  // namespace

int check_local(const engine::Gid& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return errno;
  bool found = false;
  for (ifaddrs* each = list; each != nullptr && !found; each = each->ifa_next)
    if (each->ifa_addr != nullptr)
      if (std::optional<engine::Gid> gid = gid_of(each->ifa_addr)) found = *gid == address;
  freeifaddrs(list);
  return found ? 0 : EADDRNOTAVAIL;
}

ibv_xrcd* default_xrcd(ibv_context* context) {
  {
    Lock lock(library());
    Device* device = find_device(context);
    if (device != nullptr && device->xrcd != nullptr) return device->xrcd;
  }
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;
  attr.oflags = 0100;  // O_CREAT
  ibv_xrcd* xrcd = ibv_open_xrcd(context, &attr);
  if (xrcd == nullptr) return nullptr;
  ibv_xrcd* first = nullptr;
  {
    Lock lock(library());
    Device* device = find_device(context);
    if (device != nullptr && device->xrcd != nullptr) first = device->xrcd;
    if (device != nullptr && device->xrcd == nullptr) device->xrcd = xrcd;
  }
  if (first == nullptr) return xrcd;
  ibv_close_xrcd(xrcd);
  return first;
}

void take_context(Id& id, ibv_context* context) {
  id.verbs = context;
  id.port_num = kPortNumber;
  if (id.pd == nullptr) id.pd = default_pd(context);
  ibv_device_attr device{};
  if (ibv_query_device(context, &device) == 0) {
    id.max_responder_resources = static_cast<uint8_t>(std::min(device.max_qp_rd_atom, 0xff));
    id.max_initiator_depth = static_cast<uint8_t>(std::min(device.max_qp_init_rd_atom, 0xff));
  }
  ibv_port_attr attr{};
  if (ibv_query_port(context, kPortNumber, &attr) == 0) {
    if (!id.passive) id.path_mtu = static_cast<uint8_t>(attr.active_mtu);
    id.rate = attr.active_width == 2 && attr.active_speed == 1 ? IBV_RATE_10_GBPS : IBV_RATE_MAX;
  }
}

int take_device(Id& id) {
  const auto take_of = [&id](const std::vector<ibv_context*>& contexts) {
    for (ibv_context* context : contexts) {
      if (id.verbs != nullptr && id.verbs != context) continue;
      const int index = gid_index(context, id.source, id.scope);
      if (index < 0) continue;
      id.gid_index = index;
      if (id.verbs == nullptr) take_context(id, context);
      return true;
    }
    return false;
  };
  // Each connection comes here, and asking the system for its devices takes longer than the rest.
  if (take_of(opened())) return 0;
  int error = 0;
  if (take_of(open_all(error))) return 0;
  // One that could not be opened may be the one.
  return error != 0 ? error : ENODEV;
}

int take_device_for_loopback(Id& id) {
  const bool ipv4 = id.source.is_ipv4();
  int error = 0;
  for (ibv_context* context : open_all(error)) {
    if (id.verbs != nullptr && id.verbs != context) continue;
    for (const ibv_gid_entry& entry : gid_table(context)) {
      engine::Gid gid;
      memcpy(gid.bytes.data(), entry.gid.raw, gid.bytes.size());
      if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || gid.is_ipv4() != ipv4 || gid.is_link_local())
        continue;
      id.source = id.destination = gid;
      id.gid_index = static_cast<int>(entry.gid_index);
      if (id.verbs == nullptr) take_context(id, context);
      return 0;
    }
  }
  return error != 0 ? error : ENODEV;
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

ibv_context** rdma_get_devices(int* num_devices) {
  return shielded(static_cast<ibv_context**>(nullptr), [&]() -> ibv_context** {
    if (num_devices != nullptr) *num_devices = 0;
    int error = 0;
    const std::vector<ibv_context*> contexts = open_all(error);
    if (contexts.empty()) {
      errno = error;
      return nullptr;
    }
    auto** list = static_cast<ibv_context**>(calloc(contexts.size() + 1, sizeof(ibv_context*)));
    if (list == nullptr) return nullptr;
    std::copy(contexts.begin(), contexts.end(), list);
    if (num_devices != nullptr) *num_devices = static_cast<int>(contexts.size());
    return list;
  });
}

void rdma_free_devices(ibv_context** list) {
  free(list);
}
}
