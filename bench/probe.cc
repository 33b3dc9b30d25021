// The machine's own limits, measured with the working set of the program they bound: memcpy into
// a shared mapping, process_vm_writev, raw UDP with GSO and GRO one way, and what a message of a
// few bytes takes through shared memory and through a UDP socket.
//   bench_probe memcpy BYTES            prints MiB/s
//   bench_probe process_vm BYTES        prints MiB/s
//   bench_probe ping                    prints us: half a round through shared memory
//   bench_probe udp-pong PORT SECONDS
//   bench_probe udp-ping ADDRESS PORT COUNT     prints us: half a round, both ends spinning
//   bench_probe udp-receive PORT SECONDS        prints MiB/s of payload received
//   bench_probe udp-send ADDRESS PORT SEGMENT SECONDS
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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

// Half of the middle one.
double median_half_us(std::vector<double>& rounds) {
  std::nth_element(rounds.begin(), rounds.begin() + static_cast<long>(rounds.size() / 2),
                   rounds.end());
  return rounds[rounds.size() / 2] * 1e6 / 2;
}

void stay_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu % static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), &one);
  sched_setaffinity(0, sizeof(one), &one);
}

void probe_ping() {
  constexpr uint64_t kRounds = 200'000;
  struct Word {
    alignas(128) std::atomic<uint64_t> value;
  };
  auto* words = static_cast<Word*>(shared(sizeof(Word) * 2));
  words[0].value = words[1].value = 0;
  pid_t child = fork();
  if (child == 0) {
    stay_on(0);
    for (uint64_t round = 1; round <= kRounds; ++round) {
      while (words[0].value.load(std::memory_order_acquire) != round) {
      }
      words[1].value.store(round, std::memory_order_release);
    }
    _exit(0);
  }
  stay_on(1);
  std::vector<double> rounds;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    auto start = Clock::now();
    words[0].value.store(round, std::memory_order_release);
    while (words[1].value.load(std::memory_order_acquire) != round) {
    }
    rounds.push_back(seconds_since(start));
  }
  waitpid(child, nullptr, 0);
  std::printf("%.3f\n", median_half_us(rounds));
}

constexpr size_t kPingBytes = 46;  // a WRITE of 2 bytes: BTH, RETH, payload, padding, ICRC

int udp_socket(int port) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) stop("bind");
  return fd;
}

void udp_pong(int port, double seconds) {
  int fd = udp_socket(port);
  char bytes[64];
  auto start = Clock::now();
  while (seconds_since(start) < seconds) {
    sockaddr_in from{};
    socklen_t length = sizeof(from);
    ssize_t n = recvfrom(fd, bytes, sizeof(bytes), 0, reinterpret_cast<sockaddr*>(&from), &length);
    if (n > 0)
      sendto(fd, bytes, static_cast<size_t>(n), 0, reinterpret_cast<sockaddr*>(&from), length);
  }
}

void udp_ping(const char* to, int port, int count) {
  int fd = udp_socket(0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, to, &address.sin_addr);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) stop("connect");
  char bytes[64] = {};
  std::vector<double> rounds;
  for (int i = 0; i < count; ++i) {
    auto start = Clock::now();
    if (send(fd, bytes, kPingBytes, 0) < 0) stop("send");
    while (recv(fd, bytes, sizeof(bytes), 0) < 0)
      if (seconds_since(start) > 1.0) stop("bench_probe: no answer");
    rounds.push_back(seconds_since(start));
  }
  std::printf("%.3f\n", median_half_us(rounds));
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
  } else if (mode == "ping" && argc == 2) {
    probe_ping();
  } else if (mode == "udp-pong" && argc == 4) {
    udp_pong(std::atoi(argv[2]), std::atof(argv[3]));
  } else if (mode == "udp-ping" && argc == 5) {
    udp_ping(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  } else if (mode == "udp-receive" && argc == 4) {
    udp_receive(std::atoi(argv[2]), std::atof(argv[3]));
  } else if (mode == "udp-send" && argc == 6) {
    udp_send(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atof(argv[5]));
  } else {
    std::fprintf(
        stderr,
        "usage: bench_probe memcpy BYTES | process_vm BYTES | ping | udp-pong PORT SECONDS |"
        " udp-ping ADDRESS PORT COUNT | udp-receive PORT SECONDS |"
        " udp-send ADDRESS PORT SEGMENT SECONDS\n");
    return 2;
  }
  return 0;
}
