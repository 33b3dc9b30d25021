// Makes the calls the shim wraps and prints what came of them, one line a call. Run by
// shim_test.cc with and without the shim.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEVICE "/sys/class/infiniband/verbena0"

static const char* fd_text(int fd) {
  static char text[256];
  ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (fd >= 0) close(fd);
  if (size < 0) return "error";
  text[size] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return text;
}

static const char* file_text(FILE* file) {
  static char text[256];
  if (file == NULL) return "error";
  if (fgets(text, sizeof(text), file) == NULL) text[0] = '\0';
  fclose(file);
  text[strcspn(text, "\n")] = '\0';
  return text;
}

static void say(const char* name, const char* value) {
  printf("%s %s\n", name, value);
}
static void say_code(const char* name, int code) {
  say(name, code == 0 ? "0" : "error");
}
static const char* or_error(const char* text) {
  return text != NULL ? text : "error";
}

static void opening(void) {
  say("open", fd_text(open(DEVICE "/node_type", O_RDONLY)));
  say("open64", fd_text(open64(DEVICE "/node_type", O_RDONLY)));
  say("openat", fd_text(openat(AT_FDCWD, DEVICE "/ports/1/link_layer", O_RDONLY)));
  say("fopen", file_text(fopen(DEVICE "/ports/1/state", "r")));
  say("fopen64", file_text(fopen64("//sys/class/./infiniband//verbena0/ports/1/state", "r")));
  const int folder = open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY);
  say("below", fd_text(openat(folder, "verbena0/node_type", O_RDONLY)));
  close(folder);
  say("other", file_text(fopen("/sys/class/infinibandit", "r")));
  say("null", file_text(fopen("/dev/null", "r")));
}

static void testing(void) {
  struct stat info;
  say_code("stat", stat(DEVICE, &info));
  say("directory", S_ISDIR(info.st_mode) ? "yes" : "no");
  say_code("lstat", lstat(DEVICE, &info));
  say("link", S_ISLNK(info.st_mode) ? "yes" : "no");
  say_code("fstatat", fstatat(AT_FDCWD, "/dev/infiniband/uverbs0", &info, 0));
  say("character", S_ISCHR(info.st_mode) ? "yes" : "no");
  struct statx extended;
  say_code("statx", statx(AT_FDCWD, DEVICE, 0, STATX_TYPE, &extended));
  say_code("access", access("/dev/infiniband/verbena0", R_OK | W_OK));
  say_code("faccessat", faccessat(AT_FDCWD, DEVICE, R_OK, 0));
  say_code("eaccess", eaccess(DEVICE, R_OK));
  errno = 7;
  (void)!access("/", F_OK);
  say("errno", errno == 7 ? "kept" : "changed");
}

static void listing(void) {
  DIR* folder = opendir("/sys/class/infiniband");
  int count = 0;
  if (folder != NULL) {
    while (readdir(folder) != NULL) ++count;
    closedir(folder);
  }
  printf("opendir %d\n", count);
  struct dirent** list = NULL;
  printf("scandir %d\n", scandir("/sys/class/infiniband", &list, NULL, alphasort));
  glob_t found = {0};
  if (glob("/sys/class/infiniband/*", 0, NULL, &found) == 0)
    printf("glob %zu %s\n", found.gl_pathc, found.gl_pathv[0]);
  else
    printf("glob none\n");
  globfree(&found);
}

static void naming(void) {
  char text[PATH_MAX];
  say("realpath", or_error(realpath(DEVICE "/device", text)));
  char* name = canonicalize_file_name(DEVICE);
  say("canonicalize", or_error(name));
  free(name);
  ssize_t size = readlink(DEVICE, text, sizeof(text) - 1);
  text[size > 0 ? size : 0] = '\0';
  say("readlink", text);
  say("slash-dots", fd_text(open("/sys/class/infiniband/../infiniband/verbena0/node_type", 0)));
  say("parent", fd_text(open("/sys/class/infiniband/../net/lo/ifindex", 0)));
  say_code("chdir", chdir(DEVICE));
  say("getcwd", or_error(getcwd(text, sizeof(text))));
  say("relative", fd_text(open("node_type", O_RDONLY)));
}

static void loading(const char* library) {
  Dl_info info;
  void* handle = dlopen(library, RTLD_NOW);
  void* symbol = handle != NULL ? dlsym(handle, "verbs_marker") : NULL;
  say("dlopen", symbol != NULL && dladdr(symbol, &info) != 0 ? info.dli_fname : "error");
}

int main(int argc, char** argv) {
  if (argc > 1) {
    loading(argv[1]);
    return 0;
  }
  opening();
  testing();
  listing();
  naming();
  return 0;
}
