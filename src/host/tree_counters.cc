// flock(2) on the root directory: freed by the kernel when its holder dies, and never waited for.
#include "host/tree_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "host/tree.h"

namespace verbena::host {
namespace {

tl::unexpected<Error> failed(const std::string& what) {
  const int code = errno;
  return fail(code, fmt::format("{}: {}", what, strerror(code)));
}

bool valid_counter(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return c == '_' || (c < 0x80 && isalnum(c) != 0); });
}

// A file that holds anything but a number counts from 0.
uint64_t read_number(int fd) {
  char text[kCounterBytes];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  uint64_t value = 0;
  if (size > 0 && std::from_chars(text, text + size, value).ec != std::errc()) value = 0;
  return value;
}

bool add_to(int fd, uint64_t added) {
  const std::string text = counter_text(read_number(fd) + added);
  return pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

}  // namespace

std::string counter_text(uint64_t value) {
  std::string text = fmt::format("{}", value);
  text.resize(kCounterBytes, '\n');
  return text;
}

uint64_t counter_divisor(std::string_view name) {
  return name == "port_xmit_data" || name == "port_rcv_data" ? 4 : 1;
}

Result<TreeCounters> TreeCounters::lock(const std::string& tree) {
  const int root = open(tree.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return failed("cannot open " + tree);
  TreeCounters counters(root);
  if (flock(root, LOCK_EX | LOCK_NB) != 0) return failed("cannot lock " + tree);
  return counters;
}

TreeCounters::TreeCounters(TreeCounters&& other) noexcept : root_(std::exchange(other.root_, -1)) {}

TreeCounters::~TreeCounters() {
  if (root_ < 0) return;
  flock(root_, LOCK_UN);  // a copy of the descriptor may live on in a child until it execs
  close(root_);
}

Result<size_t> TreeCounters::add(const std::string& device,
                                 std::span<const CounterDelta> counters) {
  if (device.empty() || device.find('/') != device.npos || device == "." || device == "..")
    return fail(EINVAL, fmt::format("'{}' is no device name", device));
  const std::string port = "sys/class/infiniband/" + device + "/ports/1/";
  for (const CounterDelta& counter : counters) {
    if (!valid_counter(counter.name))
      return fail(EINVAL, fmt::format("'{}' is no counter name", counter.name));
    const std::string path =
        fmt::format("{}{}/{}", port, counter_folder(counter.name), counter.name);
    const int fd = openat(root_, path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return failed("cannot open " + path);
    const bool good = add_to(fd, counter.added);
    const int code = errno;
    close(fd);
    errno = code;
    if (!good) return failed("cannot write " + path);
  }
  return counters.size();
}

}  // namespace verbena::host
