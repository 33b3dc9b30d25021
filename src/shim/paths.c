// The redirection itself. Longest-lived rule: when in doubt, the caller's own path is used.
#define _GNU_SOURCE
#include "shim/paths.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// `whole`: the prefix is a path component, so the next character must be '/' or the end. The
// others end inside a component: every device of the invented PCI domain be00.
static const struct {
  const char* prefix;
  bool whole;
} kOurs[] = {
    {"/sys/class/infiniband", true},       {"/sys/class/infiniband_verbs", true},
    {"/sys/class/infiniband_mad", true},   {"/dev/infiniband", true},
    {"/sys/class/pci_bus/be00:", false},   {"/sys/devices/pcibe00:", false},
    {"/sys/bus/pci/devices/be00:", false}, {"/sys/bus/pci/drivers/verbena", true},
};

// The tree as the environment names it and as the kernel does (no symbolic links), because
// realpath() and getcwd() give back the second.
static char tree_[VERBENA_PATH_MAX];
static char real_tree_[VERBENA_PATH_MAX];
static int ready_;  // 0 before, 1 with a tree, 2 without

// Asks the kernel for the name of an open descriptor: realpath() without libc's realpath, which
// this library replaces.
static void kernel_name(const char* path, char* out, size_t size) {
  static const char kFolder[] = "/proc/self/fd/";
  char link[64];
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
  if (fd < 0) return;
  char digits[16];
  size_t count = 0;
  for (long rest = fd; count == 0 || rest > 0; rest /= 10) digits[count++] = '0' + rest % 10;
  memcpy(link, kFolder, sizeof(kFolder) - 1);
  for (size_t i = 0; i < count; ++i) link[sizeof(kFolder) - 1 + i] = digits[count - 1 - i];
  link[sizeof(kFolder) - 1 + count] = '\0';
  const long got = syscall(SYS_readlinkat, AT_FDCWD, link, out, size - 1);
  out[got > 0 && out[0] == '/' ? got : 0] = '\0';
  syscall(SYS_close, fd);
}

__attribute__((constructor)) static void read_environment(void) {
  if (__atomic_load_n(&ready_, __ATOMIC_ACQUIRE) != 0) return;
  const int saved = errno;
  const char* tree = getenv("VERBENA_TREE");
  int state = 2;
  if (tree != NULL && tree[0] == '/' && strlen(tree) < sizeof(tree_) / 2) {
    size_t size = strlen(tree);
    while (size > 1 && tree[size - 1] == '/') --size;
    memcpy(tree_, tree, size);
    kernel_name(tree_, real_tree_, sizeof(real_tree_));
    state = 1;
  }
  __atomic_store_n(&ready_, state, __ATOMIC_RELEASE);
  errno = saved;
}

// Copies an absolute path without doubled slashes and "." components; 0 when it does not fit.
static size_t tidy(const char* path, char* out, size_t room) {
  size_t size = 0;
  while (*path != '\0') {
    if (path[0] == '/' && path[1] == '/') {
      ++path;
    } else if (path[0] == '/' && path[1] == '.' && (path[2] == '/' || path[2] == '\0')) {
      path += 2;
    } else {
      if (size + 1 >= room) return 0;
      out[size++] = *path++;
    }
  }
  if (size == 0) out[size++] = '/';
  out[size] = '\0';
  return size;
}

static bool is_ours(const char* path) {
  for (size_t i = 0; i < sizeof(kOurs) / sizeof(kOurs[0]); ++i) {
    const size_t size = strlen(kOurs[i].prefix);
    if (strncmp(path, kOurs[i].prefix, size) != 0) continue;
    if (!kOurs[i].whole || path[size] == '/' || path[size] == '\0') return true;
  }
  return false;
}

// Cuts "NAME/.." pairs out of a tidy absolute path.
static void resolve_parents(char* path) {
  char* out = path;
  for (const char* in = path; *in != '\0';) {
    size_t size = 1;
    while (in[size] != '\0' && in[size] != '/') ++size;
    if (size == 3 && in[1] == '.' && in[2] == '.') {
      while (out > path && *--out != '/') {
      }
    } else {
      memmove(out, in, size);
      out += size;
    }
    in += size;
  }
  if (out == path) *out++ = '/';
  *out = '\0';
}

const char* verbena_path(const char* path, char* buffer) {
  if (path == NULL || path[0] != '/') return path;
  if (__atomic_load_n(&ready_, __ATOMIC_ACQUIRE) == 0) read_environment();
  if (ready_ != 1) return path;
  // Most paths are told apart by their first letter.
  const char* first = path + strspn(path, "/.");
  if (*first != 's' && *first != 'd') return path;

  const size_t prefix = strlen(tree_);
  memcpy(buffer, tree_, prefix);
  if (tidy(path, buffer + prefix, VERBENA_PATH_MAX - prefix) == 0) return path;
  if (!is_ours(buffer + prefix)) return path;
  if (strstr(buffer + prefix, "/..") != NULL) {
    // A path may leave our part again, as /sys/class/infiniband/../net does. Where the machine has
    // no such folder, only its text says where it leads.
    const int saved = errno;
    const bool inside = syscall(SYS_faccessat, AT_FDCWD, buffer, F_OK) == 0;
    errno = saved;
    if (inside) return buffer;
    memmove(buffer, buffer + prefix, strlen(buffer + prefix) + 1);
    resolve_parents(buffer);
    return is_ours(buffer) ? path : buffer;
  }
  return buffer;
}

static size_t prefix_in(const char* text, size_t size, const char* tree) {
  const size_t prefix = strlen(tree);
  if (prefix == 0 || size <= prefix + 4 || memcmp(text, tree, prefix) != 0) return 0;
  const char* rest = text + prefix;
  const bool ours = memcmp(rest, "/sys/", 5 < size - prefix ? 5 : size - prefix) == 0 ||
                    memcmp(rest, "/dev/", 5 < size - prefix ? 5 : size - prefix) == 0;
  return ours ? prefix : 0;
}

size_t verbena_strip_bytes(char* text, size_t size) {
  if (ready_ != 1) return size;
  size_t cut = prefix_in(text, size, tree_);
  if (cut == 0) cut = prefix_in(text, size, real_tree_);
  if (cut > 0) memmove(text, text + cut, size - cut);
  return size - cut;
}

char* verbena_strip(char* text) {
  if (text == NULL) return NULL;
  const size_t size = strlen(text);
  text[verbena_strip_bytes(text, size)] = '\0';
  return text;
}
