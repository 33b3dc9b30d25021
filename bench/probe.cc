// The machine's own limits, measured with the working set of the program they bound: memcpy into
// a shared mapping, process_vm_writev, and raw UDP with GSO and GRO one way.
//   bench_probe memcpy BYTES            prints MiB/s
//   bench_probe process_vm BYTES        prints MiB/s
//   bench_probe udp-receive PORT SECONDS        prints MiB/s of payload received
//   bench_probe udp-send ADDRESS PORT SEGMENT SECONDS
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void stop(const char* what) {
  std::perror(what);
  std::exit(1);
}

void* shared(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) stop("bench_probe: mmap");
  std::memset(at, 1, bytes);
  return at;
}

constexpr double kMiB = 1024.0 * 1024.0;

void probe_memcpy(size_t bytes) {
  void* target = shared(bytes);
  std::vector<char> source(bytes, 2);
  size_t copied = 0;
  auto start = Clock::now();
  while (seconds_since(start) < 1.0) {
    for (int i = 0; i < 64; ++i) {
      std::memcpy(target, source.data(), bytes);
      asm volatile("" ::"r"(target) : "memory");
    }
    copied += 64 * bytes;
  }
  std::printf("%.1f\n", static_cast<double>(copied) / kMiB / seconds_since(start));
}

void probe_process_vm(size_t bytes) {
  void* target = shared(bytes);
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::vector<char> source(bytes, 2);
  iovec local{source.data(), bytes}, remote{target, bytes};
  size_t copied = 0;
  auto start = Clock::now();
  while (seconds_since(start) < 1.0) {
    if (process_vm_writev(child, &local, 1, &remote, 1, 0) < 0) stop("process_vm_writev");
    copied += bytes;
  }
  std::printf("%.1f\n", static_cast<double>(copied) / kMiB / seconds_since(start));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

void udp_receive(int port, double seconds) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  int on = 1, buffer = 4 << 20;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) stop("bind");
  setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
  timeval patience{static_cast<time_t>(seconds) + 2, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::vector<char> bytes(65536);
  size_t received = 0;
  Clock::time_point start;
  do {
    ssize_t n = recv(fd, bytes.data(), bytes.size(), 0);
    if (n < 0) break;
    if (received == 0) start = Clock::now();
    received += static_cast<size_t>(n);
  } while (seconds_since(start) < seconds);
  std::printf("%.1f\n", static_cast<double>(received) / kMiB / seconds_since(start));
}

void udp_send(const char* to, int port, int segment, double seconds) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  int discover = IP_PMTUDISC_DO;
  setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
  if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) != 0) stop("UDP_SEGMENT");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, to, &address.sin_addr);
  size_t batch = static_cast<size_t>(segment) * static_cast<size_t>(65000 / segment);
  std::vector<char> bytes(batch, 3);
  auto start = Clock::now();
  while (seconds_since(start) < seconds)
    sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&address),
           sizeof(address));
}

}  // namespace

int main(int argc, char** argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "memcpy" && argc == 3) {
    probe_memcpy(std::strtoul(argv[2], nullptr, 10));
  } else if (mode == "process_vm" && argc == 3) {
    probe_process_vm(std::strtoul(argv[2], nullptr, 10));
  } else if (mode == "udp-receive" && argc == 4) {
    udp_receive(std::atoi(argv[2]), std::atof(argv[3]));
  } else if (mode == "udp-send" && argc == 6) {
    udp_send(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atof(argv[5]));
  } else {
    std::fprintf(stderr,
                 "usage: bench_probe memcpy BYTES | process_vm BYTES | udp-receive PORT SECONDS |"
                 " udp-send ADDRESS PORT SEGMENT SECONDS\n");
    return 2;
  }
  return 0;
}
