// The device list and the functions that say what a device is called. A device, once listed, keeps
// its address for the life of the process: programs keep such pointers longer than they may.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "abi/device.h"
#include "abi/errors.h"
#include "abi/port_events.h"
#include "base/endian.h"

namespace verbena::abi {
namespace {

using Clock = std::chrono::steady_clock;

struct Registry {
  host::ForkMutex mutex;         // outside those of the devices
  std::vector<Device*> devices;  // every device ever listed
  Clock::time_point read_at{};
};

// Never destroyed: exit handlers of programs still use verbs.
Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

// How old the model may be when a query is answered from it. Listing devices always reads anew.
constexpr auto kModelLifetime = std::chrono::seconds(1);

void copy_text(char* to, size_t size, const std::string& text) {
  std::snprintf(to, size, "%s", text.c_str());
}

Device* make_device(const host::DeviceModel& model, int index) {
  Device* device = new Device{};
  device->index = index;
  device->base.node_type = IBV_NODE_CA;
  device->base.transport_type = IBV_TRANSPORT_IB;
  copy_text(device->base.name, sizeof device->base.name, model.name);
  copy_text(device->base.dev_name, sizeof device->base.dev_name, fmt::format("uverbs{}", index));
  copy_text(device->base.dev_path, sizeof device->base.dev_path,
            fmt::format("/sys/class/infiniband_verbs/uverbs{}", index));
  copy_text(device->base.ibdev_path, sizeof device->base.ibdev_path,
            "/sys/class/infiniband/" + model.name);
  return device;
}

using Model = std::shared_ptr<const host::DeviceModel>;

struct Change {
  Device* device;
  Model before, after;
};

// Told without any lock of ours: the fork handlers take them in another order.
void report(const std::vector<Change>& changes) {
  for (const Change& each : changes) report_changes(each.device, *each.before, *each.after);
}

void replace_model(Device* device, Model model, std::vector<Change>& changes) {
  std::lock_guard lock(device->mutex);
  if (device->model) changes.push_back({device, device->model, model});
  device->model = std::move(model);
}

// Matches what the machine has now with the devices known so far. Registry locked.
std::vector<Device*> merge(Registry& all, const std::vector<host::DeviceModel>& models,
                           std::vector<Change>& changes) {
  std::vector<Device*> present;
  for (const host::DeviceModel& model : models) {
    Device* device = nullptr;
    for (Device* known : all.devices)
      if (model.name == known->base.name) device = known;
    if (!device) {
      device = make_device(model, static_cast<int>(all.devices.size()));
      all.devices.push_back(device);
    }
    replace_model(device, std::make_shared<host::DeviceModel>(model), changes);
    present.push_back(device);
  }
  for (Device* known : all.devices) {  // its interface is gone, or down and without an address
    if (std::find(present.begin(), present.end(), known) != present.end()) continue;
    auto gone = std::make_shared<host::DeviceModel>(*known->model);
    gone->port_active = false;
    replace_model(known, std::move(gone), changes);
  }
  all.read_at = Clock::now();
  return present;
}

}  // namespace

Result<std::vector<Device*>> list_devices() {
  auto models = host::Process::get().devices();
  if (!models) return tl::unexpected(models.error());
  Registry& all = registry();
  std::vector<Change> changes;
  std::vector<Device*> present;
  {
    std::lock_guard lock(all.mutex);
    present = merge(all, *models, changes);
  }
  report(changes);
  return present;
}

std::shared_ptr<const host::DeviceModel> model_of(Device* device) {
  Registry& all = registry();
  bool old;
  {
    std::lock_guard lock(all.mutex);
    old = Clock::now() - all.read_at > kModelLifetime;
    if (old) all.read_at = Clock::now();
  }
  if (old) static_cast<void>(list_devices());  // on failure the last good model stands
  std::lock_guard device_lock(device->mutex);
  return device->model;
}

uint32_t next_handle() {
  static std::atomic<uint32_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

ibv_device** ibv_get_device_list(int* num_devices) {
  return shielded_pointer<ibv_device*>([&]() -> ibv_device** {
    if (num_devices) *num_devices = 0;
    auto devices = list_devices();
    if (!devices)
      return refuse_null(devices.error().code, "ibv_get_device_list: {}", devices.error().message);
    auto** list = static_cast<ibv_device**>(std::calloc(devices->size() + 1, sizeof(ibv_device*)));
    if (!list) return nullptr;
    for (size_t i = 0; i < devices->size(); ++i) list[i] = &(*devices)[i]->base;
    if (num_devices) *num_devices = static_cast<int>(devices->size());
    return list;
  });
}

void ibv_free_device_list(ibv_device** list) {
  std::free(list);
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

int ibv_get_device_index(ibv_device* device) {
  return cast(device)->index;
}

__be64 ibv_get_device_guid(ibv_device* device) {
  std::lock_guard lock(cast(device)->mutex);
  return byteswap64(cast(device)->model->node_guid);
}

}  // extern "C"
