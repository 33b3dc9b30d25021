// Programs that ask about RDMA devices outside the verbs API read /sys/class/infiniband and look at
// /dev/infiniband. This file builds the same picture of the device model as a private directory;
// the shim or a mount namespace shows it in the usual place.
//
//   ROOT/sys/class/{infiniband,infiniband_verbs,infiniband_mad,pci_bus}/...
//   ROOT/sys/devices/pcibe00:NN/be00:NN:00.0/...     one invented PCI slot per device
//   ROOT/dev/infiniband/{uverbsN,NAME}       symbolic links to /dev/null
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/config.h"

namespace verbena::host {

inline constexpr size_t kMaxTrees = 64;  // kept per user; the longest unused are removed

struct TreeNode {
  enum class Kind : uint8_t { kFile, kLink, kDirectory };
  Kind kind = Kind::kFile;
  std::string path;     // below the root, without a leading '/'
  std::string content;  // of a file, or the target of a link
};

// Every node of the tree, parents of a node need not be listed. Pure: the same devices give the
// same nodes.
std::vector<TreeNode> tree_content(std::span<const DeviceModel> devices);

// "be00:00:00.0": the invented PCI address of the device at `index` (0..kMaxDevices-1). PCI domain
// be00 belongs to no machine we know, so no real device is hidden.
std::string pci_address(size_t index);

// The folder of a port's counter: "counters" when the name starts with "port_", else
// "hw_counters", as Linux drivers divide them.
const char* counter_folder(std::string_view name);

// A directory only this user can enter, created if need be: verbena-UID, or verbena-UID.1 and on
// where others have that name, below $XDG_RUNTIME_DIR, /dev/shm, $TMPDIR or /tmp, the first that
// works. Errors: EACCES, naming each that was tried.
Result<std::string> private_directory();

// The root of a tree for `devices` below `base`, built if no identical one is there. Safe for any
// number of processes at once: a tree is built aside and renamed into place. The returned path is
// absolute if `base` is. Errors: the errno of the file operation that failed, with its path.
Result<std::string> ensure_tree(std::span<const DeviceModel> devices, const std::string& base);

// private_directory() and then ensure_tree(); in the next of the directories where that fails, say
// because the first one's file system is full. Errors: those of the first.
Result<std::string> ensure_tree(std::span<const DeviceModel> devices);

}  // namespace verbena::host
