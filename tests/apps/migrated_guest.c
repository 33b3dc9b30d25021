// A guest whose memory says whether it survived a migration: QEMU loads it as a multiboot kernel.
// It fills a still region once, and writes a busy region over for ever; before each write it checks
// what the last round left there. Each round ends with its number, in hexadecimal, on the serial
// port. A wrong word ends it with "bad". After kRounds rounds all of both regions was looked at.
#include <stdint.h>

enum {
  kSerial = 0x3f8,
  kRounds = 16,
  kStillBytes = 48 << 20,
  kBusyBytes = 2 << 20,
};

static uint32_t* const still = (uint32_t*)(8u << 20);
static uint32_t* const busy = (uint32_t*)(60u << 20);

// What a multiboot loader looks for: magic, flags, their sum to 0.
__attribute__((section(".text.header"), used)) static const uint32_t header[] = {0x1badb002, 0,
                                                                                 0u - 0x1badb002};

static void out(uint16_t port, uint8_t value) {
  __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static uint8_t in(uint16_t port) {
  uint8_t value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

static void print(const char* text) {
  for (; *text; ++text) {
    while (!(in(kSerial + 5) & 0x20)) {
    }
    out(kSerial, (uint8_t)*text);
  }
}

static void print_number(uint32_t number) {
  char text[10];
  for (int i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[number >> (28 - 4 * i) & 15];
  text[8] = '\n';
  text[9] = 0;
  print(text);
}

static uint32_t word(uint32_t index, uint32_t round) {
  return (index + 1) * 2654435761u ^ round * 40503u;
}

static void expect(uint32_t found, uint32_t wanted) {
  if (found == wanted) return;
  print("bad\n");
  for (;;) __asm__ volatile("cli; hlt");
}

__attribute__((used)) static void run(void) {
  const uint32_t still_words = kStillBytes / 4, busy_words = kBusyBytes / 4;
  for (uint32_t i = 0; i < still_words; ++i) still[i] = word(i, 0);
  for (uint32_t i = 0; i < busy_words; ++i) busy[i] = word(i, 0);
  for (uint32_t round = 1;; ++round) {
    for (uint32_t i = 0; i < busy_words; ++i) {
      expect(busy[i], word(i, round - 1));
      busy[i] = word(i, round);
    }
    for (uint32_t i = round % kRounds; i < still_words; i += kRounds) expect(still[i], word(i, 0));
    print_number(round);
  }
}

__asm__(
    ".global _start\n"
    "_start:\n"
    "  cli\n"
    "  mov $0x7f0000, %esp\n"
    "  call run\n");
